"""Control messages between routers: their bytes, and their content."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.types import Symbol, encode
from waymesh_router.core.forwarding.annotations import INGRESS, TRACE

NULL = b"\x40"
CONTENT_CACHE_BYTES = 1000
"""Maximum size of control messages whose decoded content is cached: all neighbours send the same link states."""
CONTENTS_KEPT = 2048


def control_message(to: str, opcode: str, body: Mapping[str, object], ingress: str | None) -> bytes:
    """An encoded control message; `ingress`: the id of this router, None for a message of one hop."""
    return before_body(to, opcode, ingress) + encode_body(body)


def encode_body(body: Mapping[str, object]) -> bytes:
    """The encoded body value of a control message."""
    return encode({Symbol(key): value for key, value in body.items()})


@lru_cache(maxsize=1024)
def before_body(to: str, opcode: str, ingress: str | None) -> bytes:
    """The bytes of a control message before the value of its body."""
    annotations = None
    if ingress is not None:
        annotations = {TRACE: ["0/" + ingress], INGRESS: "0/" + ingress}
    properties = {"opcode": opcode}
    message = Message(message_annotations=annotations, to=to, application_properties=properties, body_kind="value")
    return encode_message(message).removesuffix(NULL)


def content_of(content: bytes) -> tuple[object, object]:
    """Opcode and body of a message without its properties. Raises DecodeError."""
    return _kept_content(content) if len(content) <= CONTENT_CACHE_BYTES else _decode_content(content)


def _decode_content(content: bytes) -> tuple[object, object]:
    decoded = decode_message(content)
    return (decoded.application_properties or {}).get("opcode"), decoded.body


_kept_content = lru_cache(maxsize=CONTENTS_KEPT)(_decode_content)
