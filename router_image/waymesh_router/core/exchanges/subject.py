"""The subject in the properties of a message. Spec: 3.2.4."""

from __future__ import annotations

from waymesh_amqp.codec_decode import decode_value
from waymesh_amqp.errors import DecodeError

MAX_SUBJECT = 4096
"""In characters. A longer subject counts as none, because matching it would take too long."""

_PROPERTIES = (b"\x00\x53\x73", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73")
_SUBJECT_AT = 3


def subject_of(message: bytes, at: int) -> str | None:
    """The subject, None if it is absent or unreadable. `at`: start of the sections after the annotations."""
    for descriptor in _PROPERTIES:
        if message.startswith(descriptor, at):
            try:
                fields, _ = decode_value(message, at + len(descriptor), len(message), 0)
            except DecodeError:
                return None
            if not isinstance(fields, list) or len(fields) <= _SUBJECT_AT:
                return None
            subject = fields[_SUBJECT_AT]
            return subject if isinstance(subject, str) and len(subject) <= MAX_SUBJECT else None
    return None
