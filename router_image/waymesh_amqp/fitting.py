"""Frames within the peer's max-frame-size: errors are shortened to fit. Spec: 2.7.1."""

from __future__ import annotations

from dataclasses import replace

from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL
from waymesh_amqp.performatives import Close, Detach, End, ErrorInfo, Performative, encode_frame

OVERHEAD = 24
"""Maximum overhead of a description in octets: its constructor, and larger size fields of the lists around it."""


def fitting_frame(channel: int, performative: Performative, limit: int) -> bytes | None:
    """The encoded frame; None if it is longer than `limit` octets (at least 512) and cannot be shortened.

    Of an error, `info` is omitted first, then the description is cut as far as necessary; the condition stays.
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
