"""Transfers, flows, dispositions and delivery states that a peer could not decode: only who sent them loses its
connection. Spec: 2.7.4 to 2.7.6, 3.4"""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub
from tests.spec.test_spec_link_routes import Pair
from waymesh_amqp.outcomes import modified
from waymesh_amqp.performatives import Disposition, Flow, Transfer
from waymesh_amqp.types import Symbol

HEAD = b"\x43\x43\xa0\x01t\x43"
"""Handle, delivery-id, delivery-tag and message-format of a transfer."""
FLOW = b"\x43\x52\x64\x43\x52\x64"
"""The session's fields of a flow."""
OPEN_STATE = b"\x00\x53\x10\xc0\x04\x01\xa1\x01x"
STATES = {
    "a performative": OPEN_STATE,
    "a performative without fields": b"\x00\x53\x10\x45",
    "another type of AMQP": b"\x00\xa3\x0eamqp:open:list\x45",
    "not described": b"\x52\x24",
    "garbage in rejected": b"\x00\x53\x25\xc0\x04\x01\xff\xff\xff",
    "octets behind a field": b"\x00\x53\x25\xc0\x03\x01\x40\x40",
    "no error in rejected": b"\x00\x53\x25\xc0\x03\x01\x52\x05",
    "an error without condition": b"\x00\x53\x25\xc0\x08\x01\x00\x53\x1d\xc0\x02\x01\x40",
    "a field in accepted": b"\x00\x53\x24\xc0\x02\x01\x41",
    "no section-number in received": b"\x00\x53\x23\x45",
    "no txn-id": b"\x00\x53\x34\x45",
    "a performative in a transaction": b"\x00\x53\x34\xc0\x0a\x02\xa0\x01t\x00\x53\x10\xc0\x01\x00",
    "1,001 values": b"\x00\x53\x27\xd0\x00\x00\x03\xf8\x00\x00\x00\x03\x42\x42\xd1\x00\x00\x03\xed\x00\x00\x03\xe8"
    + b"\x43" * 1001,
}
TRANSFERS = {
    "an octet behind 7 fields": (7, HEAD + b"\x41\x42\x40\xff"),
    "8 octets behind 7 fields": (7, HEAD + b"\x41\x42\x40" + b"\x40" * 8),
    "an octet behind 6 fields": (6, HEAD + b"\x41\x42\x40"),
    "12 fields": (12, HEAD + b"\x41\x42" + b"\x40" * 6),
    "fewer than 11 fields": (11, HEAD + b"\x41\x42" + b"\x40" * 4),
    "rcv-settle-mode 2": (7, HEAD + b"\x41\x42\x50\x02"),
    "text as rcv-settle-mode": (7, HEAD + b"\x41\x42\xa1\x01x"),
    "a number as resume": (9, HEAD + b"\x41\x42\x40\x40\x43"),
    "a number as aborted": (10, HEAD + b"\x41\x42\x40\x40\x42\x52\x01"),
    "garbage as batchable": (11, HEAD + b"\x41\x42\x40\x40\x42\x42\x56\x02"),
    **{f"state: {name}": (8, HEAD + b"\x41\x42\x40" + state) for name, state in STATES.items()},
}
FLOWS = {
    "an octet behind 7 fields": (7, FLOW + b"\x43\x43\x52\x05\xff"),
    "an octet behind 10 fields": (10, FLOW + b"\x43\x43\x52\x05\x40\x42\x42\x40"),
    "12 fields": (12, FLOW + b"\x43\x43\x52\x05\x40\x42\x42\x40\x40"),
    "text as properties": (11, FLOW + b"\x43\x43\x52\x05\x40\x42\x42\xa1\x01x"),
    "half a map": (11, FLOW + b"\x43\x43\x52\x05\x40\x42\x42\xc1\x04\x01\xa3\x01x"),
    "text as outgoing-window": (7, b"\x43\x52\x64\x43\xa1\x01x\x43\x43\x52\x05"),
}
DISPOSITIONS = {
    "an octet behind 5 fields": (5, b"\x41\x43\x40\x41\x00\x53\x24\x45\x40"),
    "7 fields": (7, b"\x41\x43\x40\x41\x00\x53\x24\x45\x40\x40"),
    "no role": (2, b"\x40\x43"),
    "a number as batchable": (6, b"\x41\x43\x40\x41\x00\x53\x24\x45\x43"),
    **{f"state: {name}": (5, b"\x41\x43\x40\x41" + state) for name, state in STATES.items()},
    **{f"unsettled: {name}": (5, b"\x41\x43\x40\x42" + state) for name, state in STATES.items()},
}


