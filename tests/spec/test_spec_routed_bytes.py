"""Frames that are forwarded unchanged over link routes, byte for byte. Spec: 2.7.3 to 2.7.7."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.spec.test_spec_link_routes import Pair
from waymesh_amqp.performatives import Attach, Detach, ErrorInfo, Flow, Terminus, Transfer, encode_frame
from waymesh_amqp.types import Described, Raw, Symbol, ULong, encode

DEEP = {Symbol("k"): [1, {"m": Described(Symbol("x:y"), {b"b": None})}, Described(ULong(1 << 40), 1.5)]}


def map32(value: dict[Any, Any]) -> Raw:
    """A map in the long encoding, which an encoder of its own would not choose."""
    pairs = b"".join(encode(key) + encode(item) for key, item in value.items())
    return Raw(b"\xd1" + (len(pairs) + 4).to_bytes(4, "big") + (2 * len(value)).to_bytes(4, "big") + pairs)


PROPERTIES = map32(DEEP)
SYMBOLS = Raw(b"\xf0\x00\x00\x00\x10\x00\x00\x00\x01\xb3\x00\x00\x00\x07example")
"""An array of one symbol; array and symbol in their long encodings."""
STATE = b"\x00\x53\x23\xc0\x0c\x02\x52\x05\x80\x00\x00\x00\x00\x00\x00\x00\x07"
UNSETTLED = map32({b"tag-1": Described(ULong(0x23), [5, 7]), b"tag-2": None})


def foreign(code: int) -> Terminus:
    """A terminus of a type that the standard does not know."""
    terminus = Terminus("other")
    terminus.raw = b"\x00\x80" + code.to_bytes(8, "big") + encode([1, DEEP])
    return terminus


@pytest.fixture(params=[1, 10000], ids=["bytewise", "whole"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


def receiving(pair: Pair) -> Pair:
    """The client has a receiver."""
    pair.joined(frames.attach_receiver("in"), frames.attach_sender("client.in"))
    return pair


def sending(pair: Pair, credit: int = 10) -> Pair:
    """The client has a sender."""
    pair.joined(frames.attach_sender("out"), frames.attach_receiver("client.out"))
    pair.broker.send(frames.credit(credit))
    pair.client.take()
    return pair


def test_all_of_an_attach(pair: Pair) -> None:
    fields: dict[str, Any] = {
        "snd_settle_mode": 1, "rcv_settle_mode": 1, "unsettled": UNSETTLED, "incomplete_unsettled": True,
        "max_message_size": 1 << 33, "offered_capabilities": SYMBOLS, "desired_capabilities": SYMBOLS,
        "properties": PROPERTIES,
    }  # fmt: skip
    pair.client.end.feed(frames.attach_receiver("in", target=foreign(0x99), **fields))
    pair.hub.turn()
    written = pair.broker.end.written
    for part in (UNSETTLED, SYMBOLS + SYMBOLS + PROPERTIES, foreign(0x99).raw):
        assert bytes(part) in written
    seen: Any = pair.broker.take()[-1]
    assert (seen.snd_settle_mode, seen.rcv_settle_mode, seen.max_message_size) == (1, 1, 1 << 33)
    assert seen.incomplete_unsettled
    pair.client.take()
    fields |= {"snd_settle_mode": 0, "initial_delivery_count": 77}
    pair.broker.end.feed(frames.begin(remote_channel=0))
    pair.broker.end.feed(frames.attach_sender("client.in", target=foreign(0x9A), **fields))
    pair.hub.turn()
    written = pair.client.end.written
    for part in (UNSETTLED, SYMBOLS + SYMBOLS + PROPERTIES, foreign(0x9A).raw):
        assert bytes(part) in written
    (answer,) = pair.client.take()
    assert (answer.snd_settle_mode, answer.rcv_settle_mode, answer.max_message_size) == (0, 1, 1 << 33)


def test_the_address_of_an_attach_without_one_leaves_other_properties_as_they_are(pair: Pair) -> None:
    """Between routers it is one of the link's properties: `core/rewriting.py`."""
    core: Any = pair.hub.handler
    core.linkroutes.add({"identity": "all", "pattern": "all", "direction": "both", "connection": "broker"})
    pair.client.conn.route_address = "all"
    pair.broker.conn.role = "inter-router"
    pair.client.send(frames.attach_sender("out", address=None, properties=PROPERTIES))
    pair.broker.conn.role = "route-container"
    seen: Any = pair.broker.take()[-1]
    assert isinstance(seen, Attach)
    told = {Symbol("x-opt-waymesh.route-address"): "all"}
    assert seen.raw["properties"] == map32({**DEEP, **told})


def test_a_terminus_of_an_unknown_type_goes_where_everything_goes(pair: Pair) -> None:
    refused = pair.client.send(frames.attach_sender("none", target=foreign(0x99)))
    assert [type(p) for p in refused] == [Attach, Detach]
    assert refused[1].error.condition == "amqp:not-implemented"
    refused = pair.client.send(frames.attach_receiver("none", 1, source=foreign(0x99)))
    assert refused[1].error.condition == "amqp:not-implemented"
    core: Any = pair.hub.handler
    core.linkroutes.add({"identity": "all", "pattern": "#", "direction": "both", "connection": "broker"})
    assert not pair.client.send(frames.attach_sender("some", 2, target=foreign(0x99)))
    assert pair.broker.take()[-1].target.raw == foreign(0x99).raw


