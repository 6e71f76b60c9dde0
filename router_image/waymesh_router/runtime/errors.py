"""What the host of the router could not do."""

from __future__ import annotations


class HostError(OSError):
    """A port, a file, a name, a certificate: the text names entity, attribute and reason."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text