def performative(code: int, fields: tuple[int, bytes], payload: bytes = b"") -> bytes:
    """A frame with a list of these encoded fields, of which the list announces so many."""
    count, body = fields
    head = b"\xd0" + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
    return frames.raw_frame(bytes((0, 0x53, code)) + head + body + payload)


def ended(peer: Peer) -> str:
    """The condition with which the connection of a peer was closed, "" if it is open."""
    return peer.conn.error.condition if peer.conn.error is not None else ""


def bodies(peer: Peer) -> list[bytes]:
    return [f.payload for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def sending() -> Pair:
    """The client has a link-routed sender; the broker has issued no credit."""
    pair = Pair()
    pair.joined(frames.attach_sender("out"), frames.attach_receiver("client.out"))
    return pair


@pytest.mark.parametrize("fields", TRANSFERS.values(), ids=TRANSFERS.keys())
@pytest.mark.parametrize("credit", [0, 5])
def test_a_transfer_on_a_routed_link(fields: tuple[int, bytes], credit: int) -> None:
    """Without credit it waits: the broker's next flow would have read it in the context of the broker."""
    pair = sending()
    pair.broker.send(frames.credit(credit))
    pair.client.send(performative(0x14, fields, b"body"))
    pair.broker.send(frames.credit(5))
    assert (ended(pair.client), ended(pair.broker)) == ("amqp:decode-error", "")
    assert bodies(pair.broker) == []
    assert not pair.broker.conn.over


def pair_at(hub: Hub, credit: int = 5) -> tuple[Peer, Peer]:
    """A consumer and a producer of one address."""
    consumer, producer = hub.peer().open().begin(), hub.peer().open().begin()
    consumer.send(frames.attach_receiver(), frames.credit(credit))
    producer.send(frames.attach_sender())
    return consumer, producer


@pytest.mark.parametrize("fields", TRANSFERS.values(), ids=TRANSFERS.keys())
@pytest.mark.parametrize("later", [False, True], ids=["first frame", "later frame"])
def test_a_transfer_to_an_address(fields: tuple[int, bytes], later: bool) -> None:
    consumer, producer = pair_at(core_hub())
    if later:
        producer.send(frames.transfer(0, frames.message(b"begun")[:-1], more=True))
    producer.send(performative(0x14, fields, frames.message()))
    assert (ended(producer), ended(consumer)) == ("amqp:decode-error", "")
    assert len(bodies(consumer)) == 2 * later, "the first frame and its abort"


@pytest.mark.parametrize("fields", FLOWS.values(), ids=FLOWS.keys())
def test_a_flow_on_a_routed_link(fields: tuple[int, bytes]) -> None:
    pair = sending()
    pair.client.send(performative(0x13, fields))
    assert (ended(pair.client), ended(pair.broker)) == ("amqp:decode-error", "")
    assert not [p for p in pair.broker.take() if isinstance(p, Flow)]


@pytest.mark.parametrize("fields", FLOWS.values(), ids=FLOWS.keys())
def test_a_flow_for_an_address(fields: tuple[int, bytes]) -> None:
    consumer, producer = pair_at(core_hub(), 0)
    producer.send(frames.transfer(0))
    consumer.send(performative(0x13, fields))
    assert (ended(consumer), ended(producer)) == ("amqp:decode-error", "")
    assert bodies(consumer) == []


@pytest.mark.parametrize("fields", DISPOSITIONS.values(), ids=DISPOSITIONS.keys())
@pytest.mark.parametrize("routed", [False, True], ids=["address", "link route"])
def test_a_disposition(fields: tuple[int, bytes], routed: bool) -> None:
    if routed:
        pair = sending()
        pair.broker.send(frames.credit(5))
        consumer, producer = pair.broker, pair.client
    else:
        consumer, producer = pair_at(core_hub())
    producer.send(frames.transfer(0))
    producer.take()
    consumer.take()
    consumer.send(performative(0x15, fields))
    assert (ended(consumer), ended(producer)) == ("amqp:decode-error", "")
    told = [p for p in producer.take() if isinstance(p, Disposition)]
    assert [state.descriptor for state in frames.told(told)] == [0x27], "modified: the consumer is lost"


def test_a_state_with_many_values_is_passed_on() -> None:
    state = modified(annotations={Symbol(f"x-{i}"): i for i in range(400)})
    consumer, producer = pair_at(core_hub())
    producer.send(frames.transfer(0))
    consumer.send(frames.disposition(0, state=state))
    assert frames.told(producer.take()) == [state]
