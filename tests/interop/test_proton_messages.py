"""Messages arrive as they were sent: every section and body kind, over no, one and three hops."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from typing import Any, cast

import proton
import pytest
from proton import symbol

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

Ends = tuple[Client, Client]

BODIES: dict[str, Any] = {
    "null": None,
    "true": True,
    "string": "Grüße, 世界",
    "long string": "x" * 1000,
    "symbol": symbol("a-symbol"),
    "binary": b"\x00\x01\xff" * 100,
    "ubyte": proton.ubyte(255),
    "ushort": proton.ushort(65535),
    "uint": proton.uint(0),
    "ulong": proton.ulong(2**64 - 1),
    "byte": proton.byte(-128),
    "short": proton.short(-32768),
    "int": proton.int32(-(2**31)),
    "long": -(2**63),
    "float": proton.float32(0.5),
    "double": 1e300,
    "char": proton.char("€"),
    "timestamp": proton.timestamp(1234567890123),
    "uuid": uuid.UUID(int=2**127 + 5),
    "list": [1, [2, [3, ["deep", {}]]], None, True],
    "map": {"a": 1, symbol("b"): [1, 2], proton.int32(3): {"c": None}},
    "empty list": [],
    "array": proton.Array(cast("Any", proton.UNDESCRIBED), proton.Data.INT, 1, 2, 3),
    "described": proton.Described(symbol("test:described"), ["value", 7]),
    "decimal": proton.decimal64(7),
}


@pytest.fixture(params=["one", "two", "four"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Clients to send and to receive: on one router, on two, and at the ends of a line of four."""
    if request.param == "one":
        router: RouterProcess = request.getfixturevalue("router1")
        urls = [router.url, router.url]
    else:
        mesh: Mesh = request.getfixturevalue("line2" if request.param == "two" else "line4")
        urls = [mesh.routers[0].url, mesh.routers[-1].url]
    with Client(urls[0]) as sending, Client(urls[1]) as receiving:
        yield sending, receiving


def passed(ends: Ends, message: proton.Message) -> proton.Message:
    """The message as it arrives."""
    address = fresh()
    receiver = ends[1].receiver(address, 1)
    sent = ends[0].sender(address).send(message)
    received = receiver.next()
    received.accept()
    assert sent.outcome() == "accepted"
    return received.message


@pytest.mark.parametrize("kind", BODIES)
def test_body_value(ends: Ends, kind: str) -> None:
    message = passed(ends, proton.Message(body=BODIES[kind], inferred=False))
    body: Any = message.body
    if kind == "binary":
        body = bytes(body)
    assert body == BODIES[kind]
    assert type(body) is type(BODIES[kind])


def test_body_data(ends: Ends) -> None:
    message = passed(ends, proton.Message(body=b"\x00data\xff", inferred=True))
    assert message.body == b"\x00data\xff"
    assert message.inferred


def test_body_sequence(ends: Ends) -> None:
    message = passed(ends, proton.Message(body=[1, "two", None], inferred=True))
    assert message.body == [1, "two", None]
    assert message.inferred


def test_header(ends: Ends) -> None:
    header = {"durable": True, "priority": 7, "ttl": 12.5, "first_acquirer": True, "delivery_count": 3}
    message = passed(ends, proton.Message(body="x", **header))
    assert {name: getattr(message, name) for name in header} == header


def test_absent_header_stays_absent(ends: Ends) -> None:
    message = passed(ends, proton.Message(body="x"))
    assert (message.durable, message.priority, message.ttl, message.delivery_count) == (False, 4, 0, 0)


