"""Which router opens a connection to which.

A router connects only to lower ordinals: one that is added touches no other, and one that leaves (the highest first) is
no connector's target.
"""

from __future__ import annotations

FULL_UP_TO = 6


def lower_neighbours(ordinal: int, size: int, topology: str) -> tuple[int, ...]:
    """Ordinals, lowest first, that the router connects to. `topology` is Full, Chordal, or Auto (by size)."""
    if topology == "Full" or (topology == "Auto" and size <= FULL_UP_TO):
        return tuple(range(ordinal))
    steps = (1 << bit for bit in range(ordinal.bit_length()))
    return tuple(sorted(ordinal - step for step in steps if step <= ordinal))
