"""Telemetry files: lines are collected in memory; a thread compresses and publishes them (spool_files).

The event loop never waits for a disk: if the thread is too slow, records are dropped and counted, samples first.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

from waymesh_router.runtime.spool.files import Batch, SpoolFiles, SpoolSettings
from waymesh_router.telemetry.exporter import BACKLOG
from waymesh_router.telemetry.lines import LineWriter, Row
from waymesh_schema.telemetry import KINDS

BATCH_RECORDS = 256
"""Records passed to the thread at once: more than 0.5 ms of work, about 100 kB."""
BACKLOG_BYTES = 32 << 20
"""Maximum size of the records that wait for the thread. Above half of it, samples are dropped; above it, all records.
"""
_HOUR_US = 3_600_000_000

PUBLISH = Batch("", 0, 0, 0, b"")
"""Queued instead of lines to close and publish the files."""


class RecordCounter:
    """Counts the records of one process in all its spools. `seqs`: the last sequence number by kind."""

    def __init__(self) -> None:
        self.seqs = dict.fromkeys(KINDS, 0)
        self._dropped: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def lost(self, kind: str, reason: str, count: int) -> None:
        """Count lost records. Can be called in any thread."""
        with self._lock:
            self._dropped[kind, reason] = self._dropped.get((kind, reason), 0) + count

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Number of lost records, by kind and reason."""
        with self._lock:
            return dict(self._dropped)


class _Waiting:
    """Records of one kind that wait for the thread: of one hour (since 1970), with consecutive sequence numbers."""

    __slots__ = ("count", "first", "hour", "lines")

    def __init__(self, lines: LineWriter) -> None:
        self.hour = 0
        self.first = 0
        self.count = 0
        self.lines = lines


class Spool:
    """Accepts and numbers records in the loop's thread. If there is no room, they are dropped and counted."""

    def __init__(
        self,
        settings: SpoolSettings,
        counter: RecordCounter,
        log: Callable[[str, str], None],
        previous: Spool | None = None,
    ) -> None:
        """`log(level, text)` is called in the writing thread. `previous`: the spool whose files must be finished first;
        unfinished files after that were left by an earlier process."""
        self.closed = False
        self._counter = counter
        identity = (settings.mesh, settings.router, settings.boot)
        self._waiting = {name: _Waiting(LineWriter(kind, *identity)) for name, kind in KINDS.items()}
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._backlog = 0
        self._lock = threading.Lock()
        self._files = SpoolFiles(settings, log, counter.lost)
        self._begin(previous)

    @property
    def seqs(self) -> Mapping[str, int]:
        """The last sequence number by kind."""
        return self._counter.seqs

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Number of lost records so far, by kind and reason."""
        return self._counter.dropped

    @property
    def error(self) -> str:
        """Why records cannot be written; "" if they can."""
        return self._files.error

    def put(self, kind: str, ts_us: int, mono_us: int, values: Row) -> None:
        """Add a record. It gets a sequence number even if there is no room for it, so that the loss is visible."""
        seqs = self._counter.seqs
        seqs[kind] = seq = seqs[kind] + 1
        if self._backlog > BACKLOG_BYTES // 2 and (KINDS[kind].sampled or self._backlog > BACKLOG_BYTES):
            self._counter.lost(kind, BACKLOG, 1)
            return
        waiting = self._waiting[kind]
        hour = ts_us // _HOUR_US
        if waiting.count and (hour != waiting.hour or seq != waiting.first + waiting.count):
            self._hand_over(kind)
        if not waiting.count:
            waiting.hour, waiting.first = hour, seq
        waiting.lines.add(seq, ts_us, mono_us, values)
        waiting.count += 1
        if waiting.count >= BATCH_RECORDS:
            self._hand_over(kind)

    def flush(self) -> None:
        """Write all records so far soon, so that they survive if the process is killed."""
        for kind, waiting in self._waiting.items():
            if waiting.count:
                self._hand_over(kind)

    def rotate(self) -> None:
        """Publish all records so far, soon."""
        self.flush()
        self._queue.put(PUBLISH)

    def close(self) -> None:
        """Publish everything and end the thread, soon."""
        self.rotate()
        self._queue.put(None)
        self.closed = True

    def wait(self, seconds: float | None = None) -> None:
        """Wait, at most this long, until all is published after `close`."""
        self._thread.join(seconds)

    def _hand_over(self, kind: str) -> None:
        waiting = self._waiting[kind]
        batch = Batch(kind, waiting.hour, waiting.first, waiting.count, waiting.lines.take())
        waiting.count = 0
        with self._lock:
            self._backlog += len(batch.data)
        self._queue.put(batch)

    def _begin(self, previous: Spool | None) -> None:
        """Start the thread. The simulation, which has none, calls `_write` at its virtual times."""
        self._thread = threading.Thread(target=self._run, args=(previous,), name="telemetry", daemon=True)
        self._thread.start()

    def _run(self, previous: Spool | None) -> None:
        if previous is not None:
            previous.wait()
        self._files.recover()
        while (item := self._queue.get()) is not None:
            self._write(item)
        self._files.publish_all()

    def _write(self, item: Batch) -> None:
        """Write lines, or PUBLISH."""
        if item is PUBLISH:
            self._files.publish_all()
            return
        self._files.write(item)
        with self._lock:
            self._backlog -= len(item.data)
