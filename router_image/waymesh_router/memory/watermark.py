"""Levels of memory use. The higher ones refuse new work, so that messages in the router can be delivered. Pure."""

from __future__ import annotations

from waymesh_router.core.memory_levels import FULL, HIGH, NORMAL

HIGH_PART = 0.8
"""Fraction of the limit at which the level is HIGH."""
RETURN_PART = 0.05
"""A level ends this fraction of the limit below its start, so that it does not alternate at each check."""
CONTROL_GROUP_PART = 0.85
"""The default limit, as a fraction of the control group's limit: the kernel kills a process that reaches that one."""


def default_limit(control_group: int | None) -> int:
    """`maxMemory` where it is not configured; `control_group`: the limit of the control group, None without one."""
    return 0 if control_group is None else int(control_group * CONTROL_GROUP_PART)


def level_of(used: int | None, limit: int, before: int) -> int:
    """The level after `before`. `used` and `limit` in bytes; without a limit (0), or if unknown, NORMAL."""
    if used is None or limit <= 0:
        return NORMAL
    for level, part in ((FULL, 1.0), (HIGH, HIGH_PART)):
        if used >= limit * (part - (RETURN_PART if before >= level else 0)):
            return level
    return NORMAL
