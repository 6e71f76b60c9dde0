"""Invalid input gets the right error on its connection, session or link, and affects no other. Sections of AMQP 1.0."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.raw_client import AMQP, SASL, RawClient
from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.process import RouterProcess
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Terminus,
    Transfer,
    encode_frame,
)
from waymesh_amqp.types import Described, ULong, encode

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def bystander(router1: RouterProcess) -> Iterator[Callable[[], None]]:
    """Two clients that exchange messages; call it to see that they still can. It is called at the end of each test."""
    address = fresh()
    with Client(router1.url) as sending, Client(router1.url) as receiving:
        receiver = receiving.receiver(address, 1000)
        sender = sending.sender(address)

        def check() -> None:
            sent = sender.send("still here")
            receiver.next().accept()
            assert sent.outcome() == "accepted"

        check()
        yield check
        check()
        assert router1.alive()


@pytest.fixture
def raw(router1: RouterProcess, bystander: Callable[[], None]) -> Iterator[RawClient]:
    """A connection that is not open yet."""
    with RawClient(router1.port) as raw:
        yield raw


def frame(body: bytes, channel: int = 0, *, size: int | None = None, doff: int = 2, kind: int = 0) -> bytes:
    """A frame of given bytes, its header right or wrong. Spec: 2.3."""
    length = 8 + len(body) if size is None else size
    return length.to_bytes(4, "big") + bytes([doff, kind]) + channel.to_bytes(2, "big") + body


def performative(code: int, *fields: object) -> bytes:
    """An encoded performative with any fields."""
    return encode(Described(ULong(code), list(fields)))


# ---- headers. Spec: 2.2
@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x00\x09\x01", b"AMQP\x00\x02\x00\x00", b"AMQP\x07\x01\x00\x00", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 8],
)
def test_wrong_header_is_answered_with_ours(raw: RawClient, header: bytes) -> None:
    raw.send(header)
    assert raw.read_to_end() in (AMQP, SASL)


def test_second_header_in_place_of_a_frame(raw: RawClient) -> None:
    raw.open()
    raw.send(AMQP)
    assert raw.close_error()[0] == "amqp:connection:framing-error"


# ---- framing. Spec: 2.3
@pytest.mark.parametrize(
    "data",
    [
        frame(b"", size=0),
        frame(b"", size=7),
        frame(b"\x00" * 8, doff=1),
        frame(b"\x00" * 8, doff=9),
        frame(b"\x00" * 8, doff=0),
        frame(b"", size=16_385) + bytes(16_377),
        frame(b"", size=2**31) + bytes(100),
        frame(b"", size=2**32 - 1) + bytes(100),
    ],
    ids=["size 0", "size 7", "doff 1", "doff behind the end", "doff 0", "a byte over max-frame-size", "2 GiB", "4 GiB"],
)
def test_broken_frame(raw: RawClient, data: bytes) -> None:
    raw.open()
    raw.send(data)
    assert raw.close_error()[0] == "amqp:connection:framing-error"


def test_frame_of_exactly_max_frame_size_is_taken(raw: RawClient, router1: RouterProcess) -> None:
    address = fresh()
    answer = raw.open()
    raw.begin()
    with Client(router1.url) as client:
        receiver = client.receiver(address, 1)
        handle = raw.attach_sender(address)
        head = len(encode_frame(0, Transfer(handle=handle, delivery_id=0, delivery_tag=b"0000", settled=True), b""))
        size = (answer.max_frame_size or 0) - head
        body = b"\x00\x53\x75\xb0" + (size - 8).to_bytes(4, "big") + bytes(size - 8)
        raw.put(Transfer(handle=handle, delivery_id=0, delivery_tag=b"0000", settled=True), body)
        assert len(receiver.next().body) == size - 8


def test_extended_header_and_empty_frames_are_passed_over(raw: RawClient) -> None:
    raw.open()
    raw.send(frame(b"") * 5)
    body = encode_frame(0, Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10))[8:]
    raw.send(frame(b"\xff" * 12 + body, doff=5))
    raw.expect(Begin)


def test_unknown_frame_type(raw: RawClient) -> None:
    raw.open()
    raw.send(frame(performative(0x11, None, 0, 1, 1), kind=9))
    assert raw.close_error()[0] == "amqp:connection:framing-error"


# ---- performatives
@pytest.mark.parametrize(
    "body",
    [
        performative(0x77),
        performative(0x9F, 1, 2),
        encode(Described(ULong(2**63), [])),
        b"\x00\xa3\x09x:unknown\x45",
        b"\x53\x10",
        b"\x00\x53",
        b"\xff\xff\xff\xff",
        b"\x00\x53\x11\xd0\xff\xff\xff\xff\x00\x00\x00\x01",
        b"\x00\x53\x11\xc0\x03\x09\x40\x40",
        performative(0x11, "text in place of a channel"),
        performative(0x11),
        performative(0x12, 5, 0, False),
        performative(0x14),
        performative(0x13),
        performative(0x15, True),
    ],
    ids=[
        "unknown code", "unknown code with fields", "code of 64 bits", "unknown symbol", "no descriptor", "cut off",
        "no type", "list beyond the frame", "too many fields", "wrong type", "begin without fields",
        "attach with a number for a name", "transfer without fields", "flow without fields",
        "disposition without first",
    ],
)  # fmt: skip
def test_bad_performative_closes_the_connection(raw: RawClient, body: bytes) -> None:
    raw.open()
    raw.begin()
    raw.send(frame(body))
    condition, description = raw.close_error()
    assert condition in ("amqp:decode-error", "amqp:connection:framing-error", "amqp:not-allowed", "amqp:invalid-field")
    assert description


def test_frame_before_open(raw: RawClient) -> None:
    raw.send(SASL)
    raw.read(8)
    raw.expect(SaslMechanisms)
    raw.put(SaslInit(mechanism="ANONYMOUS"))
    raw.expect(SaslOutcome)
    raw.send(AMQP)
    raw.read(8)
    raw.put(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert raw.close_error()[0] == "amqp:illegal-state"


def test_frame_on_a_channel_without_a_session(raw: RawClient) -> None:
    raw.open()
    raw.put(Attach(name="x", handle=0, role=True, source=Terminus(kind="source", address="a")), channel=5)
    assert raw.close_error()[0] in ("amqp:not-allowed", "amqp:illegal-state")


def test_channel_over_channel_max(raw: RawClient) -> None:
    answer = raw.open()
    raw.put(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=(answer.channel_max or 0) + 1)
    assert raw.close_error()[0] == "amqp:connection:framing-error"


# ---- sessions: the connection goes on
def session_error(raw: RawClient) -> str:
    """The condition of the end that comes; afterwards the connection has a working session again."""
    error = raw.expect(End).error
    assert error is not None
    raw.put(End())
    raw.begin()
    raw.attach_receiver(fresh())
    return str(error.condition)


@pytest.mark.parametrize(
    "bad",
    [
        Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1, handle=7),
        Transfer(handle=7, delivery_id=0, delivery_tag=b"t"),
        Detach(handle=7, closed=True),
    ],
    ids=["flow", "transfer", "detach"],
)
def test_handle_that_is_not_attached(raw: RawClient, bad: object) -> None:
    raw.open()
    raw.begin()
    raw.put(bad)
    assert session_error(raw) == "amqp:session:unattached-handle"


def test_handle_in_use(raw: RawClient) -> None:
    raw.open()
    raw.begin()
    raw.attach_receiver(fresh())
    raw.put(Attach(name="other", handle=0, role=True, source=Terminus(kind="source", address=fresh())))
    assert session_error(raw) == "amqp:session:handle-in-use"


# ---- links: the session goes on
def link_error(raw: RawClient) -> str:
    """The condition of the detach that comes; the session still works."""
    error = raw.expect(Detach).error
    assert error is not None
    raw.attach_receiver(fresh())
    return str(error.condition)


def test_transfers_without_credit(raw: RawClient) -> None:
    """As many as the capacity of the link (250) are tolerated."""
    raw.open()
    raw.begin()
    handle = raw.attach_sender(fresh(), wait_credit=False)
    for _ in range(251):
        raw.transfer(handle, b"\x00\x53\x77\x40")
    assert link_error(raw) == "amqp:link:transfer-limit-exceeded"


def test_delivery_without_a_tag(raw: RawClient) -> None:
    raw.open()
    raw.begin()
    raw.put(Transfer(handle=raw.attach_sender(None)), b"\x00\x53\x77\x40")
    assert link_error(raw) == "amqp:invalid-field"


def test_disposition_of_unknown_deliveries_is_ignored(raw: RawClient) -> None:
    """They may have been settled on their way. Spec: 2.6.12."""
    raw.open()
    raw.begin()
    raw.put(Disposition(role=True, first=0, last=2**31 - 2, settled=True))
    raw.put(Disposition(role=False, first=17, settled=True))
    raw.attach_receiver(fresh())


# ---- messages
@pytest.mark.parametrize(
    "payload",
    [
        b"\xff" * 20,
        b"\x00\x53\x70\x40",
        b"\x00\x53\x72\xa1\x01x",
        b"\x00\x53\x72\xd1\xff\xff\xff\xff\x00\x00\x00\x02",
        b"\x00\x53\x73\xc0\x10\x05",
        b"\x00\x53\x70\xc0\x02",
    ],
    ids=["no sections", "header null", "annotations no map", "map beyond the end", "list beyond the end", "cut off"],
)
def test_unreadable_message_to_an_anonymous_link_is_rejected(raw: RawClient, payload: bytes) -> None:
    raw.open()
    raw.begin()
    handle = raw.attach_sender(None)
    raw.transfer(handle, payload)
    assert raw.last is not None
    disposition = raw.expect(Disposition)
    assert disposition.settled
    assert b"\x00\x53\x25" in raw.last, "rejected, with a reason"
    raw.attach_receiver(fresh())


# ---- the end
def test_close_with_an_error_is_answered(raw: RawClient) -> None:
    raw.open()
    raw.put(Close())
    assert raw.expect(Close).error is None
    assert raw.read_to_end() == b""


def test_connection_dropped_in_the_middle_of_a_frame(raw: RawClient) -> None:
    raw.open()
    raw.send(frame(b"\x00\x53\x11", size=500))


def test_silence_before_the_header_is_ended(raw: RawClient, bystander: Callable[[], None]) -> None:
    """Nothing is sent at all: others are served meanwhile."""
    bystander()
