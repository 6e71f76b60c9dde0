"""Performatives: golden frames, round trips, and what each table refuses. Spec: 2.3, 2.7, 5.3.3"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.amqp_codec.codec_samples import VALUES, relaxed
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, modified, received, rejected
from waymesh_amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    ErrorInfo,
    Flow,
    Open,
    Performative,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Terminus,
    Transfer,
    decode_performative,
    encode_frame,
    encode_performative,
)
from waymesh_amqp.terminus import terminus_of
from waymesh_amqp.types import Described, Raw, Symbol, UByte, UInt, ULong, UShort, decode, encode

pytestmark = pytest.mark.engine_independent

_ERROR = ErrorInfo("amqp:not-found", "no such node", {"node": "a"})
_FULL_SOURCE = Terminus(
    "source",
    address="a",
    durable=2,
    expiry_policy="never",
    timeout=30,
    dynamic=True,
    dynamic_node_properties={"lifetime-policy": Described(ULong(0x2B), [])},
    distribution_mode="copy",
    filter={"selector": Described(ULong(0x468C00000004), "x = 1")},
    default_outcome=modified(delivery_failed=True),
    outcomes=["amqp:accepted:list", "amqp:rejected:list"],
    capabilities=["queue"],
)
_FULL_TARGET = Terminus(
    "target",
    address="b",
    durable=1,
    expiry_policy="link-detach",
    timeout=1,
    dynamic=True,
    dynamic_node_properties={"x": 1},
    capabilities=["topic", "q"],
)

FULL: dict[str, Performative] = {
    "2.7.1-open": Open(
        "id", "host", 16384, 255, 8000, ["en-US"], ["en-US", "de"], ["ANONYMOUS-RELAY"], ["x"], {"product": "waymesh"}
    ),
    "2.7.2-begin": Begin(
        remote_channel=1,
        next_outgoing_id=2,
        incoming_window=3,
        outgoing_window=4,
        handle_max=5,
        offered_capabilities=["a"],
        desired_capabilities=["b"],
        properties={"p": None},
    ),
    "2.7.3-attach": Attach(
        "link",
        1,
        SENDER,
        1,
        1,
        _FULL_SOURCE,
        _FULL_TARGET,
        {b"tag": ACCEPTED},
        True,
        7,
        2**40,
        ["a"],
        ["b"],
        {"qd.x": UInt(1)},
    ),
    "4.5.1-attach-coordinator": Attach(
        "tx", 2, SENDER, target=Terminus("coordinator", capabilities=["amqp:local-transactions"])
    ),
    "2.7.4-flow": Flow(
        next_incoming_id=1,
        incoming_window=2,
        next_outgoing_id=3,
        outgoing_window=4,
        handle=5,
        delivery_count=6,
        link_credit=7,
        available=8,
        drain=True,
        echo=True,
        properties={"x": 1},
    ),
    "2.7.5-transfer": Transfer(1, 2, b"tag", 0, True, True, 1, received(1, 2), True, True, True),
    "2.7.6-disposition": Disposition(RECEIVER, 1, 2, True, rejected(_ERROR), True),
    "2.7.7-detach": Detach(1, True, _ERROR),
    "2.7.8-end": End(_ERROR),
    "2.7.9-close": Close(_ERROR),
    "5.3.3.1-sasl-mechanisms": SaslMechanisms(["PLAIN", "ANONYMOUS"]),
    "5.3.3.2-sasl-init": SaslInit("PLAIN", b"\0a\0b", "host"),
    "5.3.3.3-sasl-challenge": SaslChallenge(b"c"),
    "5.3.3.4-sasl-response": SaslResponse(b"r"),
    "5.3.3.5-sasl-outcome": SaslOutcome(0, b"v"),
}

SPARSE: dict[str, Performative] = {
    "2.7.1-open": Open("id"),
    "2.7.2-begin": Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0),
    "2.7.3-attach": Attach("link", 0, RECEIVER),
    "2.7.3-attach-empty-termini": Attach("link", 0, RECEIVER, source=Terminus("source"), target=Terminus("target")),
    "2.7.4-flow": Flow(incoming_window=0, next_outgoing_id=0, outgoing_window=0),
    "2.7.5-transfer": Transfer(0),
    "2.7.5-transfer-unsettled-said": Transfer(0, settled=False),
    "2.7.6-disposition": Disposition(SENDER, 0),
    "2.7.7-detach": Detach(0),
    "2.7.8-end": End(),
    "2.7.9-close": Close(),
    "2.7.9-close-condition-only": Close(ErrorInfo("amqp:internal-error")),
    "5.3.3.2-sasl-init": SaslInit("ANONYMOUS"),
    "5.3.3.5-sasl-outcome": SaslOutcome(1),
}

ALL = {f"full-{name}": p for name, p in FULL.items()} | {f"sparse-{name}": p for name, p in SPARSE.items()}
each = pytest.mark.parametrize("performative", ALL.values(), ids=ALL.keys())


def test_the_full_samples_are_full() -> None:
    """Every field of every performative and terminus is used by some sample above."""
    for name, performative in FULL.items():
        if "coordinator" not in name:
            for field in dataclasses.fields(performative):
                value = getattr(performative, field.name)
                assert value not in (None, field.default) or field.name in ("role", "code"), (name, field.name)


@each
def test_round_trip(performative: Performative) -> None:
    frame = encode_frame(3, performative, b"payload")
    decoded, payload = decode_performative(frame, 8, len(frame))
    assert decoded == performative
    assert frame[payload:] == b"payload"
    assert decode_performative(memoryview(frame), 8, len(frame)) == (decoded, payload)


@each
def test_every_truncation_is_a_decode_error(performative: Performative) -> None:
    body = encode_performative(performative)
    for length in range(len(body)):
        with pytest.raises(DecodeError):
            decode_performative(body[:length], 0, length)
        with pytest.raises(DecodeError):
            decode_performative(body, 0, length)


@each
def test_any_other_byte_gives_a_performative_or_a_decode_error(performative: Performative) -> None:
    body = encode_performative(performative)
    for index in range(len(body)):
        for octet in (0x00, 0x01, 0x40, 0x41, 0x45, 0x53, 0x70, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0, 0xF0, 0xFF):
            broken = body[:index] + bytes([octet]) + body[index + 1 :]
            with contextlib.suppress(DecodeError):
                assert decode_performative(broken, 0, len(broken))[1] <= len(broken)


GOLDEN = [  # all of the frame but its size
    ("2.7.1", Open("id"), "02000007 005310 c0 05 01 a1 02 6964"),
    ("2.7.8", End(), "02000007 005317 45"),
    ("2.7.5", Transfer(1, 2, b"t", 0, more=True), "02000007 005314 c0 0b 06 5201 5202 a00174 43 40 41"),
    ("2.7.6", Disposition(True, 0, 9, True, ACCEPTED), "02000007 005315 c0 0a 05 41 43 5209 41 005324 45"),
    ("5.3.3.1", SaslMechanisms(["PLAIN"]), "02010007 005340 c0 0b 01 e0 08 01 a3 05 504c41494e"),
    ("5.3.3.5", SaslOutcome(0), "02010007 005344 c0 03 01 5000"),
]


@pytest.mark.parametrize(("performative", "octets"), [case[1:] for case in GOLDEN], ids=[case[0] for case in GOLDEN])
def test_golden_frames(performative: Performative, octets: str) -> None:
    rest = bytes.fromhex(octets)
    assert encode_frame(7, performative).hex() == ((len(rest) + 4).to_bytes(4, "big") + rest).hex()


def test_frame_header() -> None:
    """Spec: 2.3.1: size, doff 2, type, channel; the payload follows the performative."""
    frame = encode_frame(0x1234, Transfer(0), b"\0" * 70_000)
    assert int.from_bytes(frame[:4], "big") == len(frame)
    assert frame[4:8].hex() == "02001234"
    assert encode_frame(0, SaslMechanisms(["PLAIN"]))[5] == 1
    assert encode_frame(0, End(), frame_type=7)[5] == 7


@pytest.mark.parametrize(
    ("performative", "symbol"),
    [(Open("id"), "amqp:open:list"), (Close(), "amqp:close:list"), (SaslOutcome(0), "amqp:sasl-outcome:list")],
)
def test_symbolic_descriptors(performative: Performative, symbol: str) -> None:
    body = b"\x00" + encode(Symbol(symbol)) + encode_performative(performative)[3:]
    assert decode_performative(body, 0, len(body)) == (performative, len(body))


def _body(code: int, *values: Any) -> bytes:
    return encode(Described(ULong(code), list(values)))


_NO_ID = (UInt(0), UInt(0))
WRONG = {
    "2.7.1-open-without-id": (_body(0x10), "open: mandatory field container-id is missing"),
    "2.7.1-open-null-id": (_body(0x10, None, "h"), "open: mandatory field container-id is missing"),
    "2.7.1-id-is-a-symbol": (_body(0x10, Symbol("x")), "open: field container-id: expected string, got symbol"),
    "2.7.1-frame-size-ushort": (_body(0x10, "x", None, UShort(1)), "open: field max-frame-size: expected uint"),
    "2.7.1-channel-max-long": (_body(0x10, "x", None, None, 1), "open: field channel-max: expected ushort, got int"),
    "2.7.1-capabilities-string": (_body(0x10, "x", *[None] * 6, "c"), "open: field offered-capabilities"),
    "2.7.1-properties-list": (_body(0x10, "x", *[None] * 8, []), "open: field properties: expected fields"),
    "2.7.1-eleven-fields": (_body(0x10, "x", *[None] * 10), "open: 11 fields"),
    "2.7.2-begin-missing": (_body(0x11, None, UInt(0), UInt(0)), "begin: mandatory field outgoing-window"),
    "2.7.3-attach-role": (_body(0x12, "l", UInt(0)), "attach: mandatory field role"),
    "2.7.3-role-int": (_body(0x12, "l", UInt(0), 1), "attach: field role: expected boolean"),
    "2.8.2-snd-settle-mode": (_body(0x12, "l", UInt(0), True, UByte(3)), "attach: field snd-settle-mode: .*0 to 2"),
    "2.8.3-rcv-settle-mode": (_body(0x12, "l", UInt(0), True, None, UByte(2)), "attach: field rcv-settle-mode"),
    "2.7.3-source-is-target": (
        _body(0x12, "l", UInt(0), True, None, None, Described(ULong(0x29), [])),
        "attach: field source: expected a source, got a target",
    ),
    "2.7.3-target-is-source": (
        _body(0x12, "l", UInt(0), True, None, None, None, Described(ULong(0x28), [])),
        "attach: field target: expected a target",
    ),
    "2.7.3-source-not-described": (_body(0x12, "l", UInt(0), True, None, None, "a"), "field source: expected source"),
    "3.5.3-source-no-list": (
        _body(0x12, "l", UInt(0), True, None, None, Described(ULong(0x28), {})),
        "source: not a list",
    ),
    "3.5.3-source-durable": (
        _body(0x12, "l", UInt(0), True, None, None, Described(ULong(0x28), [None, UInt(3)])),
        "source: field durable",
    ),
    "3.5.4-target-too-long": (
        _body(0x12, "l", UInt(0), True, None, None, None, Described(ULong(0x29), [None] * 8)),
        "target: 8 fields",
    ),
    "2.7.4-flow-missing": (_body(0x13, None, UInt(0)), "flow: mandatory field next-outgoing-id"),
    "2.7.5-transfer-empty": (_body(0x14), "transfer: mandatory field handle"),
    "2.7.5-state-no-state": (_body(0x14, UInt(0), *[None] * 6, "x"), "transfer: field state"),
    "2.7.6-disposition-first": (_body(0x15, True), "disposition: mandatory field first"),
    "2.7.7-detach-handle": (_body(0x16, None, True), "detach: mandatory field handle"),
    "2.7.9-error-other": (_body(0x18, Described(ULong(0x24), [])), "error: not described as an error"),
    "2.8.14-error-no-list": (_body(0x18, Described(ULong(0x1D), "x")), "error: not a list"),
    "2.8.14-error-empty": (_body(0x18, Described(ULong(0x1D), [])), "error: mandatory field condition"),
    "5.3.3.1-no-mechanisms": (_body(0x40), "sasl-mechanisms: mandatory field sasl-server-mechanisms"),
    "5.3.3.2-no-mechanism": (_body(0x41, None, b""), "sasl-init: mandatory field mechanism"),
    "5.3.3.6-sasl-code": (_body(0x44, UByte(5)), "sasl-outcome: field code"),
    "2.7-unknown": (_body(0x19), "unknown performative"),
    "2.7-unknown-symbol": (encode(Described(Symbol("amqp:nothing:list"), [])), "unknown performative"),
    "2.7-descriptor-of-other-type": (encode(Described(UInt(0x10), ["x"])), "unknown performative"),
    "2.7-map": (encode(Described(ULong(0x10), {})), "open: not a list"),
    "2.3-not-described": (encode(["x"]), "not a described value"),
    "2.3-empty": (b"", "not a described value"),
}


@pytest.mark.parametrize(("body", "reason"), WRONG.values(), ids=WRONG.keys())
def test_wrong_performatives(body: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_performative(body, 0, len(body))


def test_a_multiple_field_may_be_one_value() -> None:
    """Spec: 1.4"""
    body = _body(0x40, Symbol("PLAIN"))
    assert decode_performative(body, 0, len(body))[0] == SaslMechanisms(["PLAIN"])


def test_a_multiple_field_must_be_of_symbols() -> None:
    body = bytes.fromhex("005340 c0 06 01 e0 03 01 50 07")
    with pytest.raises(DecodeError, match="sasl-server-mechanisms: expected symbols"):
        decode_performative(body, 0, len(body))


@relaxed
@given(VALUES, st.sampled_from(sorted({*range(0x10, 0x19), *range(0x40, 0x45)})))
def test_any_value_behind_a_descriptor(value: Any, code: int) -> None:
    body = encode(Described(ULong(code), value))
    with contextlib.suppress(DecodeError):
        decode_performative(body, 0, len(body))


def _wide(code: int, count: int, content: bytes) -> bytes:
    """Make a list32 or map32 of encoded content."""
    return bytes([code]) + (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


def _terminus(raw: bytes) -> Terminus:
    terminus = terminus_of(decode(raw)[0])
    terminus.raw = raw
    return terminus


class TestRawTermini:
    """Bytes of a terminus pass through unless it is changed."""

    # Wide encodings where we would choose small ones, and nulls at the end.
    ODD = bytes.fromhex("00 80 0000000000000028") + _wide(
        0xD0, 10, bytes.fromhex("a10161 70 00000000 40 40 5600 40 40") + _wide(0xD1, 2, b"\xa3\x01f\x40") + b"\x40\x40"
    )

    def _source(self) -> Terminus:
        body = encode_performative(Attach("l", 0, RECEIVER, source=_terminus(self.ODD)))
        attach, _ = decode_performative(body, 0, len(body))
        assert isinstance(attach, Attach)
        assert attach.source is not None
        return attach.source

    def test_unchanged_ones_are_encoded_verbatim(self) -> None:
        source = self._source()
        assert source.raw == self.ODD
        assert source.encode() == self.ODD
        assert self.ODD in encode_frame(0, Attach("l", 5, SENDER, source=source))

    def test_changed_ones_are_encoded_anew(self) -> None:
        source = self._source()
        source.address = "b"
        assert source.raw == b""
        again = _terminus(source.encode())
        assert again.address == "b"
        assert again.filter == {"f": None}

    def test_replace_does_not_keep_the_bytes(self) -> None:
        source = self._source()
        assert _terminus(dataclasses.replace(source, address="c").encode()).address == "c"

    def test_what_is_no_terminus_is_refused(self) -> None:
        with pytest.raises(DecodeError):
            terminus_of(None)


def test_raw_properties_and_unsettled_pass_verbatim() -> None:
    raw = Raw(_wide(0xD1, 2, bytes.fromhex("a3017841")))
    frame = encode_frame(0, Attach("l", 0, SENDER, unsettled=raw, properties=raw))
    assert frame.count(raw) == 2
    attach, _ = decode_performative(frame, 8, len(frame))
    assert isinstance(attach, Attach)
    assert attach.properties == {"x": True}


def test_unknown_described_values_are_kept() -> None:
    state = Described(Symbol("example:state:map"), {"x": [1, None]})
    frame = encode_frame(0, Disposition(True, 0, state=state))
    disposition, _ = decode_performative(frame, 8, len(frame))
    assert isinstance(disposition, Disposition)
    assert disposition.state == state


@pytest.mark.parametrize(
    "performative",
    [Open(None), Detach(None), Open("x", channel_max=65536), Attach("l", 0, True, 256)],  # type: ignore[arg-type]
)
def test_values_that_do_not_fit_are_not_encoded(performative: Performative) -> None:
    with pytest.raises(ValueError):
        encode_frame(0, performative)


def test_outcomes() -> None:
    """Spec: 3.4"""
    assert encode(RELEASED).hex() == "00532645"
    assert encode(received(1, 2)).hex() == "005323c00502" + "52015302"
    assert encode(rejected()).hex() == "00532545"
    assert rejected(ErrorInfo("amqp:x")).value == [Described(ULong(0x1D), ["amqp:x"])]
    assert modified(undeliverable_here=True).value[:2] == [False, True]


def test_a_terminus_of_an_unknown_type_is_its_bytes() -> None:
    body = _body(0x12, "l", UInt(0), True, None, None, Described(ULong(0x99), [1, {"k": None}]))
    attach: Any = decode_performative(body, 0, len(body))[0]
    assert (attach.source.kind, attach.source.encode() in body) == ("other", True)
