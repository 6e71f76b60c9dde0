"""Limits for the bytes that wait in a router, from its attributes and the available memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LEAST, MOST = 16 * MIB, GIB
LINK_MOST = 8 * MIB
UNKNOWN_MEMORY = GIB
"""Assumed memory of the process if the system does not report it."""


def buffer_limits(attrs: Mapping[str, Any], memory: int) -> tuple[int, int, int]:
    """Limits of the router, each connection and each link. `memory`: bytes available to the process, 0: unknown."""
    router = attrs.get("maxBufferedBytes") or max(LEAST, min(MOST, (memory or UNKNOWN_MEMORY) // 4))
    connection = attrs.get("maxBufferedBytesPerConnection") or router // 4
    link = attrs.get("maxBufferedBytesPerLink") or min(LINK_MOST, router // 16)
    return router, connection, link
