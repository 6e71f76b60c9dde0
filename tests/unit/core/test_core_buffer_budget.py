"""Budgets of bytes that wait: a sender beyond one is held until half of it is free, and nothing is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.budget import waiting_deliveries
from tests.kit.frames import Seen
from tests.kit.long_turns import Scene
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import EdgePeer, configure
from waymesh_amqp.performatives import Transfer
from waymesh_router.core.core import Core
from waymesh_router.core.forwarding.buffer_budget import BRANCH_BYTES, RECORD_BYTES, UNLIMITED, BufferBudget
from waymesh_router.core.portions import AT_ONCE, COST_A_TURN

BODY = b"x" * (1024 - RECORD_BYTES)
SIZE = len(frames.message(BODY)) + RECORD_BYTES
"""What a waiting message counts: a little more than 1 KiB."""
LARGE = 1 << 40


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def budget_of(hub: Hub) -> BufferBudget:
    assert isinstance(hub.handler, Core)
    return hub.handler.budget


def consumer(hub: Hub, address: str = "q") -> Peer:
    """One without credit: everything waits."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address=address))
    return peer


def producer(hub: Hub, address: str = "q") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def send(peer: Peer, count: int, first: int = 0) -> None:
    peer.send(*[frames.transfer(number, frames.message(BODY)) for number in range(first, first + count)])


