"""The levels of memory use at which the core refuses new work."""

from __future__ import annotations

NORMAL, HIGH, FULL = range(3)
"""HIGH: new links of clients get no credit. FULL: new client connections and links are refused."""
NAMES = ("normal", "high", "full")
"""The levels as the entity `router` reports them."""
