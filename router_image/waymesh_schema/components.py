"""Names of the parts of a message in `messageLoggingComponents`."""

from __future__ import annotations

MESSAGE_COMPONENTS = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id", "app-properties",
)  # fmt: skip
"""The fields of the properties section in their order, then the application properties. Spec: 3.2.4, 3.2.5."""


def parse_components(text: str) -> frozenset[str]:
    """The parts in `none`, `all` or a comma-separated list. Raises ValueError for an unknown name."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if names in ([], ["none"]):
        return frozenset()
    if names == ["all"]:
        return frozenset(MESSAGE_COMPONENTS)
    for name in names:
        if name not in MESSAGE_COMPONENTS:
            raise ValueError(f"{name!r} is not a part of a message; use none, all, or {', '.join(MESSAGE_COMPONENTS)}")
    return frozenset(names)
