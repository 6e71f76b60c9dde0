"""A router that restarts: time until messages are forwarded over it again, in virtual time."""

from __future__ import annotations

import pytest

from tests.simulation.full.clients import Crowd, ReceiverPlan, SenderPlan
from tests.simulation.full.ledger import Ledger
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults

LINK_S = 0.001
ROUND_TRIPS_S = 0.05


def converged(seed: int, *pairs: str) -> Network:
    """Routers named by letters; the first of a pair connects to the second."""
    network = Network(seed)
    for name in sorted({letter for pair in pairs for letter in pair}):
        network.router(name)
    for pair in pairs:
        network.cable(pair[0], pair[1], LINK_S)
    network.start()
    network.until(lambda: not faults(network), 5.0)
    network.run(2.0)
    return network


@pytest.mark.parametrize("away", [0.5, 3.0, 10.0, 60.0])
@pytest.mark.parametrize("seed", range(4))
def test_messages_flow_within_a_tenth_of_the_time_that_the_middle_router_was_away(away: float, seed: int) -> None:
    network = converged(seed, "AB", "BC")
    crowd = Crowd(network, Ledger(network))
    crowd.client(network.routers["C"]).receiver("orders", ReceiverPlan(credit=10, faithful=1.0))
    sender = crowd.client(network.routers["A"]).sender("orders", SenderPlan(0))
    network.run(0.1)
    assert sender().credit > 0
    middle = network.routers["B"]
    middle.crash()
    network.run(away)
    assert sender().credit == 0
    middle.start()
    returned = network.now
    network.until(lambda: sender().credit > 0, 10.0)
    assert network.now - returned <= min(away * 0.1, 2.0) + ROUND_TRIPS_S


def test_who_hears_of_it_from_others_does_not_wait_for_the_next_try() -> None:
    """B has a connector to A, and C one to B: when B is back, A knows at once, and C by A."""
    network = converged(1, "BA", "CA", "CB")
    returning, waiting = network.routers["B"], network.routers["C"]
    returning.crash()
    network.run(300.0)
    for _ in range(5):
        returning.start()
        returned = network.now
        network.until(lambda: "B" in waiting.core.nodes and waiting.core.nodes["B"].connection is not None, 5.0)
        assert network.now - returned <= ROUND_TRIPS_S
        returning.crash()
        network.run(120.0)
