"""A log that nobody reads."""

from __future__ import annotations

from waymesh_router.events.event import Event


def silent(level: str, text: str, event: Event | None = None, /) -> None:
    """A `ModuleLog` that writes nothing."""
