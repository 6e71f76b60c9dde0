"""Three or four whole routers: propagation times of changes, in virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.simulation.full.clients import Crowd, ReceiverPlan, SenderPlan
from tests.simulation.full.ledger import Ledger
from tests.simulation.full.network import Cable, Network
from tests.simulation.full.oracle import faults, leftovers, trees_broken, wrong_hops

CLIENT_S = 0.0002
LINK_S = 0.001
FEW_MS = 0.005
"""Spacings of the control plane, on top of the latency of links."""


def line(*names: str) -> tuple[Network, dict[str, Cable]]:
    """Routers in a line, converged; cables by name, as "AB"."""
    network = Network()
    for name in dict.fromkeys(names):
        network.router(name)
    cables = {one + other: network.cable(one, other, LINK_S) for one, other in pairwise(names)}
    network.start()
    network.until(lambda: not faults(network), 1.0)
    return network, cables


def crowd_of(network: Network) -> Crowd:
    return Crowd(network, Ledger(network))


def next_hop(network: Network, router: str, other: str) -> str | None:
    node = network.routers[router].core.nodes.get(other)
    hop = None if node is None else node.neighbour()
    return None if hop is None else hop.id


def test_a_line_of_three_converges_in_some_round_trips() -> None:
    network, _ = line("A", "B", "C")
    # Transport, SASL and open, begin and attach, HELLO and answer, RA or LSR, LSU, and all of it again one hop further.
    assert network.now - 1000.0 < 25 * LINK_S
    network.run(0.1)
    assert not faults(network)
    assert not wrong_hops(network)
    assert not [fault for origin in "ABC" for fault in trees_broken(network, origin)]


def test_a_sender_has_credit_one_way_after_the_consumer_attached() -> None:
    network, _ = line("A", "B", "C")
    crowd = crowd_of(network)
    sender = crowd.client(network.routers["A"]).sender("orders", SenderPlan(5, settled=0.0))
    consumer = crowd.client(network.routers["C"])
    network.run(1.0)
    assert sender().credit == 0
    attached = network.now
    consumer.receiver("orders", ReceiverPlan(faithful=1.0))
    network.until(lambda: sender().credit > 0, 1.0)
    assert network.now - attached <= CLIENT_S + 2 * LINK_S + CLIENT_S + FEW_MS
    network.run(0.2)
    assert not crowd.ledger.violations(faultless=True)
    assert len(crowd.ledger.sent) == 5


def test_credit_goes_when_the_last_consumer_does() -> None:
    network, _ = line("A", "B", "C")
    crowd = crowd_of(network)
    consumer = crowd.client(network.routers["C"])
    consumer.receiver("orders", ReceiverPlan())
    network.run(0.1)
    sender = crowd.client(network.routers["A"]).sender("orders", SenderPlan(0))
    network.run(0.1)
    assert sender().credit > 0
    left = network.now
    consumer.kill()
    network.until(lambda: sender().credit == 0, 1.0)
    assert network.now - left <= CLIENT_S + 2 * LINK_S + CLIENT_S + FEW_MS


def test_a_lost_link_is_gone_round_within_its_latency() -> None:
    network, cables = line("A", "B", "C", "D", "A")
    network.run(1.0)
    assert next_hop(network, "A", "B") == "B"
    cut = network.now
    cables["AB"].cut()
    network.until(lambda: next_hop(network, "A", "B") == "D" and next_hop(network, "B", "A") == "C", 1.0)
    assert network.now - cut <= 3 * LINK_S + FEW_MS
    network.until(lambda: not faults(network), 0.5)
    cables["AB"].mend()
    network.until(lambda: not faults(network) and next_hop(network, "A", "B") == "B", 10.0)


def test_a_dead_router_is_gone_everywhere_within_milliseconds() -> None:
    network, _ = line("A", "B", "C", "A")
    network.run(1.0)
    network.routers["B"].crash()
    killed = network.now
    network.until(lambda: not faults(network), 1.0)
    assert network.now - killed <= 2 * LINK_S + FEW_MS
    network.routers["B"].start()
    network.until(lambda: not faults(network), 6.0)
    network.run(1.0)
    assert not faults(network)


def test_a_restart_within_the_same_second_is_noticed() -> None:
    network, _ = line("A", "B", "C")
    crowd = crowd_of(network)
    crowd.client(network.routers["B"]).receiver("orders", ReceiverPlan())
    network.until(lambda: "M0orders" in network.routers["C"].core.addresses, 1.0)
    network.routers["B"].crash()
    network.routers["B"].start()
    network.until(lambda: not faults(network), 6.0)
    assert "M0orders" not in network.routers["C"].core.addresses
    assert not leftovers(network)


def test_a_silent_neighbour_is_dropped_after_hello_max_age() -> None:
    network, cables = line("A", "B", "C")
    network.run(1.0)
    silenced = network.now
    cables["AB"].silence()
    cores = [network.routers[name].core for name in "AC"]
    network.until(lambda: not cores[0].nodes and "A" not in cores[1].nodes, 10.0)
    assert 2.0 <= network.now - silenced <= 3.0 + 0.5
    cables["AB"].mend()
    network.until(lambda: not faults(network), 10.0)


def test_a_neighbour_is_kept_while_segments_of_it_arrive() -> None:
    network, cables = line("A", "B")
    network.run(1.0)
    routers = [network.routers[name] for name in "AB"]
    for router in routers:
        router.segments = lambda now: now
    cables["AB"].silence()
    network.run(10.0)
    assert all(router.core.nodes for router in routers)
    silenced = network.now
    for router in routers:
        router.segments = lambda _now: silenced
    network.until(lambda: not any(router.core.nodes for router in routers), 10.0)
    assert 2.0 <= network.now - silenced <= 3.0 + 0.5


def test_a_silent_client_is_dropped_after_the_idle_timeout() -> None:
    network, _ = line("A", "B")
    crowd = crowd_of(network)
    client = crowd.client(network.routers["B"])
    client.receiver("orders", ReceiverPlan())
    network.until(lambda: "M0orders" in network.routers["A"].core.addresses, 1.0)
    network.run(30.0)
    assert not client.gone, "heartbeats keep it"
    silenced = network.now
    client.end.wire.silent = True
    network.until(lambda: "M0orders" not in network.routers["A"].core.addresses, 60.0, 0.05)
    assert 8.0 <= network.now - silenced <= 16.0 + 0.5


@pytest.mark.parametrize("distribution", ["closest", "balanced"])
def test_a_transit_router_dies_and_senders_hear_of_each_delivery(distribution: str) -> None:
    network, _ = line("A", "B", "C", "D", "A")
    for router in network.routers.values():
        router.core.address_table.default_treatment = 2 if distribution == "closest" else 3
    crowd = crowd_of(network)
    crowd.client(network.routers["C"]).receiver("orders", ReceiverPlan(credit=300, delay=0.01, faithful=1.0))
    network.run(0.1)
    sender = crowd.client(network.routers["A"]).sender("orders", SenderPlan(400, settled=0.0, pace=0.0005))
    network.run(0.05)
    network.routers["B"].crash()
    network.until(lambda: not (sender().left or sender().under_way), 5.0, 0.01)
    assert not crowd.ledger.violations()
    fates = crowd.ledger.summary()
    assert fates["anycast unsettled accepted"] > 300, "it goes on by D"
    assert fates["anycast unsettled modified"] > 0, "what was on its way by B is in doubt"
