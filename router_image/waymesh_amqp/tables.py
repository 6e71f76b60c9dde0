"""Memory of tables from which nearly everything has gone: Python keeps it until many entries are added. Pure."""

from __future__ import annotations

import sys
from typing import Any

LARGE_BYTES = 1 << 16
BYTES_AN_ENTRY = 1_000
"""Tables that take more than this for each entry are made smaller; full ones take 100 at most."""


def shrink(table: dict[Any, Any] | set[Any]) -> None:
    """Give back the memory of entries that are gone."""
    size = sys.getsizeof(table)
    if size < LARGE_BYTES or size < len(table) * BYTES_AN_ENTRY:
        return
    left = table.copy()
    table.clear()
    table.update(left)


def shrink_all(*tables: dict[Any, Any]) -> None:
    """Shrink each of them."""
    for table in tables:
        shrink(table)
