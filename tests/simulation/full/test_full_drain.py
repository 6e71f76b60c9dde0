"""A router drains under load: no accepted message is lost or duplicated, transit traffic is redirected."""

from __future__ import annotations

import pytest

from tests.simulation.full.clients import Crowd, ReceiverPlan, SenderPlan
from tests.simulation.full.ledger import ACCEPTED, RELEASED, Ledger
from tests.simulation.full.migrants import MovingReceiver, MovingSender
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults, leftovers

FAITHFUL = ReceiverPlan(credit=20, delay=0.01, faithful=1.0)


def meshed(*pairs: str, seed: int = 1) -> Network:
    """Routers named by letters, with a cable for each pair as "AB", converged."""
    network = Network(seed)
    for name in sorted({letter for pair in pairs for letter in pair}):
        network.router(name)
    for pair in pairs:
        network.cable(pair[0], pair[1], 0.001)
    network.start()
    network.until(lambda: not faults(network), 5.0)
    return network


def drain(router: SimRouter, timeout_s: int = 30) -> None:
    """As a management request does."""
    agent = router.router.agent
    adapter = agent.adapters["router"]
    adapter.update(f"router/{router.name}", {"draining": True, "drainTimeoutSeconds": timeout_s})
    router.wake()


def undrain(router: SimRouter) -> None:
    adapter = router.router.agent.adapters["router"]
    adapter.update(f"router/{router.name}", {"draining": False})
    router.wake()


def drained(router: SimRouter) -> bool:
    return str(router.router.drain.status) == "drained"


def links_of_clients(router: SimRouter) -> int:
    return sum(link.kind == 0 for link in router.core.links.values())


def rotated(network: Network, first: str) -> list[SimRouter]:
    """All routers, this one first."""
    names = sorted(network.routers)
    at = names.index(first)
    return [network.routers[name] for name in names[at:] + names[:at]]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("pairs", [("BA",), ("BA", "CA", "CB")])
def test_everything_arrives_once_while_a_router_is_drained_and_stopped(pairs: tuple[str, ...], seed: int) -> None:
    network = meshed(*pairs, seed=seed)
    crowd = Crowd(network, Ledger(network))
    names = sorted(network.routers)
    last = network.routers[names[-1]]
    plan = SenderPlan(400, settled=0.0, pace=0.002)
    senders = [MovingSender(crowd, rotated(network, name), f"q{n % 2}", plan) for n in range(3) for name in names]
    taker = range(4)
    receivers = [MovingReceiver(crowd, rotated(network, name), f"q{n % 2}", FAITHFUL) for n in taker for name in names]
    network.run(0.3)
    drain(last)
    network.until(lambda: drained(last), 10.0, 0.01)
    assert last.router.drain.unsettled().clients == 0
    network.until(lambda: not links_of_clients(last), 1.0)
    network.run(0.05)
    last.crash()
    network.until(lambda: all(s.sent == plan.count and s.client.idle for s in senders), 30.0, 0.05)
    assert not crowd.ledger.violations()
    outcomes = [m.outcomes for m in crowd.ledger.sent]
    assert not any(m.orphan for m in crowd.ledger.sent), "no sender is left in doubt"
    assert all(o in ([ACCEPTED], [RELEASED]) for o in outcomes)
    assert sum(o == [RELEASED] for o in outcomes) <= len(outcomes) // 10
    assert all(len(m.receipts) == (m.outcomes == [ACCEPTED]) for m in crowd.ledger.sent)
    moved = [client for client in (*senders, *receivers) if client.moves]
    assert len(moved) == 7
    assert all(client.moves <= 2 for client in moved)


@pytest.mark.parametrize("seed", range(3))
def test_five_routers_become_two(seed: int) -> None:
    """Pod k connects to k-1, k-2, k-4, as in a chordal mesh; the highest goes first, one after the other."""
    network = meshed("BA", "CB", "CA", "DC", "DB", "ED", "EC", "EA", seed=seed)
    crowd = Crowd(network, Ledger(network))
    names = sorted(network.routers)
    plan = SenderPlan(600, settled=0.0, pace=0.005)
    senders = [MovingSender(crowd, rotated(network, name), f"q{n % 3}", plan) for n, name in enumerate(names * 2)]
    for n, name in enumerate(names * 3):
        MovingReceiver(crowd, rotated(network, name), f"q{n % 3}", FAITHFUL)
    network.run(0.3)
    for name in "EDC":
        router = network.routers[name]
        drain(router)
        network.until(lambda router=router: drained(router), 10.0, 0.01)  # type: ignore[misc]
        network.until(lambda router=router: not links_of_clients(router), 1.0)  # type: ignore[misc]
        router.crash()
        network.run(0.2)
    assert not faults(network)
    network.until(lambda: all(s.sent == plan.count and s.client.idle for s in senders), 60.0, 0.05)
    assert not crowd.ledger.violations()
    assert {str(m.outcomes) for m in crowd.ledger.sent} <= {str([ACCEPTED]), str([RELEASED])}
    assert sum(m.outcomes == [RELEASED] for m in crowd.ledger.sent) <= len(crowd.ledger.sent) // 10


def test_presettled_messages_survive_a_drain() -> None:
    network = meshed("BA", "CA", "CB")
    crowd = Crowd(network, Ledger(network))
    a, b, c = (network.routers[name] for name in "ABC")
    MovingReceiver(crowd, [c, a], "q", FAITHFUL)
    network.run(0.1)
    senders = [MovingSender(crowd, [c, b], "q", SenderPlan(500, settled=1.0, pace=0.001)) for _ in range(3)]
    network.run(0.2)
    drain(c)
    network.until(lambda: drained(c), 5.0, 0.01)
    network.until(lambda: all(s.sent == 500 for s in senders), 30.0, 0.05)
    network.run(0.5)
    assert not crowd.ledger.violations()
    missing = [m for m in crowd.ledger.sent if not m.receipts]
    assert not missing


