"""Frames and messages as text for the log. Pure.

Neither payloads nor the content of SASL frames is written: they may hold passwords.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from waymesh_amqp.codec_decode import decode_value
from waymesh_amqp.codec_values import Described, Raw, Symbol, Timestamp
from waymesh_amqp.errors import DecodeError
from waymesh_schema.components import MESSAGE_COMPONENTS

PROTOCOLS = {0: "AMQP", 2: "TLS", 3: "SASL"}
SECRET = ("initial_response", "challenge", "response", "additional_data")
"""Fields of SASL frames of which only the length is written."""
MAX_TEXT = 256
"""Maximum length of one text or binary value."""
SMALL_ULONG = 0x53
PROPERTIES, APPLICATION_PROPERTIES = 0x73, 0x74


def header_text(head: bytes) -> str:
    """A protocol header, as `AMQP 1.0.0`. Spec: 2.2."""
    return f"{PROTOCOLS.get(head[4], f'protocol {head[4]}')} {head[5]}.{head[6]}.{head[7]}"


def performative_text(performative: Any, code: int) -> str:
    """A performative with the fields that are set, as `@flow(19) [handle=0, link-credit=250]`."""
    name = type(performative).__name__
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
    return f"@{words}({code}) [{_fields(performative)}]"


def _fields(composite: Any) -> str:
    parts = []
    for each in dataclasses.fields(composite):
        value = getattr(composite, each.name)
        if value is None or each.name == "raw":
            continue
        secret = each.name in SECRET and isinstance(value, bytes)
        parts.append(f"{each.name.replace('_', '-')}={f'({len(value)} bytes)' if secret else value_text(value)}")
    return ", ".join(parts)


def value_text(value: Any) -> str:
    """Any AMQP value as short text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Raw):
        return "(encoded)"
    if isinstance(value, bytes):
        return "b" + _quoted(value[:MAX_TEXT].decode("ascii", "backslashreplace"), len(value))
    if isinstance(value, Timestamp):
        return _date(value)
    if isinstance(value, Symbol):
        return f":{_quoted(value[:MAX_TEXT], len(value))}"
    if isinstance(value, str):
        return _quoted(value[:MAX_TEXT], len(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{value_text(k)}={value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if isinstance(value, Described):
        return f"@{value_text(value.descriptor)} {value_text(value.value)}"
    if dataclasses.is_dataclass(value):
        return f"@{type(value).__name__.lower()} [{_fields(value)}]"
    return str(value)


def _date(milliseconds: int) -> str:
    """A time of UTC as in Dispatch; one that no calendar has, as the number."""
    try:
        date = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)
    except (OverflowError, ValueError, OSError):
        return str(int(milliseconds))
    return f'"{date:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"'


def _quoted(text: str, length: int) -> str:
    return f'"{text}"' + ("…" if length > MAX_TEXT else "")


def message_text(head: bytes, start: int, components: Collection[str]) -> str:
    """The chosen components of the message that starts at `head[start]`, as `Message{message-id="1", to="q"}`.

    A component that is absent, or beyond the end of `head`, is omitted.
    """
    sections = _sections(head, start)
    named = dict(zip(MESSAGE_COMPONENTS, sections.get(PROPERTIES) or (), strict=False))
    named[MESSAGE_COMPONENTS[-1]] = sections.get(APPLICATION_PROPERTIES)
    parts = [
        f"{name}={value_text(named[name])}"
        for name in MESSAGE_COMPONENTS
        if name in components and named.get(name) is not None
    ]
    return f"Message{{{', '.join(parts)}}}"


def _sections(head: bytes, start: int) -> dict[int, Any]:
    """The sections up to the application properties, by descriptor code; only those before an invalid one."""
    found: dict[int, Any] = {}
    position = start
    try:
        while position + 3 < len(head) and head[position] == 0 and APPLICATION_PROPERTIES not in found:
            code, body = decode_value(head, position + 1, len(head), 1)
            if not isinstance(code, int) or code > APPLICATION_PROPERTIES:
                break
            value, position = decode_value(head, body, len(head), 1)
            if isinstance(value, list if code == PROPERTIES else dict) or code not in (
                PROPERTIES,
                APPLICATION_PROPERTIES,
            ):
                found[code] = value
    except DecodeError:
        pass
    return found
