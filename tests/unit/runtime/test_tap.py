"""The tap of a traced connection, which may be set while frames are partly read or written."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_amqp.performatives import Begin, encode_frame
from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.log.tracing import Tap

FRAME = encode_frame(0, Begin(next_outgoing_id=1, incoming_window=2, outgoing_window=3))


class Lines(list[str]):
    """A log sink."""

    def write(self, level: str, line: str) -> None:
        self.append(line.partition("PROTOCOL (trace) ")[2])

    def close(self) -> None:
        """Does nothing."""


def tap_of(lines: Lines, pending: bytes) -> Tap:
    conn: Any = SimpleNamespace(pending=lambda: pending)
    tap = Tap(conn, Log(lambda: datetime.now(UTC), lambda *_: lines))
    tap.frames = tap.always = True
    return tap


def test_frames_are_logged_from_the_first_one_that_begins_with_nothing_before_it() -> None:
    lines = Lines()
    tap = tap_of(lines, FRAME[5:])
    tap.sent(FRAME[5:12], True)
    tap.sent(FRAME[12:], False)
    assert lines == []
    tap.sent(FRAME[:10], True)
    tap.sent(FRAME[10:], False)
    [line] = lines
    assert line.startswith("[C0]:FRAME:0 -> @begin(17) [next-outgoing-id=1, incoming-window=2, outgoing-window=3")


@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"\x00\x53", b"\x00\x53\x10", b"\xff" * 9, b"\x00\x53\x41secret"], ids=repr
)
def test_a_frame_that_is_not_understood_is_logged_by_its_length_alone(body: bytes) -> None:
    lines = Lines()
    tap = tap_of(lines, b"")
    for start in range(2):
        head = (len(body) + 9 + start).to_bytes(4) + bytes((2 if start else 60, 0, 0, 0))
        tap.received(head + body + bytes(1 + start))
        tap.received(bytes((0, 0, 0, 8, 2, 0, 0, 0)))
    assert len(lines) == 4
    assert all("an invalid frame of" in line or line.endswith("(EMPTY FRAME)") for line in lines)