def take(peer: Peer, credit: int, seen: int = 0) -> list[bytes]:
    peer.end.feed(frames.credit(credit, delivery_count=seen))
    return [f.payload for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def link_of(peer: Peer) -> Any:
    (link,) = [link for link in peer.session().links if link is not None]
    return link


def test_without_limits_everything_may_wait(hub: Hub) -> None:
    budget = budget_of(hub)
    assert (budget.per_router, budget.per_connection, budget.per_link) == (UNLIMITED,) * 3
    consumer(hub)
    sender = producer(hub)
    send(sender, 200)
    assert budget.kept > 200 * 1024
    assert (budget.full, budget.braked, sender.session().holds) == (False, {}, 0)


def test_bytes_are_counted_for_link_connection_and_router(hub: Hub) -> None:
    receiver, one, other = consumer(hub), producer(hub), producer(hub)
    send(one, 2)
    send(other, 3)
    assert [link_of(peer).kept for peer in (one, other)] == [2 * SIZE, 3 * SIZE]
    assert [peer.conn.kept for peer in (one, other)] == [2 * SIZE, 3 * SIZE]
    assert budget_of(hub).kept == 5 * SIZE
    assert len(take(receiver, 5)) == 5
    assert (budget_of(hub).kept, one.conn.kept, link_of(other).kept) == (0, 0, 0)
    assert budget_of(hub).peak == 5 * SIZE


@pytest.mark.parametrize(
    "limits",
    [(16384, LARGE, LARGE), (LARGE, 16384, LARGE), (LARGE, LARGE, 16384)],
    ids=["router", "connection", "link"],
)
def test_a_sender_beyond_a_budget_is_held_until_half_of_it_is_free(hub: Hub, limits: tuple[int, int, int]) -> None:
    budget = budget_of(hub)
    budget.set_limits(*limits)
    budget.small = 0
    receiver, sender = consumer(hub), producer(hub)
    link = link_of(sender)
    send(sender, 15)
    assert (link.braked, sender.session().holds) == (False, 0)
    send(sender, 5, 15)
    assert (link.braked, sender.session().holds, list(budget.braked)) == (True, 1, [link])
    assert len(take(receiver, 8)) == 8
    assert link.braked, "more than half of the budget is used"
    assert len(take(receiver, 5, 8)) == 5
    assert (link.braked, sender.session().holds, budget.braked) == (False, 0, {})
    assert len(take(receiver, 20, 13)) == 7, "nothing is lost"


def test_a_link_has_a_small_share_when_others_have_used_up_the_budget(hub: Hub) -> None:
    budget = budget_of(hub)
    budget.set_limits(100_000, LARGE, LARGE)
    consumer(hub)
    greedy, modest = producer(hub), producer(hub)
    send(greedy, 110)
    assert budget.full
    send(modest, 10)
    assert [link_of(peer).braked for peer in (greedy, modest)] == [True, False]


@pytest.mark.parametrize(("link", "small"), [(LARGE, 65536), (65536, 32768), (10, 5)])
def test_the_small_share_is_at_most_half_of_a_link_s_budget(hub: Hub, link: int, small: int) -> None:
    budget = budget_of(hub)
    budget.set_limits(LARGE, LARGE, link)
    assert budget.small == small


def test_windows_become_narrow_from_half_of_a_budget_on_and_wide_again(hub: Hub) -> None:
    budget = budget_of(hub)
    budget.set_limits(LARGE, LARGE, 65536)
    receiver, sender = consumer(hub), producer(hub)
    wide = sender.session().window
    send(sender, 31)
    assert sender.session().window == wide
    send(sender, 2, 31)
    assert sender.session().window < wide
    assert not link_of(sender).braked
    take(receiver, 33)
    assert sender.session().window == wide


def test_a_lost_sender_is_not_held_and_its_bytes_count_until_they_leave(hub: Hub) -> None:
    budget = budget_of(hub)
    budget.set_limits(LARGE, LARGE, 4096)
    receiver, sender = consumer(hub), producer(hub)
    send(sender, 6)
    assert budget.braked
    sender.kill()
    assert (budget.braked, budget.kept > 0) == ({}, True)
    assert len(take(receiver, 6)) == 6
    assert budget.kept == 0


@pytest.mark.parametrize("distribution", ["balanced", "multicast", "exchange"])
def test_pre_settled_messages_of_an_edge_router_wait_in_half_of_a_budget(hub: Hub, distribution: str) -> None:
    """Its sessions are not held, and its credit is returned while they wait: further ones are dropped."""
    budget = budget_of(hub)
    budget.set_limits(200 * 1024, LARGE, LARGE)
    if distribution == "exchange":
        news = {"name": "x", "address": "q", "phase": 0, "alternateAddress": "a", "alternatePhase": 0}
        core_of(hub).exchanges.add({**news, "matchMethod": "amqp"})
        configure(hub, "a", distribution="multicast")
    else:
        configure(hub, "q", distribution=distribution)
    consumer(hub, "a" if distribution == "exchange" else "q")
    edge = EdgePeer(hub, tracking=False)
    sender = edge.sender("q")
    for _ in range(300):
        edge.send(sender, frames.message(BODY))
    assert 100 * 1024 < budget.kept < 102 * 1024


def test_all_held_senders_of_a_router_go_on_together(hub: Hub) -> None:
    budget = budget_of(hub)
    budget.set_limits(16384, LARGE, LARGE)
    budget.small = 0
    receivers = [consumer(hub, address) for address in "ab"]
    senders = [producer(hub, address) for address in "ab"]
    for sender, count in zip(senders, (9, 7), strict=True):
        send(sender, count)
    assert budget.full
    send(senders[0], 1, 9)
    assert [link_of(sender).braked for sender in senders] == [True, True]
    assert len(take(receivers[0], 10)) == 10
    assert [link_of(sender).braked for sender in senders] == [False, False]


def held(hub: Hub, count: int, router: int, connection: int) -> tuple[Peer, Peer]:
    """A consumer, and a client with many held links, each with a message that waits for this consumer."""
    scene = Scene(hub)
    receiver, sender = consumer(hub), scene.senders(count, lambda _: "q")
    budget = budget_of(hub)
    budget.set_limits(router, connection, LARGE)
    budget.small = 0
    for number in range(count):
        sender.end.feed(frames.transfer(number, frames.message(b""), handle=number))
    assert len(budget.braked) == count
    budget.set_limits(LARGE, LARGE, LARGE)
    budget.small = 0
    return receiver, sender


def finish(hub: Hub) -> None:
    """Do all portions."""
    while core_of(hub).context.portions:
        core_of(hub).context.portions.run()


@pytest.mark.parametrize("limits", [(1, LARGE), (LARGE, 1)], ids=["router", "connection"])
def test_where_many_links_are_held_they_go_on_in_portions(hub: Hub, limits: tuple[int, int]) -> None:
    budget = budget_of(hub)
    many = AT_ONCE + 100
    receiver, sender = held(hub, many, *limits)
    assert len(take(receiver, 1)) == 1
    assert not budget.full
    assert not sender.conn.full
    assert 0 < many - len(budget.braked) <= COST_A_TURN
    lost = next(reversed(budget.braked))
    sender.end.feed(frames.detach(many - 1))
    assert lost not in budget.braked
    finish(hub)
    assert (budget.braked, sender.session().holds) == ({}, 0)
    assert not any(link.braked for link in sender.session().links if link is not None)


def test_links_stay_held_if_the_budget_is_used_up_before_their_turn(hub: Hub) -> None:
    budget = budget_of(hub)
    receiver, sender = held(hub, AT_ONCE + 200, 1, LARGE)
    assert len(take(receiver, 1)) == 1
    left = list(budget.braked)
    assert len(left) > AT_ONCE
    budget.full = True
    finish(hub)
    assert list(budget.braked) == left
    assert sender.session().holds == len(left)
    assert len(take(receiver, 1, 1)) == 1
    assert not budget.full
    assert 0 < len(budget.braked) < len(left)
    finish(hub)
    assert not budget.braked


def test_of_many_held_links_only_those_with_room_go_on(hub: Hub) -> None:
    """One connection has room again, another one has not."""
    budget = budget_of(hub)
    receiver, sender = held(hub, AT_ONCE + 100, LARGE, 1)
    consumer(hub, "elsewhere")
    other = producer(hub, "elsewhere")
    budget.set_limits(LARGE, 16384, LARGE)
    budget.small = 0
    send(other, 20)
    budget.set_limits(LARGE, LARGE, LARGE)
    budget.small = 0
    assert len(take(receiver, 1)) == 1
    assert not sender.conn.full
    finish(hub)
    assert list(budget.braked) == [link_of(other)]


# ---- what a delivery counts beside its bytes
def limited(hub: Hub, count: int) -> BufferBudget:
    """The budget of a router in which as many records without bytes may wait."""
    budget = budget_of(hub)
    budget.set_limits(count * RECORD_BYTES, LARGE, LARGE)
    budget.small = 0
    return budget


@pytest.mark.parametrize("settled", [False, True])
def test_messages_without_bytes_count_their_records(hub: Hub, settled: bool) -> None:
    budget = limited(hub, 10)
    consumer(hub)
    sender = producer(hub)
    sender.send(*[frames.transfer(number, b"", settled=settled) for number in range(10)])
    assert (budget.kept, sender.session().holds) == (10 * RECORD_BYTES, 0)
    sender.send(frames.transfer(10, b"", settled=settled))
    assert (budget.kept, sender.session().holds) == (11 * RECORD_BYTES, 1)


def test_copies_that_wait_count_for_each_consumer(hub: Hub) -> None:
    budget = budget_of(hub)
    configure(hub, "q", distribution="multicast")
    receivers = [consumer(hub) for _ in range(5)]
    producer(hub).send(frames.transfer(0, b"", settled=True))
    assert budget.kept == RECORD_BYTES + 5 * BRANCH_BYTES
    for receiver in receivers:
        take(receiver, 1)
    assert budget.kept == 0


def test_frames_of_few_octets_are_joined(hub: Hub) -> None:
    """Each object takes more than its octets, which the budgets count."""
    receiver, sender = consumer(hub), producer(hub)
    body = frames.message(bytes(range(250)) * 8)
    parts = [frames.transfer(None, body[at : at + 2], more=True) for at in range(10, len(body), 2)]
    sender.send(frames.transfer(0, body[:10], more=True))
    for part in parts:
        sender.send(part)
    (waiting,) = waiting_deliveries(core_of(hub))
    assert len(waiting.later or ()) < 10
    sender.send(frames.transfer(None, b""))
    assert b"".join(take(receiver, 1)) == body
