"""Forms in which a password is written: `env:NAME`, `file:PATH`, `pass:TEXT`, `literal:TEXT`, or the text itself."""

from __future__ import annotations

from typing import Any

ENV, FILE, PASS, LITERAL = "env", "file", "pass", "literal"
_FORMS = (ENV, FILE, PASS, LITERAL)


def password_form(text: str) -> tuple[str, str]:
    """The form of a password and what stands behind its colon; a text without a form is LITERAL."""
    form, colon, rest = text.partition(":")
    return (form, rest) if colon and form in _FORMS else (LITERAL, text)


def names_place(value: Any) -> bool:
    """Whether a password is read from a file or from the environment."""
    return isinstance(value, str) and password_form(value)[0] in (ENV, FILE)
