"""Checks of values that are passed on as bytes, when they arrive: delivery states and the properties of flows.

A peer that gets them must be able to decode them; who sent wrong ones gets the decode-error.
"""

from __future__ import annotations

from typing import Any

from waymesh_amqp.codec_decode import decode, has_more_values
from waymesh_amqp.codec_values import Described, Raw, Symbol, ULong
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.fields import (
    BINARY,
    BOOLEAN,
    DELIVERY_STATE,
    FIELDS,
    UINT,
    ULONG,
    Composite,
    Field,
    mandatory,
    to_plain,
)
from waymesh_amqp.performatives import MAX_VALUES
from waymesh_amqp.terminus import ERROR

_OUTCOMES = (
    Composite(
        "received", 0x23, "amqp:received:list", (mandatory("section_number", UINT), mandatory("section_offset", ULONG))
    ),
    Composite("accepted", 0x24, "amqp:accepted:list", ()),
    Composite("rejected", 0x25, "amqp:rejected:list", (Field("error", ERROR),)),
    Composite("released", 0x26, "amqp:released:list", ()),
    Composite(
        "modified",
        0x27,
        "amqp:modified:list",
        (
            Field("delivery_failed", BOOLEAN),
            Field("undeliverable_here", BOOLEAN),
            Field("message_annotations", FIELDS),
        ),
    ),
)
"""Received and the outcomes. Spec: 3.4."""
_DECLARED = Composite("declared", 0x33, "amqp:declared:list", (mandatory("txn_id", BINARY),))
_TRANSACTIONAL = Composite(
    "transactional-state",
    0x34,
    "amqp:transactional-state:list",
    (mandatory("txn_id", BINARY), Field("outcome", DELIVERY_STATE)),
)
_KNOWN = (*_OUTCOMES, _DECLARED, _TRANSACTIONAL)


def is_transactional(state: bytes) -> bool:
    """Check an encoded delivery state: returns whether it is a transactional one. Spec: 3.4, 4.5.7, 4.5.8.

    Raises DecodeError, also for a type of AMQP 1.0 that is not a delivery state.
    """
    return _checked(_decoded(state)) is _TRANSACTIONAL


def flow_properties(data: bytes) -> Raw | None:
    """The properties of a flow, as they are to be passed on; None for null. Raises DecodeError."""
    value = _decoded(data)
    if value is not None and type(value) is not dict:
        raise DecodeError("flow: the properties are not a map")
    return None if value is None else Raw(data)


def _decoded(data: bytes) -> Any:
    if len(data) > MAX_VALUES and has_more_values(data, 0, len(data), MAX_VALUES):
        raise DecodeError(f"more than {MAX_VALUES} values")
    value, end = decode(data)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} octets behind a value")
    return value


def _checked(value: Any) -> Composite | None:
    """The type of a decoded state, None for one that AMQP 1.0 does not define. Raises DecodeError."""
    if not isinstance(value, Described):
        raise DecodeError("delivery state that is not a described value")
    for composite in _KNOWN:
        if composite.describes(value.descriptor):
            if not isinstance(value.value, list):
                raise DecodeError(f"{composite.name}: not a list")
            fields = to_plain(composite, value.value)
            if composite is _TRANSACTIONAL and "outcome" in fields:
                _checked(fields["outcome"])
            return composite
    descriptor = value.descriptor
    if type(descriptor) is ULong and descriptor >> 32:  # those below are AMQP's own. Spec: 1.2
        return None
    if type(descriptor) is Symbol and descriptor and not descriptor.startswith("amqp:"):
        return None
    raise DecodeError(f"delivery state with the descriptor {str(descriptor)[:64]!r}")
