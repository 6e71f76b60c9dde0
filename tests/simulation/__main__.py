"""A large mesh of whole routers under virtual time: its convergence and its cost.

    python -m tests.simulation --routers 1000
    python -m tests.simulation --routers 3 --edges 1000
    python -m tests.simulation --routers 10 --announce 100000

Too long for CI, which runs `tests/simulation/full/test_full_large_mesh.py` and `test_full_edges.py` with fewer routers.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import time

import waymesh_amqp
from tests.simulation import address_scale, edge_scale
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults, links_of, random_network
from waymesh_router.routing.paths import Paths

SEED = 7
STEP_S = 0.05
LIMIT_S = 20.0


def converge(network: Network, what: str) -> None:
    """Run until every router knows what follows from the cables, and print how long that took."""
    before = time.process_time()
    took = network.until(lambda: not faults(network), LIMIT_S, STEP_S)
    print(f"{what}: converged after {took:.2f} virtual s, {time.process_time() - before:.0f} s of CPU", flush=True)


def print_paths(network: Network, rng: random.Random) -> None:
    """CPU of one router for a change of links: its own paths, then the trees of all other routers."""
    links = links_of(network)
    name = max(links, key=lambda router: len(links[router]))
    paths = Paths(name)
    for router, peers in links.items():
        paths.set_links(router, peers)
    paths.update()
    changed = rng.sample(sorted(links), 10)
    own = trees = 0.0
    for router in changed:
        start = time.process_time()
        paths.set_links(router, {})
        paths.update()
        computed = time.process_time()
        for origin in paths.routes:
            paths.find_behind(origin)
        own += computed - start
        trees += time.process_time() - computed
        paths.set_links(router, links[router])
        paths.update()
    each = 1000 / len(changed)
    print(f"paths after a change: {own * each:.1f} ms of CPU, and {trees * each:.0f} ms when all other routers send")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--routers", type=int, default=200, help="number of routers (200)")
    parser.add_argument("--edges", type=int, default=0, help="edge routers behind them, which then are looked at (0)")
    parser.add_argument("--addresses", type=int, default=2, help="addresses with a consumer at each edge router (2)")
    parser.add_argument("--announce", type=int, default=0, help="addresses of one router, which then are looked at (0)")
    options = parser.parse_args()
    count = options.routers
    gc.disable()  # the routers' objects are many and live to the end
    if options.edges:
        print(f"{count} routers, {options.edges} edge routers, {waymesh_amqp.engine()} engine", flush=True)
        edge_scale.main(SEED, count, options.edges, options.addresses)
        return
    if options.announce:
        address_scale.main(SEED, count, options.announce)
        return
    rng = random.Random(SEED)
    network = random_network(SEED, count, count * 3 // 10)
    print(f"{count} routers, {len(network.cables)} links, {waymesh_amqp.engine()} engine", flush=True)
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    network.start()
    converge(network, "start")
    for cable in rng.sample(network.cables, count * 3 // 40):
        network.after(rng.uniform(0.0, 0.1), cable.cut)
    network.run(0.1)
    converge(network, f"loss of {count * 3 // 40} links")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - empty
    print(f"memory: {used / 1024 / count:.2f} MiB a router, at most", flush=True)
    print_paths(network, rng)


if __name__ == "__main__":
    main()
