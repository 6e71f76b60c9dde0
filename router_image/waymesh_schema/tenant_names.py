"""Checks whether the name of a vhost can be a prefix of addresses, for listeners with `multiTenant`."""

from __future__ import annotations

MAX_NAME = 253
"""Maximum length of a host name. RFC 1035."""
_RESERVED_STARTS = ("_", "$", "amqp:", "amqps:")
_RESERVED_CHARACTERS = "/*#"


def unfit(name: str) -> str | None:
    """Why a vhost cannot have an address space; None if it can.

    With a slash, `a` with the address `b/x` and `a/b` with the address `x` would be the same.
    """
    if not name:
        return "the open has no host name"
    if len(name) > MAX_NAME:
        return f"the name of the vhost has more than {MAX_NAME} characters"
    if not name.isascii() or not name.isprintable() or " " in name:
        return "the name of the vhost has characters other than printable ASCII"
    if name.startswith(_RESERVED_STARTS) or any(c in name for c in _RESERVED_CHARACTERS):
        return "the name of the vhost has characters with a meaning in addresses"
    return None
