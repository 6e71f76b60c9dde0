"""Levels of memory use. The higher ones refuse new work, so that messages in the router can be delivered. Pure."""

from __future__ import annotations

from waymesh_router.core.memory_levels import FULL, HIGH, NORMAL

HIGH_PART = 0.8
"""Fraction of the limit at which the level is HIGH."""
RETURN_PART = 0.05
"""A level ends this fraction of the limit below its start, so that it does not alternate at each check."""
OVER_PART = 0.06
"""FULL begins at the latest when the process is larger than the limit by this fraction of it, whatever is free inside:
a large object may not find room there."""
CONTROL_GROUP_PART = 0.85
"""The default limit, as a fraction of the control group's limit: the kernel kills a process that reaches that one."""


def default_limit(control_group: int | None) -> int:
    """`maxMemory` where it is not configured; `control_group`: the limit of the control group, None without one."""
    return 0 if control_group is None else int(control_group * CONTROL_GROUP_PART)


def level_of(resident: int | None, limit: int, before: int, free: int = 0) -> int:
    """The level after `before`, for a process of `resident` bytes, of which `free` ones are not in use. Without a limit
    (0), or if unknown, NORMAL."""
    if resident is None or limit <= 0:
        return NORMAL
    used = resident - free
    for level, part, size in ((FULL, 1 + OVER_PART, resident), (FULL, 1.0, used), (HIGH, HIGH_PART, used)):
        if size >= limit * (part - (RETURN_PART if before >= level else 0)):
            return level
    return NORMAL
