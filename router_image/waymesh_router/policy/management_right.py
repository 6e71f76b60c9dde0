"""Which management requests a client may send: the right that its listener and its user group give together."""

from __future__ import annotations

RIGHTS = ("none", "read", "write")
"""Values of the attribute `management`, each with the rights of those before it."""


def management_right(listener: str | None, default: str, group: str | None) -> str:
    """The right of a client. `listener`, `group`: what they say, None: nothing; `default`: where neither says anything.

    A group takes the place of the default. What the listener says is the most that a group can give.
    """
    if group is None:
        return default if listener is None else listener
    return group if listener is None else min(listener, group, key=RIGHTS.index)
