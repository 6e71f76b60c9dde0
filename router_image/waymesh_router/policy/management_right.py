"""The management right of a client, from the attributes `management` of its listener and its user group."""

from __future__ import annotations

RIGHTS = ("none", "read", "write")
"""Values of the attribute `management`; each includes those before it."""


def management_right(listener: str | None, default: str, group: str | None) -> str:
    """The right of a client. `listener`, `group`: their settings, None if not set; `default`: if neither is set.

    The group's setting replaces the default, but does not exceed that of the listener.
    """
    if group is None:
        return default if listener is None else listener
    return group if listener is None else min(listener, group, key=RIGHTS.index)