@pytest.mark.parametrize("message_id", ["text", uuid.UUID(int=5), proton.ulong(2**63), b"binary"])
def test_properties(ends: Ends, message_id: Any) -> None:
    properties = {
        "id": message_id,
        "user_id": b"user",
        "address": "an.address.that.says.something.else",
        "subject": "subject é",
        "reply_to": "reply",
        "correlation_id": message_id,
        "content_type": symbol("text/plain"),
        "content_encoding": symbol("utf-8"),
        "expiry_time": 2000000000.0,
        "creation_time": 1000000000.5,
        "group_id": "group",
        "group_sequence": 2**31,
        "reply_to_group_id": "reply-group",
    }
    message = passed(ends, proton.Message(body="x", **properties))
    assert {name: getattr(message, name) for name in properties} == properties


def test_application_properties(ends: Ends) -> None:
    properties = {
        "text": "é" * 300,
        "long": 2**40,
        "int": proton.int32(1),
        "bool": False,
        "binary": b"\x00",
        "uuid": uuid.UUID(int=1),
        "null": None,
        "symbol": symbol("s"),
        "double": 0.25,
        "when": proton.timestamp(int(datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC).timestamp() * 1000)),
    }
    message = passed(ends, proton.Message(body="x", properties=properties))
    passed_on = cast("dict[str, Any]", message.properties)  # proton's types know None alone
    assert passed_on == properties
    assert isinstance(passed_on["int"], proton.int32)


def test_delivery_annotations(ends: Ends) -> None:
    instructions = {symbol("x-opt-instruction"): [1, 2], symbol("x-opt-other"): proton.ubyte(1)}
    assert passed(ends, proton.Message(body="x", instructions=instructions)).instructions == instructions


CLIENT_ANNOTATIONS: dict[Any, Any] = {
    symbol("x-opt-foo"): "text é",
    symbol("x-opt-int"): proton.int32(-1),
    symbol("x-opt-ubyte"): proton.ubyte(7),
    symbol("x-opt-list"): [1, None, "x", {"k": b"\x00"}],
    symbol("x-opt-map"): {symbol("inner"): proton.ulong(2**60)},
    symbol("x-opt-array"): proton.Array(cast("Any", proton.UNDESCRIBED), proton.Data.SYMBOL, symbol("a"), symbol("b")),
    symbol("x-opt-described"): proton.Described(proton.ulong(1), "v"),
    symbol("x-opt-qdx"): "only looks like one of the router's",
}


def test_annotations_of_the_client_pass_alone(ends: Ends) -> None:
    """The router's own are stripped for clients."""
    arrived = passed(ends, proton.Message(body="x", annotations=dict(CLIENT_ANNOTATIONS)))
    assert arrived.annotations is not None
    assert dict(arrived.annotations) == CLIENT_ANNOTATIONS
    for key, value in CLIENT_ANNOTATIONS.items():
        assert type(arrived.annotations[key]) is type(value), key


def test_many_annotations(ends: Ends) -> None:
    """More than a map8 holds."""
    annotations = {symbol(f"x-opt-{number}"): "v" * 100 for number in range(200)}
    assert passed(ends, proton.Message(body="x", annotations=annotations)).annotations == annotations


def test_no_annotations_arrive_where_none_were_sent(ends: Ends) -> None:
    assert not passed(ends, proton.Message(body="x")).annotations


def test_router_annotations_of_a_client_are_dropped(ends: Ends) -> None:
    """A client cannot pretend that its message came another way."""
    pretended = {symbol("x-opt-qd.to"): "elsewhere", symbol("x-opt-qd.trace"): ["0/D"], symbol("x-opt-a"): 1}
    assert passed(ends, proton.Message(body="x", annotations=pretended)).annotations == {symbol("x-opt-a"): 1}


@pytest.mark.parametrize("size", [0, 1, 255, 256, 16_000, 16_384, 16_500, 65_536, 1_000_000])
def test_sizes(ends: Ends, size: int) -> None:
    body = bytes(index * 7 % 251 for index in range(size))
    message = proton.Message(body=body, annotations={symbol("x-opt-size"): size})
    arrived = passed(ends, message)
    assert arrived.body == body
    assert arrived.annotations == {symbol("x-opt-size"): size}
