"""Links of addresses on an edge router's uplink, in memory: for its producers, its consumers, and by phase."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.long_turns import SETTINGS
from tests.kit.pump import Hub, Peer, core_of
from tests.unit.core.edge_peer import configure
from tests.unit.core.interior_peer import FIRST, LAST, Interior, client, credit_of, edge_hub, states, uplink_of, wait
from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_amqp.message import Message, decode_message
from waymesh_amqp.performatives import Disposition, ErrorInfo, Terminus, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.edge.messages import TRACKING_ADDRESS
from waymesh_router.core.edge.uplink_addresses import A_STEP, DROP_COST, LINK_COST
from waymesh_router.core.portions import COST_A_TURN

MANY = 2000
RECEIVERS = 50
A_PORTION = A_STEP * (COST_A_TURN // DROP_COST)
"""Copies that are dropped in one turn."""


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def test_producers_get_credit_while_there_are_consumers_beyond(hub: Hub) -> None:
    interior = Interior(hub)
    producer, answers = client(hub, frames.attach_sender())
    assert credit_of(answers) is None
    interior.tell("M0q", True)
    assert credit_of(producer.take()) == 250
    interior.tell("M0q", False)
    assert credit_of(producer.take()) == 0
    interior.tell("M0other", True)
    interior.send(interior.link("receiver", TRACKING_ADDRESS), Message(body="?"))
    assert not interior.conn.over
    interior.tell("M0q", True)
    assert credit_of(producer.take()) == 250


def test_outcomes_come_down(hub: Hub) -> None:
    interior = Interior(hub)
    producer, _ = client(hub, frames.attach_sender())
    interior.tell("M0q", True)
    producer.send(frames.transfer())
    link = interior.link("sender", "q")
    assert len(link.transfers) == 1
    interior.settle(link)
    assert states(producer.take()) == ["accepted"]


def test_a_sender_without_producers_stays_until_nothing_is_under_way(hub: Hub) -> None:
    interior = Interior(hub)
    producer, _ = client(hub, frames.attach_sender())
    interior.tell("M0q", True)
    producer.send(frames.transfer())
    producer.send(frames.detach())
    wait(hub, 1)
    link = interior.link("sender", "q")
    interior.settle(link)
    wait(hub, 1)
    assert link.detach is not None
    assert interior.links() == [*FIRST, *LAST]
    client(hub, frames.attach_sender())
    assert interior.links() == [*FIRST, *LAST, ("sender", "q")]


def test_what_comes_down_goes_to_local_consumers_and_never_up_again(hub: Hub) -> None:
    interior = Interior(hub)
    client(hub, frames.attach_sender())
    consumer, _ = client(hub, frames.attach_receiver(), frames.credit(10))
    interior.tell("M0q", True)
    down = interior.link("receiver", "q")
    assert down.flows[-1].link_credit == 250
    interior.send(down, Message(body="x"), settled=False)
    assert sum(isinstance(answer, Transfer) for answer in consumer.take()) == 1
    consumer.kill()
    interior.send(down, Message(body="y"), settled=False)
    assert interior.link("sender", "q").transfers == []
    assert states(interior.peer.outcomes) == ["modified", "released"]
    wait(hub, 1)
    assert down.detach is not None


def test_a_receiver_serves_all_consumers_of_its_address(hub: Hub) -> None:
    interior = Interior(hub)
    one, _ = client(hub, frames.attach_receiver())
    other, _ = client(hub, frames.attach_receiver())
    assert interior.links() == [*FIRST, *LAST, ("receiver", "q")]
    one.send(frames.detach())
    wait(hub, 1)
    assert interior.link("receiver", "q").detach is None
    other.send(frames.detach())
    wait(hub, 1)
    assert interior.links() == [*FIRST, *LAST]


def test_links_of_addresses_that_end_are_attached_again(hub: Hub) -> None:
    """An interior router that drains refuses them; its drain can be cancelled."""
    interior = Interior(hub)
    consumer, _ = client(hub, frames.attach_receiver(address="in"))
    producer, _ = client(hub, frames.attach_sender(address="out"))
    interior.peer.refusal = ErrorInfo(NOT_ALLOWED)
    client(hub, frames.attach_receiver(address="refused"))
    client(hub, frames.attach_receiver(address="given up"))[0].kill()
    interior.tell("M0out", True)
    assert credit_of(producer.take()) == 250
    for which, address in (("sender", "out"), ("receiver", "in")):
        interior.peer.detach(interior.link(which, address), error=ErrorInfo(NOT_ALLOWED))
    assert credit_of(producer.take()) == 0
    interior.peer.refusal = None
    known = len(interior.peer.links)
    wait(hub, 9)
    assert len(interior.peer.links) == known
    wait(hub, 1.1)
    assert {link.address for link in interior.peer.links[known:]} == {"in", "out", "refused"}
    interior.tell("M0out", True)
    assert credit_of(producer.take()) == 250
    wait(hub, 20)
    assert len(interior.peer.links) == known + 3
    assert not consumer.conn.over


@pytest.mark.parametrize(
    ("role", "capability", "expected"),
    [
        ("sender", None, []),
        ("sender", "qd.waypoint", ["qd.waypoint.1"]),
        ("sender", "qd.waypoint_2", ["qd.waypoint.2"]),
        ("receiver", "qd.waypoint", ["qd.waypoint.1"]),
        ("receiver", "qd.waypoint_2", ["qd.waypoint.2"]),
        ("receiver", None, []),
    ],
)
def test_links_say_which_phase_they_are_for(hub: Hub, role: str, capability: str | None, expected: list[str]) -> None:
    configure(hub, "q", waypoint=True, ingressPhase=0, egressPhase=2)
    interior = Interior(hub)
    terminus = Terminus(
        "target" if role == "sender" else "source",
        address="q",
        capabilities=[Symbol(capability)] if capability else None,
    )
    attach = frames.attach_sender if role == "sender" else frames.attach_receiver
    termini: dict[str, Any] = {terminus.kind: terminus}
    client(hub, attach(**termini))
    assert interior.capabilities(role, "q") == expected


def test_producers_of_an_address_with_fallback_have_two_senders(hub: Hub) -> None:
    configure(hub, "q", enableFallback=True)
    interior = Interior(hub)
    producer, _ = client(hub, frames.attach_sender())
    assert interior.links() == [*FIRST, *LAST, ("sender", "q"), ("sender", "q")]
    interior.tell("MFq", True)
    assert credit_of(producer.take()) == 250
    producer.send(frames.transfer())
    links = [link for link in interior.peer.active() if link.address == "q"]
    assert [len(link.transfers) for link in links] == [0, 1]
    annotations = decode_message(links[1].bodies[0]).message_annotations
    assert annotations == {"x-opt-qd.to": "q", "x-opt-qd.phase": 22}


def test_many_receivers_that_nobody_needs_end_in_portions(hub: Hub) -> None:
    """What came for them was not settled when their consumers ended."""
    interior = Interior(hub)
    consumers = [client(hub, frames.attach_receiver(address=f"q.{n}"), frames.credit(10))[0] for n in range(RECEIVERS)]
    receivers = [interior.link("receiver", f"q.{number}") for number in range(RECEIVERS)]
    for down in receivers:
        interior.send(down, Message(body="x"), settled=False)
    for consumer in consumers:
        consumer.send(frames.detach())
    assert all(down.detach is None for down in receivers)
    core_of(hub).now += 1.0
    uplink_of(hub).tick(core_of(hub).now)
    hub.turn()
    ended = [sum(down.detach is not None for down in receivers)]
    while core_of(hub).context.portions:
        core_of(hub).context.portions.run()
        hub.turn()
        ended.append(sum(down.detach is not None for down in receivers))
    assert ended[0] <= COST_A_TURN // LINK_COST
    assert max(after - before for before, after in pairwise(ended)) <= COST_A_TURN // LINK_COST
    assert ended[-1] == RECEIVERS


def copies_waiting(hub: Hub) -> tuple[Interior, Peer, int]:
    """Many unsettled multicast messages of a client wait for an interior router without credit."""
    multicast(hub)
    producer = hub.peer(SETTINGS).open().begin()
    producer.conn.link_capacity = 10 * MANY
    producer.send(frames.attach_sender())
    interior = Interior(hub, credit=0)
    interior.tell("M0q", True)
    for number in range(MANY):
        producer.end.feed(frames.transfer(number))
    hub.turn()
    assert not frames.told(producer.take())
    return interior, producer, MANY


def told_by_portion(hub: Hub, producer: Peer) -> int:
    """The number of outcomes after one more turn."""
    core_of(hub).context.portions.run()
    hub.turn()
    told = [d for d in producer.take() if isinstance(d, Disposition)]
    assert {str(state.descriptor) for state in frames.told(told)} <= {"38"}
    return sum((d.last or d.first) + 1 - d.first for d in told)


def multicast(hub: Hub) -> None:
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    core_of(hub).address_table.add_pattern({"pattern": None, "prefix": "q", "distribution": "multicast", **phases})


def test_copies_for_consumers_that_are_gone_beyond_are_dropped_in_portions(hub: Hub) -> None:
    interior, producer, count = copies_waiting(hub)
    interior.tell("M0q", False)
    parts = [told_by_portion(hub, producer)]
    while core_of(hub).context.portions:
        parts.append(told_by_portion(hub, producer))
    assert sum(parts) == count
    assert max(parts) <= 2 * A_PORTION
    assert core_of(hub).budget.kept == 0


def test_copies_that_are_left_wait_on_when_there_is_a_consumer_beyond_again(hub: Hub) -> None:
    interior, producer, count = copies_waiting(hub)
    interior.tell("M0q", False)
    interior.tell("M0q", True)
    dropped = told_by_portion(hub, producer)
    assert 0 < dropped <= 2 * A_PORTION
    assert not core_of(hub).context.portions
    link = interior.link("sender", "q")
    interior.peer.send(frames.credit(count, link.handle, channel=link.channel, incoming_window=1 << 20))
    while core_of(hub).expiry.busy:
        core_of(hub).credit.end_expired()
        hub.turn()
    assert len(link.transfers) == count - dropped


def test_copies_that_are_left_end_with_their_link(hub: Hub) -> None:
    interior, producer, count = copies_waiting(hub)
    interior.tell("M0q", False)
    dropped = told_by_portion(hub, producer)
    interior.peer.peer.kill()
    while core_of(hub).context.portions:
        dropped += told_by_portion(hub, producer)
    assert dropped + told_by_portion(hub, producer) == count
    assert core_of(hub).budget.kept == 0
