"""Deliveries of balanced addresses wait where they came in while all windows are full."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.kit.steps import steps
from tests.unit.core.edge_peer import EdgePeer
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Transfer
from waymesh_amqp.types import Described, Symbol, UInt, ULong
from waymesh_router.core.link_kinds import BALANCED, CLOSEST

STATE = Described(ULong(0x23), [UInt(1), ULong(2)])
FIRST = 4
"""The window of a router of which nothing is known."""


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def remote(hub: Hub, router_id: str, treatment: int = BALANCED, **over: Any) -> Peer:
    """A neighbour with a consumer of `q`."""
    peer = neighbour(hub, router_id, **over)
    core_of(hub).remote_routers.add_consumers(router_id, "M0q", treatment)
    return peer


def local(hub: Hub, credit: int) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    return peer


def send(hub: Hub, count: int, **over: Any) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender())
    peer.send(*[frames.transfer(number, **over) for number in range(count)])
    return peer


def got(peer: Peer) -> int:
    """Transfers since the last look."""
    return sum(isinstance(f, Seen) and isinstance(f.performative, Transfer) for f in peer.frames())


def waiting(hub: Hub) -> int:
    queue = core_of(hub).addresses["M0q"].pending
    return 0 if queue is None else len(queue)


def from_mesh(ingress: str) -> bytes:
    values = {"ingress": ingress, "trace": [f"0/{ingress}"], "to": "q"}
    notes = {Symbol(f"x-opt-qd.{name}"): value for name, value in values.items()}
    return encode_message(Message(message_annotations=notes, body="x"))


def test_other_routers_get_no_more_than_their_windows(hub: Hub) -> None:
    one, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 20)
    assert (got(one), got(other), waiting(hub)) == (FIRST, FIRST, 20 - 2 * FIRST)


def test_a_settlement_lets_the_next_one_go(hub: Hub) -> None:
    one, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 20)
    assert got(one) == got(other) == FIRST
    core_of(hub).now += 0.05
    one.end.feed(frames.disposition(0))
    assert got(one) >= 1
    assert got(other) == 0


def test_a_local_consumer_without_credit_does_not_send_all_elsewhere(hub: Hub) -> None:
    there, here = remote(hub, "B"), local(hub, 1)
    send(hub, 20)
    assert (got(here), got(there)) == (1, FIRST)
    here.end.feed(frames.disposition(0) + frames.credit(1, delivery_count=1))
    assert got(here) == 1
    assert got(there) == 0


def test_local_consumers_with_credit_get_as_many_as_routers(hub: Hub) -> None:
    """As nothing is settled, the numbers count, whatever the window."""
    there, here = remote(hub, "B"), local(hub, 100)
    send(hub, 40)
    assert (got(here), got(there)) == (21, 19)


def test_the_only_router_with_consumers_has_no_window(hub: Hub) -> None:
    there = remote(hub, "B")
    send(hub, 40)
    assert got(there) == 40


@pytest.mark.parametrize(("treatment", "settled"), [(BALANCED, True), (CLOSEST, False)])
def test_presettled_deliveries_and_other_distributions_have_no_windows(
    hub: Hub, treatment: int, settled: bool
) -> None:
    peers = [remote(hub, "B", treatment), remote(hub, "C", treatment)]
    send(hub, 40, settled=settled)
    assert sum(got(peer) for peer in peers) == 40


def test_when_the_other_candidate_goes_all_is_sent(hub: Hub) -> None:
    one, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 20)
    got(one)
    core_of(hub).remote_routers.remove_consumers("C", "M0q")
    assert got(one) == 20 - 2 * FIRST
    assert got(other) == FIRST


def test_deliveries_on_their_way_pass_those_that_wait_for_windows(hub: Hub) -> None:
    """Else they would stop the link between the routers for all addresses."""
    source, one, other = neighbour(hub, "A"), remote(hub, "B"), remote(hub, "C")
    send(hub, 20)
    assert got(one) + got(other) == 2 * FIRST
    for node in "BC":
        core_of(hub).nodes[node].valid_origins = {"A"}
    source.send(*[frames.transfer(number, from_mesh("A"), handle=3) for number in range(20)])
    assert got(one) + got(other) == 20
    assert waiting(hub) == 20 - 2 * FIRST


def test_presettled_deliveries_pass_those_that_wait_for_windows(hub: Hub) -> None:
    one, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 20)
    assert got(one) + got(other) == 2 * FIRST
    send(hub, 20, settled=True)
    assert got(one) + got(other) == 20
    send(hub, 20, settled=True, state=STATE)  # sent from a record of the queue
    assert got(one) + got(other) == 20
    assert waiting(hub) == 20 - 2 * FIRST


def test_presettled_deliveries_of_an_edge_router_pass_those_that_wait_for_windows(hub: Hub) -> None:
    one, other, edge = remote(hub, "B"), remote(hub, "C"), EdgePeer(hub)
    handle = edge.sender("q")
    for _ in range(20):
        edge.send(handle, settled=False)
    assert got(one) + got(other) == 2 * FIRST
    for _ in range(20):
        edge.send(handle)
    assert got(one) + got(other) == 20


@pytest.mark.parametrize("passing", [False, True])
def test_what_windows_do_not_limit_waits_only_for_credit_of_links(hub: Hub, passing: bool) -> None:
    """Else it would wait until all before it can go, which takes as long as the consumers do."""
    source, one, other = neighbour(hub, "A"), remote(hub, "B", credit=FIRST), remote(hub, "C", credit=FIRST)
    send(hub, 20)
    assert (got(one), got(other)) == (FIRST, FIRST)
    if passing:
        for node in "BC":
            core_of(hub).nodes[node].valid_origins = {"A"}
        source.send(frames.transfer(0, from_mesh("A"), handle=3))
    else:
        send(hub, 1, settled=True)
    assert waiting(hub) == 21 - 2 * FIRST
    one.end.feed(frames.credit(100, 2, delivery_count=FIRST))
    # what came from another router is not behind the others: then these wait for their windows again
    assert got(one) == (1 if passing else 21 - 2 * FIRST)


def test_deliveries_on_their_way_wait_for_consumers_here_and_return_the_credit_of_their_link(hub: Hub) -> None:
    source, there, here = neighbour(hub, "A"), remote(hub, "B"), local(hub, 0)
    core_of(hub).nodes["B"].valid_origins = {"A"}
    source.send(*[frames.transfer(number, from_mesh("A"), handle=3) for number in range(20)])
    assert (got(there), got(here), waiting(hub)) == (FIRST, 0, 20 - FIRST)
    link = next(link for link in core_of(hub).links.values() if link.connection is source.conn and link.outstanding >= 0
                and not link.is_sender and link.transfer_id == 19)
    assert link.outstanding == 0


def test_an_edge_router_has_a_window(hub: Hub) -> None:
    edge, here = EdgePeer(hub), local(hub, 1)
    handle = edge.receiver("q")
    send(hub, 20)
    assert got(here) == 1
    assert len(edge.on(handle)) == FIRST


def test_windows_grow_when_nothing_is_settled(hub: Hub) -> None:
    one, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 40)
    core = core_of(hub)
    sent = [got(one) + got(other)]
    for _ in range(8):
        core.now += 0.125
        core.spread.tick(core.now)
        core.context.portions.run()
        hub.turn()
        sent.append(got(one) + got(other))
    assert sent == [8, 0, 8, 0, 16, 0, 0, 0, 8], "after a quarter of a second, half, one"


def test_windows_grow_also_if_all_waits_since_there_was_one_router_only(hub: Hub) -> None:
    one = remote(hub, "B", credit=0)
    send(hub, 40)
    remote(hub, "C", credit=0)
    one.end.feed(frames.credit(100, 2))
    assert got(one) == FIRST
    core = core_of(hub)
    core.now += 0.25
    core.spread.tick(core.now)
    hub.turn()
    assert got(one) == FIRST


def test_a_settlement_costs_no_more_when_many_deliveries_and_addresses_wait(hub: Hub) -> None:
    one = remote(hub, "B")
    remote(hub, "C")
    core = core_of(hub)

    def settle(did: int) -> int:
        core.now += 0.05
        one.end.feed(frames.disposition(did))
        return steps(hub.turn)

    send(hub, 30)
    settle(0)
    few = settle(1)
    for number in range(50):
        for router in "BC":
            core.remote_routers.add_consumers(router, f"M0q{number}", BALANCED)
        peer = hub.peer().open().begin()
        peer.send(frames.attach_sender(address=f"q{number}"))
        peer.send(*[frames.transfer(did) for did in range(20)])
    send(hub, 200)
    hub.turn()
    assert settle(2) < few + 100


# ---- consumers that say how many deliveries they work on at a time
def saying(hub: Hub, concurrency: int, credit: int = 100) -> Peer:
    """A consumer that says it; no more than what it says, and half as many more, is sent to it."""
    peer = hub.peer().open().begin()
    properties = {Symbol("concurrency"): concurrency}
    peer.send(frames.attach_receiver(properties=properties), frames.credit(credit))
    return peer


def test_each_gets_what_it_works_on_and_some_more_and_the_rest_waits(hub: Hub) -> None:
    one, eight = saying(hub, 1), saying(hub, 8)
    send(hub, 60)
    assert (got(one), got(eight), waiting(hub)) == (2, 12, 46)
    core_of(hub).now += 0.05
    eight.end.feed(frames.disposition(0))
    assert (got(one), got(eight), waiting(hub)) == (0, 1, 45)


def test_credit_limits_them_as_well(hub: Hub) -> None:
    one, eight = saying(hub, 1, 1), saying(hub, 8, 8)
    send(hub, 60)
    assert (got(one), got(eight)) == (1, 8)


def test_the_only_consumer_gets_all(hub: Hub) -> None:
    eight = saying(hub, 8)
    send(hub, 60)
    assert got(eight) == 60


def test_who_begins_at_once_comes_first(hub: Hub) -> None:
    """Of equal speed: one that works on eight at a time is as soon done with the eighth as the other with its first."""
    one, eight = saying(hub, 1), saying(hub, 8)
    send(hub, 9)
    assert (got(one), got(eight)) == (1, 8)


def test_they_are_as_fast_as_one_of_their_jobs_and_others_not_slower(hub: Hub) -> None:
    eight, other = saying(hub, 8), local(hub, 100)
    core = core_of(hub)
    core.now = 100.0
    send(hub, 30)
    assert got(eight) == 12
    core.now += 0.4
    for number in range(8):
        eight.end.feed(frames.disposition(number))
    found = next(out for out in core.addresses["M0q"].consumers if out.concurrency == 8)
    assert 0.25 < found.speed.each <= 0.4, "it waited for some of them"
    assert got(other) > 12


@pytest.mark.parametrize("settled", [True, False])
def test_what_priorities_and_settled_deliveries_do_is_as_before(hub: Hub, settled: bool) -> None:
    properties = {Symbol("concurrency"): 1, Symbol("priority"): 5}
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(properties={} if settled else properties), frames.credit(40))
    saying(hub, 1, 40)
    send(hub, 60, settled=settled)
    assert got(peer) == (30 if settled else 40)


def test_an_address_says_it_of_its_clients_until_it_does_not_any_more(hub: Hub) -> None:
    core = core_of(hub)
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    entity = {"prefix": "q", "pattern": None, "distribution": "balanced", "concurrency": 3, **phases}
    core.address_table.add_pattern(entity)
    peers = [local(hub, 100), saying(hub, 1)]
    send(hub, 60)
    assert [got(peer) for peer in peers] == [4, 2]
    core.address_table.remove_pattern(entity)
    while core.context.portions:
        core.context.portions.run()
    core.now += 0.05
    peers[0].end.feed(frames.disposition(0))
    assert got(peers[0]) > 40, "nothing waits for anybody"
    assert got(peers[1]) == 0
