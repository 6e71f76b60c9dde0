"""Delivery states as described values. Spec: 3.4"""

from __future__ import annotations

from typing import Any

from waymesh_amqp.codec_values import Described, Symbol, UInt, ULong
from waymesh_amqp.terminus import ErrorInfo

RECEIVED_CODE = 0x23
ACCEPTED_CODE = 0x24
REJECTED_CODE = 0x25
RELEASED_CODE = 0x26
MODIFIED_CODE = 0x27

ACCEPTED_STATE = b"\x00\x53\x24\x45"
"""Accepted, encoded: what most deliveries end with. The engine passes this very object on, which compares cheaply."""
ACCEPTED = Described(ULong(ACCEPTED_CODE), [])
RELEASED = Described(ULong(RELEASED_CODE), [])


def received(section_number: int, section_offset: int) -> Described:
    """How much of the message has arrived. Spec: 3.4.1"""
    return Described(ULong(RECEIVED_CODE), [UInt(section_number), ULong(section_offset)])


def rejected(error: ErrorInfo | None = None) -> Described:
    """The message is invalid, for the reason given. Spec: 3.4.3"""
    if error is None:
        return Described(ULong(REJECTED_CODE), [])
    description, info = error.description, error.info
    parts: list[Any] = [Symbol(error.condition), description, info]
    while parts[-1] is None:
        parts.pop()
    return Described(ULong(REJECTED_CODE), [Described(ULong(0x1D), parts)])


def modified(
    delivery_failed: bool = False, undeliverable_here: bool = False, annotations: dict[Any, Any] | None = None
) -> Described:
    """The message goes back changed. Spec: 3.4.5"""
    return Described(ULong(MODIFIED_CODE), [delivery_failed, undeliverable_here, annotations or {}])
