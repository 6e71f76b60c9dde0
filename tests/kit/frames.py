"""Frames of a raw peer: each factory fills in what is usual, so that a test states only what is not.

`read_frames` is the way back: what an engine wrote, as headers (bytes) and `Seen` frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    ErrorInfo,
    Flow,
    Open,
    Performative,
    Terminus,
    Transfer,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.types import Described

AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
TLS = b"AMQP\x02\x01\x00\x00"
EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"
SENDER = False
RECEIVER = True


@dataclass(slots=True)
class Seen:
    """A frame that an engine wrote. `performative` is None for an empty frame."""

    channel: int
    performative: Performative | None
    payload: bytes
    size: int

    @property
    def condition(self) -> str:
        """The condition of its error, "" without one."""
        error = getattr(self.performative, "error", None)
        return error.condition if isinstance(error, ErrorInfo) else ""


def raw_frame(body: bytes, channel: int = 0, *, doff: int = 2, kind: int = 0, extended: bytes = b"") -> bytes:
    """A frame of these bytes. `extended`: the extended header, padded to `doff`."""
    pad = extended.ljust(doff * 4 - 8, b"\x00")
    return (8 + len(pad) + len(body)).to_bytes(4, "big") + bytes((doff, kind)) + channel.to_bytes(2, "big") + pad + body


def read_frames(data: bytes) -> tuple[list[Seen | bytes], bytes]:
    """All whole headers and frames at the front of the data, and the rest."""
    found: list[Seen | bytes] = []
    pos = 0
    while len(data) - pos >= 8:
        if data[pos : pos + 4] == b"AMQP":
            found.append(data[pos : pos + 8])
            pos += 8
            continue
        size = int.from_bytes(data[pos : pos + 4], "big")
        assert size >= 8, f"the engine wrote a frame of size {size}"
        if len(data) - pos < size:
            break
        body = data[pos + data[pos + 4] * 4 : pos + size]
        performative, payload = decode_performative(body, 0, len(body)) if body else (None, 0)
        channel = int.from_bytes(data[pos + 6 : pos + 8], "big")
        found.append(Seen(channel, performative, body[payload:], size))
        pos += size
    return found, data[pos:]


def told(answers: Iterable[object]) -> list[Described]:
    """The delivery states of the dispositions among what a peer was sent; each must have one."""
    found = []
    for answer in answers:
        if isinstance(answer, Disposition):
            assert isinstance(answer.state, Described)
            found.append(answer.state)
    return found


def message(body: bytes = b"hello") -> bytes:
    """A message of one data section."""
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def open_(**over: Any) -> bytes:
    return encode_frame(0, Open(**{"container_id": "peer", **over}))


def begin(channel: int = 0, **over: Any) -> bytes:
    fields = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000, **over}
    return encode_frame(channel, Begin(**fields))


def attach_sender(name: str = "out", handle: int = 0, *, channel: int = 0, address: Any = "q", **over: Any) -> bytes:
    """The peer attaches as sender: our incoming link."""
    fields: dict[str, Any] = {
        "role": SENDER,
        "source": Terminus("source"),
        "target": Terminus("target", address=address),
        "initial_delivery_count": 0,
        **over,
    }
    return encode_frame(channel, Attach(name, handle, **fields))


def attach_receiver(name: str = "in", handle: int = 0, *, channel: int = 0, address: Any = "q", **over: Any) -> bytes:
    """The peer attaches as receiver: our outgoing link."""
    fields: dict[str, Any] = {
        "role": RECEIVER,
        "source": Terminus("source", address=address),
        "target": Terminus("target"),
        **over,
    }
    return encode_frame(channel, Attach(name, handle, **fields))


def flow(channel: int = 0, **over: Any) -> bytes:
    fields = {"next_incoming_id": 0, "incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 1000, **over}
    return encode_frame(channel, Flow(**fields))


def credit(amount: int, handle: int = 0, delivery_count: int = 0, **over: Any) -> bytes:
    """A flow that gives link credit."""
    return flow(handle=handle, delivery_count=delivery_count, link_credit=amount, **over)


def transfer(delivery_id: int | None = 0, payload: bytes | None = None, *, channel: int = 0, **over: Any) -> bytes:
    """A transfer; without an id, a later fragment of a delivery."""
    tag = None if delivery_id is None else delivery_id.to_bytes(4, "big")
    fields = {"handle": 0, "delivery_id": delivery_id, "delivery_tag": tag, **over}
    return encode_frame(channel, Transfer(**fields), message() if payload is None else payload)


def disposition(first: int = 0, *, role: bool = RECEIVER, channel: int = 0, **over: Any) -> bytes:
    """A disposition; settled and accepted unless it says otherwise."""
    fields = {"settled": True, "state": ACCEPTED, **over}
    return encode_frame(channel, Disposition(role, first, **fields))


def detach(handle: int = 0, *, channel: int = 0, **over: Any) -> bytes:
    return encode_frame(channel, Detach(handle, **{"closed": True, **over}))


def end(channel: int = 0, **over: Any) -> bytes:
    return encode_frame(channel, End(**over))


def close(**over: Any) -> bytes:
    return encode_frame(0, Close(**over))
