"""Slow log output: a thread writes the lines in order, and the event loop never waits."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.kit.waiting import DEADLINE_S
from waymesh_router.runtime.log import writer as log_writer
from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.log.writer import QueuedSink, open_output

pytestmark = pytest.mark.engine_independent


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a sink waits for its lines, however slow the machine is."""
    monkeypatch.setattr(log_writer, "END_S", DEADLINE_S)


class SlowSink:
    """Writes nothing until it is released."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun = threading.Event()
        self.lines: list[str] = []
        self.closed = False
        self.fails = False

    def write(self, level: str, line: str) -> None:
        self.begun.set()
        self.free.wait()
        if self.fails:
            raise OSError
        self.lines.append(f"{level} {line}")

    def close(self) -> None:
        self.closed = True


def test_lines_are_written_later_and_in_order() -> None:
    slow = SlowSink()
    sink = QueuedSink(slow)
    for number in range(100):
        sink.write("info", str(number))
    assert slow.lines == []
    slow.free.set()
    sink.close()
    assert slow.lines == [f"info {number}" for number in range(100)]
    assert slow.closed


def test_lines_beyond_the_limit_are_dropped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "MAX_WAITING", 3)
    slow = SlowSink()
    sink = QueuedSink(slow)
    sink.write("info", "0")
    slow.begun.wait()
    for number in range(1, 4):
        sink.write("info", str(number))
    with pytest.raises(OSError, match="too many lines"):
        sink.write("info", "4")
    slow.free.set()
    sink.close()
    assert slow.lines == [f"info {number}" for number in range(4)]


def test_a_line_that_cannot_be_written_is_counted() -> None:
    slow = SlowSink()
    slow.fails = True
    log = Log(lambda: datetime.now(UTC), lambda *_: QueuedSink(slow))
    log.write("ROUTER", "info", "lost")
    slow.free.set()
    log.close()
    assert slow.closed
    assert slow.lines == []


def test_files_are_written_at_once_and_opened_anew_when_rotated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(lambda: datetime.now(UTC), open_output)
    log.configure({"module": "DEFAULT", "outputFile": str(path), "includeTimestamp": False})
    log.write("ROUTER", "info", "one")
    assert path.read_text(encoding="utf-8") == "ROUTER (info) one\n"
    path.rename(tmp_path / "log.1")
    log.write("ROUTER", "info", "two")
    log.reopen()
    log.write("ROUTER", "info", "three")
    log.close()
    assert (tmp_path / "log.1").read_text(encoding="utf-8") == "ROUTER (info) one\nROUTER (info) two\n"
    assert path.read_text(encoding="utf-8") == "ROUTER (info) three\n"


def test_long_texts_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(lambda: datetime.now(UTC), open_output)
    log.configure({"module": "DEFAULT", "outputFile": str(path)})
    log.write("ROUTER", "info", "x" * 100_000)
    log.close()
    assert len(path.read_text(encoding="utf-8")) < 17_000


def test_as_many_lines_are_kept_as_asked() -> None:
    log = Log(lambda: datetime.now(UTC), lambda *_: NoSink())
    log.keep(2)
    for text in "abc":
        log.write("ROUTER", "info", text)
    assert [line.text for line in log.recent()] == ["b", "c"]


class NoSink:
    """Accepts and discards all lines."""

    def write(self, level: str, line: str) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
