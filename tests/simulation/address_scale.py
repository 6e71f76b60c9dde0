"""Many addresses of one router, under virtual time: until all others know them, and what they cost these."""

from __future__ import annotations

import resource
import time

from tests.simulation.full.edges import ControlMessages
from tests.simulation.full.oracle import faults, random_network
from waymesh_router.core.link_kinds import BALANCED

LIMIT_S = 600.0
STEP_S = 0.05


def main(seed: int, routers: int, addresses: int) -> None:
    """Print what it takes."""
    network = random_network(seed, routers, routers * 3 // 10)
    network.start()
    network.until(lambda: not faults(network), LIMIT_S, STEP_S)
    first, *others = network.routers.values()
    messages = ControlMessages(network)
    before, used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for number in range(addresses):
        first.router.mesh.local_added(f"M0orders/customer-{number:07d}", BALANCED)
    first.wake()
    last = [router.core.addresses for router in others]
    took = network.until(lambda: all(len(known) >= addresses for known in last), LIMIT_S, STEP_S)
    used = time.process_time() - used
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{addresses} addresses: known everywhere after {took:.2f} virtual s; {messages.text()}; {used:.0f} s of CPU")
    each = more * 1024 / addresses / len(others)
    print(f"memory: {each:.0f} bytes for each address that a router knows of another, at most")
