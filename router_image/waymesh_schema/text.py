"""Untrusted text within log lines and errors."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with unprintable characters escaped, so that it is one line and can be encoded."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
