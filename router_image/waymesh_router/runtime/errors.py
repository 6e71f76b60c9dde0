"""Errors of the router's host."""

from __future__ import annotations


class HostError(OSError):
    """An unusable port, file, name or certificate. The text names the entity, the attribute and the reason."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


class ProfileError(HostError):
    """An sslProfile with unusable trust settings. Its listeners stay closed; the others open."""
