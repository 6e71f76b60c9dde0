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
"""The encoded outcome accepted. The engine passes on this object itself, so that comparing by identity is cheap."""
ACCEPTED = Described(ULong(ACCEPTED_CODE), [])
RELEASED = Described(ULong(RELEASED_CODE), [])


def received(section_number: int, section_offset: int) -> Described:
    """The state received: how much of the message has arrived. Spec: 3.4.1"""
    return Described(ULong(RECEIVED_CODE), [UInt(section_number), ULong(section_offset)])


def rejected(error: ErrorInfo | None = None) -> Described:
    """The outcome rejected: the message is invalid, because of `error`. Spec: 3.4.3"""
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
    """The outcome modified: the message returns to the sender with changes. Spec: 3.4.5"""
    return Described(ULong(MODIFIED_CODE), [delivery_failed, undeliverable_here, annotations or {}])
