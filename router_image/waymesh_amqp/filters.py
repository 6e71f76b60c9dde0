"""Descriptors of the filters of sources that the router knows, in both of their forms. AMQP filters of Apache."""

from __future__ import annotations

from typing import Final

from waymesh_amqp.codec_values import Symbol

SELECTOR: Final = Symbol("apache.org:selector-filter:string")
SELECTOR_DESCRIPTORS: Final = (SELECTOR, 0x0000_468C_0000_0004)
NO_LOCAL: Final = Symbol("apache.org:no-local-filter:list")
NO_LOCAL_DESCRIPTORS: Final = (NO_LOCAL, 0x0000_468C_0000_0003)