def test_what_a_receiver_says_in_a_flow(pair: Pair) -> None:
    receiving(pair)
    pair.client.end.feed(frames.credit(5, echo=True, properties=PROPERTIES))
    pair.hub.turn()
    assert bytes(PROPERTIES) in pair.broker.end.written
    (seen,) = pair.seen(pair.broker, Flow)
    assert (seen.link_credit, seen.echo, seen.properties) == (5, True, DEEP)
    (answer,) = pair.seen(pair.client, Flow)  # the router's own: not all containers give one
    assert (answer.handle, answer.link_credit, answer.echo) == (0, 5, False)
    pair.client.send(frames.credit(7))
    (seen,) = pair.seen(pair.broker, Flow)
    assert (seen.link_credit, seen.echo, seen.properties) == (7, False, None)


def test_what_a_sender_says_in_a_flow(pair: Pair) -> None:
    sending(pair)
    pair.client.send(frames.credit(10, available=3, echo=True, properties=PROPERTIES))
    (seen,) = pair.seen(pair.broker, Flow)
    assert (seen.available, seen.echo, seen.properties) == (3, True, DEEP)
    pair.client.send(frames.credit(10, available=0))
    (seen,) = pair.seen(pair.broker, Flow)
    assert (seen.available, seen.echo, seen.properties) == (0, False, None)


@pytest.mark.parametrize("available", [0, 9, (1 << 32) - 1])
def test_a_drained_sender_says_what_it_has_left(pair: Pair, available: int) -> None:
    sending(pair)
    pair.broker.send(frames.credit(10, drain=True, echo=True))
    (asked,) = pair.seen(pair.client, Flow)
    assert (asked.link_credit, asked.drain, asked.echo, asked.available) == (10, True, True, None)
    pair.client.send(frames.credit(0, delivery_count=10, drain=True, available=available))
    seen = pair.seen(pair.broker, Flow)
    assert (seen[-1].delivery_count, seen[-1].link_credit, seen[-1].drain) == (10, 0, True)
    assert [flow.available for flow in seen if flow.available is not None] == [available]


def test_a_drain_with_echo_goes_to_the_sender_and_its_end_comes_back(pair: Pair) -> None:
    receiving(pair)
    pair.client.send(frames.credit(5, drain=True, echo=True))
    (seen,) = pair.seen(pair.broker, Flow)
    assert (seen.link_credit, seen.drain, seen.echo) == (5, True, True)
    pair.seen(pair.client, Flow)
    pair.broker.send(frames.credit(0, delivery_count=5, drain=True, available=0))
    (done,) = pair.seen(pair.client, Flow)
    assert (done.delivery_count, done.link_credit, done.drain, done.available) == (5, 0, True, 0)


def test_available_from_a_receiver_is_not_passed_on(pair: Pair) -> None:
    receiving(pair)
    pair.client.send(frames.credit(5, available=3))
    (seen,) = pair.seen(pair.broker, Flow)
    assert (seen.link_credit, seen.available) == (5, None)


def test_flows_of_one_turn_become_one(pair: Pair) -> None:
    receiving(pair)
    pair.client.send(frames.credit(5, properties=PROPERTIES) + frames.credit(6, echo=True))
    seen = pair.seen(pair.broker, Flow)
    assert (seen[-1].link_credit, any(f.echo for f in seen)) == (6, True)
    assert any(f.properties == DEEP for f in seen)


def test_properties_of_a_flow_that_nobody_can_read_harm_only_who_sent_them(pair: Pair) -> None:
    receiving(pair)
    pair.client.send(frames.credit(5, properties=Raw(b"\xc1\x03\x02\xa3\x7f")))
    assert pair.client.conn.error.condition == "amqp:decode-error"
    assert not [p for p in pair.broker.take() if isinstance(p, Flow)]


def test_an_error_keeps_its_bytes_both_ways(pair: Pair) -> None:
    error = ErrorInfo("example:error", "text")
    error.raw = b"\x00\x80" + bytes(7) + b"\x1d" + encode([Symbol("example:error"), "text", PROPERTIES])
    receiving(pair)
    pair.client.end.feed(frames.detach(closed=False, error=error))
    pair.hub.turn()
    assert error.raw in pair.broker.end.written
    pair.broker.take()
    pair.broker.end.feed(frames.detach(closed=False, error=error))
    pair.hub.turn()
    assert error.raw in pair.client.end.written


def test_a_resumed_delivery_and_all_of_a_transfer(pair: Pair) -> None:
    sending(pair)
    tag = bytes(range(32))
    given: dict[str, Any] = {
        "delivery_tag": tag, "message_format": 0xFFFFFFFE, "rcv_settle_mode": 1, "state": Raw(STATE), "resume": True,
        "batchable": True,
    }  # fmt: skip
    pair.client.end.feed(encode_frame(0, Transfer(0, 0, **given), b"payload"))
    pair.hub.turn()
    assert STATE in pair.broker.end.written
    (seen,) = [f for f in pair.broker.frames() if isinstance(getattr(f, "performative", None), Transfer)]
    transfer: Any = getattr(seen, "performative", None)
    assert (transfer.delivery_tag, transfer.message_format, transfer.rcv_settle_mode) == (tag, 0xFFFFFFFE, 1)
    assert (transfer.resume, transfer.aborted, transfer.batchable, transfer.settled) == (True, False, True, False)
    assert getattr(seen, "payload", None) == b"payload"
