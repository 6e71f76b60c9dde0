"""Messages of message-format 0: sections to a dataclass and back. Spec: 3.2"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from waymesh_amqp.codec_decode import Buffer, decode_value
from waymesh_amqp.codec_encode import encode_into
from waymesh_amqp.codec_values import Symbol, ULong
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.fields import (
    BINARY,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    Composite,
    Field,
    Kind,
    flag,
    read_fields,
    to_plain,
    write_composite,
)

BodyKind = Literal["value", "data", "sequence"]


def _message_id(value: Any) -> Any:
    """A ulong, uuid, binary or string; an int becomes a ulong. Spec: 3.2.11 to 3.2.14"""
    return ULong(value) if type(value) is int else value


_MESSAGE_ID = Kind("message id", (ULong, UUID, bytes, str), None, _message_id)

# Spec: 3.2.1
_HEADER = Composite(
    "header",
    0x70,
    "amqp:header:list",
    (
        flag("durable"),
        Field("priority", UBYTE),
        Field("ttl", UINT),
        flag("first_acquirer"),
        Field("delivery_count", UINT, default=0),
    ),
)

# Spec: 3.2.4
_PROPERTIES = Composite(
    "properties",
    0x73,
    "amqp:properties:list",
    (
        Field("message_id", _MESSAGE_ID),
        Field("user_id", BINARY),
        Field("to", STRING),
        Field("subject", STRING),
        Field("reply_to", STRING),
        Field("correlation_id", _MESSAGE_ID),
        Field("content_type", SYMBOL),
        Field("content_encoding", SYMBOL),
        Field("absolute_expiry_time", TIMESTAMP),
        Field("creation_time", TIMESTAMP),
        Field("group_id", STRING),
        Field("group_sequence", UINT),
        Field("reply_to_group_id", STRING),
    ),
)


@dataclass(slots=True)
class Message:
    """A message. None, false flags and a delivery-count of 0 are absent on the wire.

    `ttl` is in milliseconds, times are in milliseconds since 1970. `priority` None means 4. `body` is any value for
    body_kind "value", bytes for "data" and a list for "sequence"; several data or sequence sections are joined.
    """

    durable: bool = False
    priority: int | None = None
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0
    delivery_annotations: Mapping[Any, Any] | None = None
    message_annotations: Mapping[Any, Any] | None = None
    message_id: Any = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None
    application_properties: Mapping[Any, Any] | None = None
    body: Any = None
    body_kind: BodyKind = "value"
    footer: Mapping[Any, Any] | None = None


_SECTIONS: dict[int, str] = {
    0x70: "header",
    0x71: "delivery_annotations",
    0x72: "message_annotations",
    0x73: "properties",
    0x74: "application_properties",
    0x75: "data",
    0x76: "sequence",
    0x77: "value",
    0x78: "footer",
}
_CODES: dict[str, int] = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": 0x73,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}
_BODY: dict[int, type] = {0x75: bytes, 0x76: list}


def encode_message(message: Message) -> bytes:
    """Encode all sections. Keys of annotations and footer that are str become symbols. Spec: 3.2.10

    Raises ValueError or TypeError for values without an AMQP encoding.
    """
    out = bytearray()
    _write_list(out, _HEADER, message)
    _write_map(out, 0x71, _symbolic(message.delivery_annotations))
    _write_map(out, 0x72, _symbolic(message.message_annotations))
    _write_list(out, _PROPERTIES, message)
    _write_map(out, 0x74, message.application_properties)
    _write_body(out, message)
    _write_map(out, 0x78, _symbolic(message.footer))
    return bytes(out)


def decode_message(buf: Buffer) -> Message:
    """Decode a message. Raises DecodeError, also for sections out of order, repeated sections and a mixed body."""
    values: dict[str, Any] = {}
    bodies: list[Any] = []
    pos, end, last = 0, len(buf), 0
    while pos < end:
        start = pos
        code, pos = _section(buf, pos, end)
        _check_order(last, code, start)
        if 0x75 <= code <= 0x77:
            body, pos = _read_body(buf, pos, end, code)
            bodies.append(body)
            values["body_kind"] = _SECTIONS[code]
        else:
            pos = _read_section(buf, pos, end, code, values)
        last = code
    if bodies:
        values["body"] = _joined(bodies, values["body_kind"])
    return Message(**values)


def _check_order(last: int, code: int, pos: int) -> None:
    """Check the order of sections, that only data and sequence repeat, and that the body is of one kind. Spec: 3.2"""
    if last in _BODY and code == last:
        return
    if code <= last:
        raise DecodeError(f"section {_SECTIONS[code]} after {_SECTIONS[last]}", pos)
    if last in _BODY and code <= 0x77:
        raise DecodeError(f"body of both {_SECTIONS[last]} and {_SECTIONS[code]}", pos)


def _section(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Read the descriptor of a section; returns its code and the start of its value."""
    if buf[pos] != 0:
        raise DecodeError("a section is not a described value", pos)
    descriptor, after = decode_value(buf, pos + 1, end, 1)
    code = None
    if type(descriptor) is ULong:
        code = int(descriptor)
    elif type(descriptor) is Symbol:
        code = _CODES.get(descriptor)
    if code not in _SECTIONS:
        raise DecodeError(f"unknown section {descriptor!r}", pos)
    return code, after


def _read_section(buf: Buffer, pos: int, end: int, code: int, values: dict[str, Any]) -> int:
    """Read the value of a section other than the body into `values`; returns the start of the next section."""
    name = _SECTIONS[code]
    if code in (0x70, 0x73):
        composite = _HEADER if code == 0x70 else _PROPERTIES
        fields, starts = read_fields(buf, pos, end, composite, 1)
        values.update(to_plain(composite, fields))
        return starts[-1]
    value, after = decode_value(buf, pos, end, 1)
    if type(value) is not dict:
        raise DecodeError(f"section {name} is not a map", pos)
    values[name] = value
    return after


def _read_body(buf: Buffer, pos: int, end: int, code: int) -> tuple[Any, int]:
    value, after = decode_value(buf, pos, end, 1)
    if code in _BODY and type(value) is not _BODY[code]:
        raise DecodeError(f"section {_SECTIONS[code]} is not of type {_BODY[code].__name__}", pos)
    return value, after


def _joined(bodies: list[Any], kind: BodyKind) -> Any:
    """Join all body sections."""
    if kind == "data":
        return b"".join(bodies)
    if kind == "sequence":
        return [item for body in bodies for item in body]
    return bodies[0]


def _symbolic(annotations: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
    if annotations is None:
        return None
    return {Symbol(key) if type(key) is str else key: value for key, value in annotations.items()}


def _write_list(out: bytearray, composite: Composite, message: Message) -> None:
    section = bytearray()
    write_composite(section, composite, message)
    if section[3] != 0x45:  # all fields absent
        out += section


def _write_map(out: bytearray, code: int, content: Mapping[Any, Any] | None) -> None:
    if content is not None:
        out += bytes((0x00, 0x53, code))
        encode_into(out, dict(content))


def _write_body(out: bytearray, message: Message) -> None:
    if message.body_kind == "data":
        out += b"\x00\x53\x75"
        encode_into(out, bytes(message.body or b""))
    elif message.body_kind == "sequence":
        out += b"\x00\x53\x76"
        encode_into(out, list(message.body or ()))
    else:
        out += b"\x00\x53\x77"
        encode_into(out, message.body)
