"""The performatives: dataclasses, their field tables, decoding and encoding of frames. Spec: 2.3, 2.7, 5.3.3"""

from __future__ import annotations

from struct import Struct
from typing import Any

from waymesh_amqp.codec_decode import Buffer, compound_header, decode_value, has_more_values
from waymesh_amqp.codec_values import Raw, Symbol, ULong
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.fields import (
    BINARY,
    BOOLEAN,
    DELIVERY_STATE,
    FIELDS,
    MAP,
    MECHANISMS,
    STRING,
    SYMBOL,
    SYMBOLS,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    Composite,
    Field,
    flag,
    limited,
    mandatory,
    read_fields,
    to_plain,
    write_composite,
)
from waymesh_amqp.performative_types import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
    Transfer,
)
from waymesh_amqp.terminus import ERROR, SOURCE, TARGET, ErrorInfo, Terminus

__all__ = [
    "RECEIVER",
    "SENDER",
    "Attach",
    "Begin",
    "Close",
    "Detach",
    "Disposition",
    "End",
    "ErrorInfo",
    "Flow",
    "Open",
    "Performative",
    "SaslChallenge",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "SaslPerformative",
    "SaslResponse",
    "Terminus",
    "Transfer",
    "decode_performative",
    "encode_frame",
    "encode_performative",
]

_HEADER = Struct(">IBBH")

MAX_VALUES = 1000
"""Maximum number of values in a performative, including those in maps and lists. A frame is decoded in one step, which
takes about a microsecond per value and delays all other clients. 250 unsettled deliveries of a resumed link fit."""

_SND_MODE = limited("sender settle mode", UBYTE, 2)
_RCV_MODE = limited("receiver settle mode", UBYTE, 1)
_SASL_CODE = limited("sasl code", UBYTE, 4)  # Spec: 5.3.3.6
_CAPABILITIES = (Field("offered_capabilities", SYMBOLS), Field("desired_capabilities", SYMBOLS))
_PROPERTIES = Field("properties", FIELDS)

# Tolerant: python-proton that opens an endpoint twice sends its properties twice, uncounted. A broker must not lose its
# connection, and with it the links of all clients, for octets that nobody reads.
_TABLES: dict[type, Composite] = {
    Open: Composite(
        "open",
        0x10,
        "amqp:open:list",
        (
            mandatory("container_id", STRING),
            Field("hostname", STRING),
            Field("max_frame_size", UINT),
            Field("channel_max", USHORT),
            Field("idle_time_out", UINT),
            Field("outgoing_locales", SYMBOLS),
            Field("incoming_locales", SYMBOLS),
            *_CAPABILITIES,
            _PROPERTIES,
        ),
        tolerant=True,
    ),
    Begin: Composite(
        "begin",
        0x11,
        "amqp:begin:list",
        (
            Field("remote_channel", USHORT),
            mandatory("next_outgoing_id", UINT),
            mandatory("incoming_window", UINT),
            mandatory("outgoing_window", UINT),
            Field("handle_max", UINT),
            *_CAPABILITIES,
            _PROPERTIES,
        ),
        tolerant=True,
    ),
    Attach: Composite(
        "attach",
        0x12,
        "amqp:attach:list",
        (
            mandatory("name", STRING),
            mandatory("handle", UINT),
            mandatory("role", BOOLEAN),
            Field("snd_settle_mode", _SND_MODE),
            Field("rcv_settle_mode", _RCV_MODE),
            Field("source", SOURCE),
            Field("target", TARGET),
            Field("unsettled", MAP),
            flag("incomplete_unsettled"),
            Field("initial_delivery_count", UINT),
            Field("max_message_size", ULONG),
            *_CAPABILITIES,
            _PROPERTIES,
        ),
        tolerant=True,
    ),
    Flow: Composite(
        "flow",
        0x13,
        "amqp:flow:list",
        (
            Field("next_incoming_id", UINT),
            mandatory("incoming_window", UINT),
            mandatory("next_outgoing_id", UINT),
            mandatory("outgoing_window", UINT),
            Field("handle", UINT),
            Field("delivery_count", UINT),
            Field("link_credit", UINT),
            Field("available", UINT),
            flag("drain"),
            flag("echo"),
            _PROPERTIES,
        ),
    ),
    Transfer: Composite(
        "transfer",
        0x14,
        "amqp:transfer:list",
        (
            mandatory("handle", UINT),
            Field("delivery_id", UINT),
            Field("delivery_tag", BINARY),
            Field("message_format", UINT),
            Field("settled", BOOLEAN),
            flag("more"),
            Field("rcv_settle_mode", _RCV_MODE),
            Field("state", DELIVERY_STATE),
            flag("resume"),
            flag("aborted"),
            flag("batchable"),
        ),
    ),
    Disposition: Composite(
        "disposition",
        0x15,
        "amqp:disposition:list",
        (
            mandatory("role", BOOLEAN),
            mandatory("first", UINT),
            Field("last", UINT),
            flag("settled"),
            Field("state", DELIVERY_STATE),
            flag("batchable"),
        ),
    ),
    Detach: Composite(
        "detach",
        0x16,
        "amqp:detach:list",
        (mandatory("handle", UINT), flag("closed"), Field("error", ERROR)),
    ),
    End: Composite("end", 0x17, "amqp:end:list", (Field("error", ERROR),)),
    Close: Composite("close", 0x18, "amqp:close:list", (Field("error", ERROR),)),
    SaslMechanisms: Composite(
        "sasl-mechanisms", 0x40, "amqp:sasl-mechanisms:list", (mandatory("sasl_server_mechanisms", MECHANISMS),)
    ),
    SaslInit: Composite(
        "sasl-init",
        0x41,
        "amqp:sasl-init:list",
        (mandatory("mechanism", SYMBOL), Field("initial_response", BINARY), Field("hostname", STRING)),
    ),
    SaslChallenge: Composite("sasl-challenge", 0x42, "amqp:sasl-challenge:list", (mandatory("challenge", BINARY),)),
    SaslResponse: Composite("sasl-response", 0x43, "amqp:sasl-response:list", (mandatory("response", BINARY),)),
    SaslOutcome: Composite(
        "sasl-outcome",
        0x44,
        "amqp:sasl-outcome:list",
        (mandatory("code", _SASL_CODE), Field("additional_data", BINARY)),
    ),
}

