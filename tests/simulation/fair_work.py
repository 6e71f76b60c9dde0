"""How work is spread in random meshes of whole routers under virtual time: the time of a burst by the ideal one.

    .venv/bin/python -m tests.simulation.fair_work [--seeds 3] [--routers 2,5,10,20]

Two workers a router and two more, at random routers; their speeds differ by up to ten, jobs of one by half. Links of
0.2 to 50 ms one way; each sender has 250 credits. The ideal time is that of workers who always have work.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from statistics import median

from tests.simulation.full.workers import Shop

NAMES = "ABCDEFGHIJKLMNOPQRST"
LIMIT_S = 20_000.0


@dataclass(frozen=True)
class Kind:
    """Seconds of a job at the fastest and the slowest worker, and the number of jobs."""

    title: str
    fastest: float
    slowest: float
    jobs: int


KINDS = (Kind("short", 0.005, 0.05, 2000), Kind("long", 0.5, 5.0, 1000))


def cables(rng: random.Random, count: int) -> dict[tuple[str, str], float]:
    """A random tree, and half as many further links."""
    pairs = [(i, rng.randrange(i)) for i in range(1, count)]
    for _ in range(count // 2 if count > 2 else 0):
        one, other = rng.sample(range(count), 2)
        pairs.append((max(one, other), min(one, other)))
    return {(NAMES[a], NAMES[b]): 0.0002 * 250 ** rng.random() for a, b in sorted(set(pairs))}


def burst(seed: int, routers: int, kind: Kind, prefetch: int, senders: int) -> float:
    """The time of a burst by the ideal one."""
    rng = random.Random(100 * seed + routers)
    shop = Shop(NAMES[:routers], cables(rng, routers))
    speed = 0.0
    for _ in range(2 * routers + 2):
        job = kind.fastest * (kind.slowest / kind.fastest) ** rng.random()
        shop.worker(rng.choice(NAMES[:routers]), job, prefetch)
        speed += 1 / job
    shop.network.run(2.0)
    clients = [shop.crowd.client(shop.network.routers[rng.choice(NAMES[:routers])]) for _ in range(senders)]
    sent = [shop.start(client, kind.jobs // senders) for client in clients]
    took = shop.network.until(lambda: not any(s.left or s.under_way for s in sent), LIMIT_S)
    return took * speed / (kind.jobs // senders * senders)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fair_work", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--routers", default="2,5,10,20", help="sizes of the meshes")
    options = parser.parse_args()
    sizes = [int(size) for size in options.routers.split(",")]
    for kind in KINDS:
        for senders in (1, 4):
            for prefetch in (1, 10, 100):
                took = sorted(
                    burst(seed, size, kind, prefetch, senders) for seed in range(options.seeds) for size in sizes
                )
                title = f"{kind.title}, senders {senders}, prefetch {prefetch}"
                print(f"{title:34} {median(took):6.2f} ({took[0]:.2f} – {took[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
