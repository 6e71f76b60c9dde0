"""Frames within the peer's max-frame-size: errors are shortened to fit. Spec: 2.7.1."""

from __future__ import annotations

from dataclasses import replace

from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL
from waymesh_amqp.performatives import Close, Detach, End, ErrorInfo, Performative, encode_frame

OVERHEAD = 24
"""Octets that a description adds at most to its own: its constructor, and longer sizes of the lists around it."""


def fitting_frame(channel: int, performative: Performative, limit: int) -> bytes | None:
    """The encoded frame; None where it is longer than `limit` octets (at least 512) and nothing of it may be left out.

    Of an error the condition matters most: its info is left out first, then as much of its description as has to be.
    """
    frame = encode_frame(channel, performative)
    if len(frame) <= limit:
        return frame
    if not isinstance(performative, (Detach, End, Close)) or performative.error is None:
        return None
    error = performative.error
    bare = len(encode_frame(channel, replace(performative, error=ErrorInfo(error.condition))))
    if bare > limit:
        error = ErrorInfo(FRAME_SIZE_TOO_SMALL, f"an error whose condition has {len(error.condition)} characters")
    else:
        room = max(limit - bare - OVERHEAD, 0)
        error = ErrorInfo(error.condition, (error.description or "").encode()[:room].decode(errors="ignore") or None)
    return encode_frame(channel, replace(performative, error=error))