_PASSED = {
    field.name: place
    for place, field in enumerate(_TABLES[Attach].fields)
    if field.name in ("unsettled", "offered_capabilities", "desired_capabilities", "properties")
}
_BY_CODE: dict[int, type] = {table.code: kind for kind, table in _TABLES.items()}
_BY_SYMBOL: dict[str, type] = {table.symbol: kind for kind, table in _TABLES.items()}


def decode_performative(buf: Buffer, pos: int, end: int) -> tuple[Performative, int]:
    """Decode the performative of the frame body `buf[pos:end]`; returns it and the end of its last field, which is the
    start of the payload of a transfer.

    Raises DecodeError, with the names of performative and field.
    """
    if end > len(buf):
        raise DecodeError("frame ends outside of the buffer", pos)
    if pos >= end or buf[pos] != 0:
        raise DecodeError("frame body is not a described value", pos)
    descriptor, body = decode_value(buf, pos + 1, end, 1)
    kind: Any = None
    if type(descriptor) is ULong:
        kind = _BY_CODE.get(descriptor)
    elif type(descriptor) is Symbol:
        kind = _BY_SYMBOL.get(descriptor)
    if kind is None:
        raise DecodeError(f"unknown performative {descriptor!r}", pos)
    if end - body > MAX_VALUES and _too_many_values(buf, body, end):
        raise DecodeError(f"{_TABLES[kind].name}: more than {MAX_VALUES} values", pos)
    values, starts = read_fields(buf, body, end, _TABLES[kind], 1)
    performative: Performative = kind(**to_plain(_TABLES[kind], values))
    if isinstance(performative, Attach):
        _keep_bytes(performative, buf, starts)
    elif isinstance(performative, (Detach, End, Close)) and performative.error is not None:
        performative.error.raw = bytes(buf[starts[-2] : starts[-1]])
    return performative, starts[-1]


def _too_many_values(buf: Buffer, pos: int, end: int) -> bool:
    """Whether the list of a performative, whose constructor is at `pos`, has more than MAX_VALUES values."""
    if buf[pos] not in (0xC0, 0xD0):
        return False
    _, start, after = compound_header(buf, pos + 1, end, buf[pos] == 0xD0)
    return after - start > MAX_VALUES and has_more_values(buf, start, after, MAX_VALUES)


def _keep_bytes(attach: Attach, buf: Buffer, starts: list[int]) -> None:
    """Keep the bytes of fields that are forwarded unchanged. `starts`: the start of each field, and the last one's
    end."""
    if attach.source is not None:
        attach.source.raw = bytes(buf[starts[5] : starts[6]])
    if attach.target is not None:
        attach.target.raw = bytes(buf[starts[6] : starts[7]])
    for name, place in _PASSED.items():
        if getattr(attach, name) is not None:
            attach.raw[name] = Raw(buf[starts[place] : starts[place + 1]])


def encode_performative(performative: Performative) -> bytes:
    """Encode a performative without a frame. Raises ValueError for values out of range."""
    out = bytearray()
    write_composite(out, _TABLES[type(performative)], performative)
    return bytes(out)


def encode_frame(channel: int, performative: Performative, payload: Buffer = b"", frame_type: int = 0) -> bytes:
    """Encode a whole frame: size, doff 2, type, channel, body. SASL performatives get frame type 1. Spec: 2.3.1"""
    table = _TABLES[type(performative)]
    out = bytearray(_HEADER.size)
    write_composite(out, table, performative)
    out += payload
    _HEADER.pack_into(out, 0, len(out), 2, 1 if table.code >= 0x40 else frame_type, channel)
    return bytes(out)
