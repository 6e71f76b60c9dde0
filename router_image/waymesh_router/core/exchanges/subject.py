"""The subject in the properties of a message. Spec: 3.2.4."""

from __future__ import annotations

from waymesh_amqp.codec_decode import decode_value
from waymesh_amqp.errors import DecodeError

MAX_SUBJECT = 4096
"""Characters; a longer subject is taken as none, since a match would keep the router busy."""

_PROPERTIES = (b"\x00\x53\x73", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73")
_SUBJECT_AT = 3


def subject_of(message: bytes, at: int) -> str | None:
    """The subject, None if there is none or it is unreadable. `at`: where the sections behind the annotations begin."""
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