def test_transit_goes_round_a_draining_router() -> None:
    network = meshed("BA", "CB", "DC", "DA")
    crowd = Crowd(network, Ledger(network))
    middle = network.routers["B"]
    crowd.client(network.routers["C"]).receiver("q", FAITHFUL)
    network.run(0.1)
    sender = crowd.client(network.routers["A"]).sender("q", SenderPlan(1000, settled=0.0, pace=0.002))
    network.run(0.5)
    assert network.routers["A"].core.nodes["C"].neighbour().id == "B"
    drain(middle)
    network.until(lambda: network.routers["A"].core.nodes["C"].neighbour().id == "D", 0.1)
    network.until(lambda: drained(middle), 5.0, 0.01)
    transit = middle.core.counters.transit
    network.until(lambda: not (sender().left or sender().under_way), 10.0, 0.05)
    assert middle.core.counters.transit == transit
    assert not crowd.ledger.violations()
    summary = crowd.ledger.summary()
    assert summary.keys() <= {"anycast unsettled accepted", "anycast unsettled released"}
    assert summary["anycast unsettled released"] <= 3, "sent while not all routers knew of the new path"
    assert network.routers["A"].core.nodes["B"].neighbour().id == "B", "it can still be reached itself"


def test_without_a_way_round_transit_goes_on_until_time_is_up() -> None:
    network = meshed("BA", "CB")
    crowd = Crowd(network, Ledger(network))
    crowd.client(network.routers["C"]).receiver("q", ReceiverPlan(credit=20, delay=0.5, faithful=1.0))
    network.run(0.1)
    crowd.client(network.routers["A"]).sender("q", SenderPlan(100, settled=0.0, pace=0.01))
    network.run(0.3)
    drain(network.routers["B"], timeout_s=3)
    started = network.now
    network.until(lambda: drained(network.routers["B"]), 10.0, 0.01)
    assert 2.9 <= network.now - started <= 3.5
    text = next(text for _, _, level, text in network.routers["B"].lines if level == "warning")
    assert "time is up, 0 deliveries of clients and" in text


def test_time_is_up_while_a_consumer_keeps_a_delivery() -> None:
    network = meshed("BA")
    crowd = Crowd(network, Ledger(network))
    a, b = network.routers["A"], network.routers["B"]
    keeper = crowd.client(b)
    keeper.receiver("q", ReceiverPlan(credit=5, delay=1000.0, faithful=1.0))
    network.run(0.1)
    sender = crowd.client(a).sender("q", SenderPlan(3, settled=0.0))
    network.run(0.1)
    assert b.router.drain.unsettled().clients == 3
    drain(b, timeout_s=2)
    network.run(1.9)
    assert not drained(b)
    assert not keeper.gone
    network.until(lambda: drained(b), 1.0, 0.01)
    network.until(lambda: keeper.gone and not sender().under_way, 1.0)
    assert crowd.ledger.summary()["anycast unsettled modified"] == 3


def test_new_clients_and_links_are_sent_away() -> None:
    network = meshed("BA")
    crowd = Crowd(network, Ledger(network))
    b = network.routers["B"]
    old = crowd.client(b)
    old.receiver("q", ReceiverPlan(credit=5, delay=1000.0, faithful=1.0))
    network.run(0.1)
    crowd.client(b).sender("q", SenderPlan(1, settled=0.0))
    network.run(0.1)
    drain(b)
    network.run(0.3)
    old.receiver("other", FAITHFUL)
    network.run(0.1)
    assert crowd.ledger.unexpected == ["link detached: amqp:not-allowed: router is draining"]
    new = crowd.client(b)
    new.receiver("other", FAITHFUL)
    network.until(lambda: new.gone, 0.5)
    assert not old.gone
    assert len(crowd.ledger.unexpected) == 1, "the new one was told nothing"


@pytest.mark.parametrize("until_drained", [False, True])
def test_a_cancelled_drain_leaves_no_trace(until_drained: bool) -> None:
    network = meshed("BA", "CB")
    crowd = Crowd(network, Ledger(network))
    a, b, c = (network.routers[name] for name in "ABC")
    MovingReceiver(crowd, [b], "q", FAITHFUL)
    network.run(0.1)
    sender = MovingSender(crowd, [b], "q", SenderPlan(300, settled=0.0, pace=0.01))
    network.run(0.5)
    drain(b)
    network.run(0.2)
    assert "M0q" not in a.core.addresses
    assert b.router.not_ready(network.now) == "router is draining"
    assert a.core.nodes.keys() == {"B", "C"}
    assert a.core.nodes["C"].cost > 1000
    if until_drained:
        network.until(lambda: drained(b), 5.0, 0.01)
        network.run(0.2)
    undrain(b)
    network.until(lambda: not faults(network), 5.0, 0.01)
    assert a.core.nodes["C"].cost == 2
    assert b.router.not_ready(network.now) == ""
    network.until(lambda: sender.sent == 300 and sender.client.idle, 20.0, 0.05)
    assert not crowd.ledger.violations()
    for client in list(crowd.clients.values()):
        client.close()
    assert c.router.drain.status == b.router.drain.status == "none"


def test_an_idle_router_drains_within_a_second() -> None:
    network = meshed("BA")
    b = network.routers["B"]
    drain(b)
    network.until(lambda: drained(b), 1.0, 0.01)
    drain(b)
    assert drained(b)
    b.crash()
    network.until(lambda: not faults(network), 1.0)
    assert not leftovers(network)
