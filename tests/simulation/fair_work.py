"""How work is spread in random meshes of whole routers under virtual time: the time of a burst by the ideal one.

    .venv/bin/python -m tests.simulation.fair_work [--seeds 3] [--routers 2,5,10,20] [--old] [--at-once 8 [--says]]
        [--jobs short,long] [--senders 1,4] [--prefetch 1,10,100]

Two workers a router and two more, at random routers; their speeds differ by up to ten, jobs of one by half. Links of
0.2 to 50 ms one way; each sender has 250 credits. The ideal time is that of workers who always have work. Messages:
those about demand, by the number of deliveries. `--at-once`: every second worker works on so many jobs at a time, of
which there are as many more; `--says`: all workers say how many.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

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


class Mesh:
    """A random mesh with workers, and the number of messages about demand."""

    def __init__(self, seed: int, routers: int, kind: Kind, prefetch: int, how: How) -> None:
        self.rng = rng = random.Random(100 * seed + routers)
        self.names = NAMES[:routers]
        self.messages = 0
        self.shop = Shop(self.names, cables(rng, routers), without_demand=self.names[::2] if how.old else "")
        for router in self.shop.network.routers.values():
            self._count(router.core.context.control_plane)
        self.speed = 0.0
        for number in range(2 * routers + 2):
            job = kind.fastest * (kind.slowest / kind.fastest) ** rng.random()
            at_once = how.at_once if number % 2 else 1
            self.shop.worker(rng.choice(self.names), job, max(prefetch, at_once), at_once=at_once, says=how.says)
            self.speed += at_once / job
        self.shop.network.run(2.0)

    def _count(self, plane: Any) -> None:
        tell = plane.tell

        def counted(router_id: str, body: Mapping[str, object]) -> None:
            self.messages += 1
            tell(router_id, body)

        plane.tell = counted


@dataclass(frozen=True)
class How:
    """`old`: half of the routers do not know demand. `at_once`: jobs on which every second worker works at a time;
    `says`: all workers say how many."""

    old: bool = False
    at_once: int = 1
    says: bool = False


@dataclass(frozen=True)
class Burst:
    """The time of a burst by the ideal one, and the messages between routers about a delivery."""

    ratio: float
    messages: float


def burst(seed: int, routers: int, kind: Kind, prefetch: int, senders: int, how: How) -> Burst:
    """Have a burst of work done."""
    mesh = Mesh(seed, routers, kind, prefetch, how)
    shop = mesh.shop
    count = kind.jobs * (how.at_once + 1) // 2 // senders
    clients = [shop.crowd.client(shop.network.routers[mesh.rng.choice(mesh.names)]) for _ in range(senders)]
    sent = [shop.start(client, count) for client in clients]
    took = shop.network.until(lambda: not any(s.left or s.under_way for s in sent), LIMIT_S)
    jobs = count * senders
    return Burst(took * mesh.speed / jobs, mesh.messages / jobs)


def numbers(text: str) -> list[int]:
    """Those of an option, separated by commas."""
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fair_work", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--routers", default="2,5,10,20", help="sizes of the meshes")
    parser.add_argument("--jobs", default="short,long", help="kinds of them")
    parser.add_argument("--senders", default="1,4", help="numbers of them")
    parser.add_argument("--prefetch", default="1,10,100", help="credits of a worker")
    parser.add_argument("--old", action="store_true", help="half of the routers do not know demand")
    parser.add_argument("--at-once", type=int, default=1, help="jobs of every second worker at a time")
    parser.add_argument("--says", action="store_true", help="workers say how many jobs they work on at a time")
    options = parser.parse_args()
    how = How(options.old, options.at_once, options.says)
    sizes = numbers(options.routers)
    for kind in [kind for kind in KINDS if kind.title in options.jobs.split(",")]:
        for senders in numbers(options.senders):
            for prefetch in numbers(options.prefetch):
                bursts = [
                    burst(seed, size, kind, prefetch, senders, how)
                    for seed in range(options.seeds)
                    for size in sizes
                ]
                took = sorted(one.ratio for one in bursts)
                said = sorted(one.messages for one in bursts)
                title = f"{kind.title}, senders {senders}, prefetch {prefetch}"
                times = f"{median(took):6.2f} ({took[0]:.2f} – {took[-1]:.2f})"
                print(f"{title:34} {times}   messages {median(said):.3f} ({said[-1]:.3f})", flush=True)


if __name__ == "__main__":
    main()
