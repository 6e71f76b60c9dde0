"""Messages between an edge router and its interior router: address tracking, address lookup, heartbeats. Pure.

All are sent pre-settled. Encoding functions take `router_id`, the id of the sender for the annotations; None omits the
annotations, for messages that get them when they are sent. Source: protocol/edge.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_amqp.codec_values import Int, Symbol, UInt
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.forwarding.annotations import AREA, INGRESS, TRACE

TRACKING_ADDRESS = "_$qd.edge_addr_tracking"
LOOKUP_ADDRESS = "_$qd.addr_lookup"
HEARTBEAT_ADDRESS = "_$qd.edge_heartbeat"
DOWNLINK_CAPABILITY = "qd.router-edge-downlink"

VERSION = 1
LINK_ROUTE_LOOKUP = 1
"""The only opcode: ask whether the address belongs to a link route."""
OK, BAD_VERSION, BAD_OPCODE, NOT_FOUND, INVALID = range(5)
"""Values of `LookupReply.status`."""

HEARTBEAT_FIRST_S = 1.0
HEARTBEAT_INTERVAL_S = 2.0
HEARTBEAT_MAX_AGE_S = 8.0
"""A peer that has sent heartbeats, but none for this time, is lost."""
_MAX_INT = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """Asks whether a link to `address` is routed. `sender`: the client is a sender."""

    reply_to: str
    correlation_id: str
    address: str
    sender: bool


@dataclass(frozen=True, slots=True)
class LookupReply:
    """Answers a lookup. `reachable`: the link route has a container. Both are false unless `status` is OK."""

    correlation_id: str
    status: int
    link_route: bool
    reachable: bool


def encode_tracking(key: str, reachable: bool, router_id: str | None) -> bytes:
    """Tells an edge router whether the address with this key (`M0orders`) has consumers elsewhere."""
    return _encoded(Message(body=[key, reachable]), router_id)


def decode_tracking(message: bytes) -> tuple[str, bool]:
    """The key, and whether it has consumers elsewhere. Raises DecodeError."""
    body = decode_message(message).body
    if not _is_text_and_boolean(body):
        raise DecodeError("address tracking without a key and a boolean")
    return str(body[0]), body[1]


def encode_lookup(request: LookupRequest, router_id: str | None) -> bytes:
    """A request for `LOOKUP_ADDRESS`."""
    return _encoded(
        Message(
            reply_to=request.reply_to,
            correlation_id=request.correlation_id,
            application_properties={"version": UInt(VERSION), "opcode": UInt(LINK_ROUTE_LOOKUP)},
            body=[request.address, request.sender],
        ),
        router_id,
    )


def decode_lookup(message: bytes) -> LookupRequest:
    """Raises DecodeError, also for another version or opcode: those get no reply."""
    decoded = decode_message(message)
    version, opcode = _number(decoded, "version"), _number(decoded, "opcode")
    if (version, opcode) != (VERSION, LINK_ROUTE_LOOKUP):
        raise DecodeError(f"address lookup of version {version}, opcode {opcode}")
    body = decoded.body
    if not _is_text_and_boolean(body):
        raise DecodeError("address lookup without an address and a boolean")
    if decoded.reply_to is None or not _is_text(decoded.correlation_id):
        raise DecodeError("address lookup without reply-to and correlation-id")
    return LookupRequest(decoded.reply_to, str(decoded.correlation_id), str(body[0]), body[1])


def encode_lookup_reply(to: str, reply: LookupReply, router_id: str | None) -> bytes:
    """The answer to a request; `to`: its reply-to."""
    return _encoded(
        Message(
            to=to,
            correlation_id=reply.correlation_id,
            application_properties={
                "version": UInt(VERSION),
                "opcode": UInt(LINK_ROUTE_LOOKUP),
                "status": UInt(reply.status),
            },
            body=[reply.link_route, reply.reachable],
        ),
        router_id,
    )


def decode_lookup_reply(message: bytes) -> LookupReply:
    """Raises DecodeError."""
    decoded = decode_message(message)
    body = decoded.body
    if not (isinstance(body, list) and len(body) == 2 and all(isinstance(value, bool) for value in body)):
        raise DecodeError("address lookup reply without two booleans")
    if not _is_text(decoded.correlation_id):
        raise DecodeError("address lookup reply without correlation-id")
    status = _number(decoded, "status")
    found = status == OK
    return LookupReply(str(decoded.correlation_id), status, found and body[0], found and body[1])


def encode_heartbeat(number: int, router_id: str | None) -> bytes:
    """The heartbeat with this number, counted from 0."""
    return _encoded(Message(body=Int(number & _MAX_INT)), router_id)


def decode_heartbeat(message: bytes) -> int:
    """The number of a heartbeat. Raises DecodeError."""
    body = decode_message(message).body
    if not isinstance(body, int) or isinstance(body, bool):
        raise DecodeError("heartbeat without a number")
    return int(body)


def _encoded(message: Message, router_id: str | None) -> bytes:
    if router_id is not None:
        message.message_annotations = {INGRESS: AREA + router_id, TRACE: [AREA + router_id]}
    return encode_message(message)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Symbol)


def _is_text_and_boolean(body: object) -> bool:
    return isinstance(body, list) and len(body) == 2 and _is_text(body[0]) and isinstance(body[1], bool)


def _number(message: Message, name: str) -> int:
    value = (message.application_properties or {}).get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DecodeError(f"address lookup without {name}")
    return int(value)
