"""The address of a message on a link that has none: from the `to` annotation of another router, or the properties."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import NO_MANAGEMENT, READ_MANAGEMENT, WRITE_MANAGEMENT

REJECTED, RELEASED = 0x25, 0x26
MAX_KEPT = 1024
"""Bytes that a link may keep of a message."""


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def consumer(hub: Hub, address: str = "q") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address=address), frames.credit(100))
    return peer


def anonymous(hub: Hub, management: int = WRITE_MANAGEMENT) -> Peer:
    peer = hub.peer()
    peer.conn.management = management
    peer.open().begin()
    peer.send(frames.attach_sender(address=None))
    return peer


def bodies(peer: Peer) -> int:
    return len([f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)])


def codes(answers: list[Any]) -> list[int]:
    """Codes of the outcomes that a sender was told."""
    return [state.descriptor for state in frames.told(answers)]


def to(address: str | None, **over: Any) -> bytes:
    return encode_message(Message(to=address, body="x", **over))


@pytest.mark.parametrize(
    ("text", "arrives"),
    [
        ("q", True),
        ("/q", True),
        ("amqp:/q", True),
        ("amqp://host:5672/q", True),
        ("q/", False),
        ("Q", False),
        ("", False),
    ],
)
def test_properties_name_the_address(hub: Hub, text: str, arrives: bool) -> None:
    receiver = consumer(hub)
    answers = anonymous(hub).send(frames.transfer(0, to(text)))
    assert (bodies(receiver), bool(codes(answers))) == ((1, False) if arrives else (0, True))


@pytest.mark.parametrize("length", [1, 255, 256, 5000], ids=["str8", "longest str8", "str32", "long"])
def test_long_addresses(hub: Hub, length: int) -> None:
    text = "a" * length
    receiver = consumer(hub, text)
    anonymous(hub).send(frames.transfer(0, to(text)), frames.transfer(1, to(text)))
    assert bodies(receiver) == 2


@pytest.mark.parametrize(
    "payload",
    [
        frames.message(),
        to(None),
        b"",
        b"\x00\x53\x73\xc0\x04\x03\x40\x40\x44",
        b"\x00\x53\x73\xc0\x07\x03\x40\x40\xa1\x02\xff\xfe",
        b"\x00\x53\x73\xc0\x20",
    ],
    ids=["no properties", "no to", "nothing", "to is a number", "to is no text", "cut off"],
)
def test_messages_without_an_address_go_nowhere(hub: Hub, payload: bytes) -> None:
    receiver = consumer(hub)
    sender = anonymous(hub)
    answers = sender.send(frames.transfer(0, payload))
    assert codes(answers)[0] in (REJECTED, RELEASED)
    sender.send(frames.transfer(1, to("q")))
    assert bodies(receiver) == 1, "the next one is not affected"


def test_addresses_take_turns_on_one_link(hub: Hub) -> None:
    one, other = consumer(hub, "a"), consumer(hub, "b")
    sender = anonymous(hub)
    for number, text in enumerate("aabbaba"):
        sender.send(frames.transfer(number, to(text)))
    assert (bodies(one), bodies(other)) == (4, 3)


def test_an_address_that_went_and_came_again_is_found_again(hub: Hub) -> None:
    first = consumer(hub)
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("q"), settled=True))
    first.send(frames.detach())
    assert "M0q" not in core_of(hub).addresses
    assert codes(sender.send(frames.transfer(1, to("q")))) == [RELEASED]
    again = consumer(hub)
    sender.send(frames.transfer(2, to("q")))
    assert bodies(again) == 1


def test_the_address_may_be_in_a_later_frame(hub: Hub) -> None:
    receiver = consumer(hub)
    data = to("q", message_annotations={Symbol("x-mine"): "y" * 50})
    sender = anonymous(hub)
    assert codes(sender.send(frames.transfer(0, data[:30], more=True))) == []
    sender.send(frames.transfer(None, data[30:]))
    assert bodies(receiver) >= 1


@pytest.mark.parametrize("address", ["$management", "_topo/0/R/$management", "_topo/0/B/$management"])
@pytest.mark.parametrize("right", [WRITE_MANAGEMENT, READ_MANAGEMENT, NO_MANAGEMENT])
def test_management_is_closed_to_a_peer_that_may_not_manage(hub: Hub, address: str, right: int) -> None:
    management = right == WRITE_MANAGEMENT or (right == READ_MANAGEMENT and "B" not in address)
    got: list[bytes] = []
    for key in ("M0$management", "L$management", "RB"):
        core_of(hub).address_table.subscribe(key, lambda message, _: got.append(message))
    answers = anonymous(hub, right).send(frames.transfer(0, to(address)))
    assert len(got) == management
    if not management:
        assert codes(answers)[0] in (REJECTED, RELEASED)


def test_an_unavailable_address_is_refused(hub: Hub) -> None:
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    pattern = {"pattern": None, "prefix": "closed", "distribution": "unavailable", **phases}
    core_of(hub).address_table.add_pattern(pattern)
    unavailable, unknown = (
        codes(anonymous(hub).send(frames.transfer(0, to(address)))) for address in ("closed/x", "open/x")
    )
    assert (unavailable, unknown) == ([REJECTED], [RELEASED])


# ---- between routers
def from_mesh(address: str, **notes: Any) -> bytes:
    given = {"x-opt-qd.ingress": "B", "x-opt-qd.trace": ["0/B"], "x-opt-qd.to": address, **notes}
    return encode_message(Message(to="other", message_annotations={Symbol(k): v for k, v in given.items()}, body="x"))


@pytest.mark.parametrize(
    ("address", "notes", "arrives"),
    [("q", {}, True), ("other", {}, False), ("q", {"x-opt-qd.phase": 1}, False), ("p", {"x-opt-qd.phase": 1}, True)],
)
def test_the_annotation_of_a_router_comes_before_the_properties(
    hub: Hub, address: str, notes: dict[str, Any], arrives: bool
) -> None:
    phases = {"waypoint": True, "ingressPhase": None, "egressPhase": None}
    core_of(hub).address_table.add_pattern({"pattern": None, "prefix": "p", "distribution": "closest", **phases})
    receivers = [consumer(hub), consumer(hub, "p")]
    peer = neighbour(hub, "B")
    for number in range(2):
        peer.send(frames.transfer(number, from_mesh(address, **notes), handle=3, settled=True))
    assert sum(bodies(receiver) for receiver in receivers) == (2 if arrives else 0)


def test_a_client_cannot_use_the_annotation(hub: Hub) -> None:
    receiver = consumer(hub)
    sender = anonymous(hub)
    assert codes(sender.send(frames.transfer(0, from_mesh("q")))) == [RELEASED]
    assert bodies(receiver) == 0


@pytest.mark.parametrize("what", ["annotations", "address"])
def test_what_is_long_is_not_kept_on_the_link(hub: Hub, what: str) -> None:
    """A client with 32,768 links could otherwise fill the memory with one message on each."""
    long = "q" * 5000
    receiver = consumer(hub, long if what == "address" else "q")
    sender = anonymous(hub)
    message = to(long) if what == "address" else to("q", message_annotations={Symbol("mine"): long})
    for number, data in enumerate([message, to("q", message_annotations={Symbol("mine"): 1}), message, message]):
        sender.send(frames.transfer(number, data, settled=True))
    assert bodies(receiver) == (3 if what == "address" else 4)
    (link,) = [lk for lk in core_of(hub).links.values() if not lk.is_sender]
    kept = [link.seen_section, link.seen_to]
    if link.seen_annotations is not None:
        kept += [link.seen_annotations.client, link.seen_annotations.transit]
    assert max(map(len, kept)) <= MAX_KEPT


def test_long_annotations_from_another_router_are_not_kept(hub: Hub) -> None:
    """Of its clients: 4,096 messages with a MiB of annotations each could otherwise fill the memory."""
    receiver = consumer(hub)
    other = neighbour(hub, "B")
    for number, size in enumerate((10, 5000)):
        given = {Symbol("mine"): "x" * size, Symbol("x-opt-qd.to"): "q"}
        message = to(None, message_annotations=given)
        other.send(frames.transfer(number, message, handle=3, settled=True))
    assert bodies(receiver) == 2
    cache = core_of(hub).forwarder.message_address.cache
    assert [len(data) <= MAX_KEPT for data in cache] == [True]


def test_annotations_that_are_read_cost_budget_so_that_other_connections_are_served(hub: Hub) -> None:
    consumer(hub)
    sender = anonymous(hub)
    cost = []
    for number, length in enumerate((100, 10_000, 10_000)):
        before = sender.conn.budget
        data = to("q", message_annotations={Symbol("key"): "v" * length})
        sender.send(frames.transfer(number, data, settled=True))
        cost.append(before - sender.conn.budget)
    short, first, again = cost
    assert first == again > 30 * short, "long annotations are read for each message"
