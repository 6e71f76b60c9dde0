"""The disk of a simulated router, for its telemetry and its log: slow, full, and left in the middle of a write.

The files are real ones, which the router's own code writes; what the machine does to its system calls is decided here.
"""

from __future__ import annotations

import errno
import os
import queue
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.spool.files import Batch, SpoolSettings
from waymesh_router.runtime.spool.spool import RecordCounter, Spool
from waymesh_router.telemetry.exporter import Process

if TYPE_CHECKING:
    from tests.simulation.full.network import SimRouter

EPOCH_S = 1_700_000_000
"""The system clock of the machines when virtual time is 0, in seconds since 1970."""
CALLS = ("open", "pwrite", "ftruncate", "fsync", "close", "rename", "unlink", "mkdir")
NEED_ROOM = frozenset({"open", "pwrite", "fsync", "rename", "mkdir"})
"""What a full disk refuses: also what only then gets its blocks."""
LOG = "router.log"


class Died(BaseException):
    """The process has ended in the middle of a system call."""


@dataclass(slots=True)
class Life:
    """What one process of the router has given to its disk. `counter`: of its records; `crashed`: it was not ended in
    order; `unwritten`: how many records of each kind it still had in memory then, those of the write at which it died
    included."""

    boot: int
    counter: RecordCounter
    crashed: bool = False
    unwritten: Counter[str] = field(default_factory=Counter)


class Disk:
    """A folder, and what goes wrong with it. `full`: it has no room; `slow_s`: a call takes up to so long; `short`:
    probability that a write ends early. The counts of what was injected are those of the world."""

    def __init__(self, router: SimRouter, folder: Path, seed: object, slow_s: float = 0.0, short: float = 0.0) -> None:
        self.folder = folder
        self.full = False
        self.slow_s = slow_s
        self.slow_log = True
        """Whether lines of the log take as long as calls."""
        self.short = short
        self.calls = 0
        self.dies_at = 0
        """The call in which the process ends, 0: none."""
        self.lives: list[Life] = []
        self.spool: VirtualSpool | None = None
        self.log: Log | None = None
        self.missing_lines = 0
        """Of the log: what the disk refused, apart from what the log counted as lost."""
        self._router = router
        self._rng = random.Random(f"{seed}/disk")
        self._took_s = 0.0
        self._open: set[int] = set()

    # ---- calls
    def act(self, action: Callable[[], object]) -> float:
        """Run what makes system calls; the seconds that they take. Raises Died if the process ends with one of them."""
        self._took_s = 0.0
        with self._calls():
            action()
        return self._took_s

    @contextmanager
    def _calls(self) -> Iterator[None]:
        real = {name: getattr(os, name) for name in CALLS}
        for name in CALLS:
            setattr(os, name, partial(self._call, name, real[name]))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def _call(self, name: str, real: Callable[..., Any], *args: Any, **more: Any) -> Any:
        self.calls += 1
        if self._router.dies_now() or self.calls == self.dies_at:
            if name == "pwrite":
                self._part(real, *args)
            self.note("crash at the disk")
            raise Died
        self.wait()
        if self.full and name in NEED_ROOM:
            self.note("full disk")
            if name == "pwrite" and self._rng.random() < self.short:
                return self._part(real, *args)  # the room for these bytes was the last
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if name == "pwrite" and self._rng.random() < self.short:
            self.note("short write")
            return self._part(real, *args)
        result: Any = None if name == "fsync" else real(*args, **more)  # what a process wrote stays when it is killed
        if name == "open":
            self._open.add(result)
        elif name == "close":
            self._open.discard(args[0])
        return result

    def _part(self, real: Callable[..., int], descriptor: int, data: bytes, offset: int) -> int:
        """Write a part of it, and at least a byte."""
        return real(descriptor, data[: self._rng.randrange(1, len(data) + 1)], offset)

    def wait(self) -> float:
        """How long a call takes."""
        took = self._rng.uniform(0, self.slow_s) if self.slow_s else 0.0
        if took:
            self.note("slow disk")
        self._took_s += took
        return took

    def note(self, what: str) -> None:
        """Count what was injected."""
        self._router.world.injected[what] += 1

    # ---- a process
    def begin(self, attrs: Mapping[str, Any], router_id: str) -> VirtualExporter:
        """The exporter of a new process."""
        boot = round((EPOCH_S + self._router.world.now) * 1000)
        life = Life(boot, RecordCounter())
        self.lives.append(life)
        settings = SpoolSettings(self.folder, attrs["mesh"], router_id, boot, attrs["maxMegabytes"] << 20)
        self.spool = VirtualSpool(settings, self._router, self, life)
        return VirtualExporter(self.spool, self._router)

    def write_line(self, module: str, level: str, text: str) -> float:
        """Write a line of the log as routers do, in the thread of the loop; the seconds for which they wait for it."""
        if self.log is None:
            self.log = Log(self._time, lambda _output, _rotation: self)
            self.log.configure({"module": "DEFAULT", "outputFile": str(self.folder / LOG), "enable": "trace+"})
        self._took_s = 0.0
        self.log.write(module, level, text)
        return self._took_s

    def _time(self) -> datetime:
        router = self._router
        return datetime.fromtimestamp(EPOCH_S + router.world.now + router.clock_off_s, UTC)

    def write(self, level: str, line: str) -> None:
        """A sink of the log: append a line."""
        if self.slow_log:
            self.wait()
        if self.full:
            self.note("full disk")
            self.missing_lines += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """A sink of the log: nothing is open."""

    def crashed(self) -> None:
        """The process is gone: what it had not written is lost."""
        if self.spool is not None:
            self.spool.die()
        self._ended()

    def finish(self) -> None:
        """The disk is well again, and the process ends in order."""
        self.full, self.slow_s = False, 0.0
        if self.spool is not None:
            self.spool.finish()
        self._ended()

    def _ended(self) -> None:
        self.spool = None
        if self.log is not None:
            self.missing_lines -= self.log.lost
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
        self.log = None


class VirtualSpool(Spool):
    """A spool that writes at virtual times, as fast as its disk is."""

    def __init__(self, settings: SpoolSettings, router: SimRouter, disk: Disk, life: Life) -> None:
        self._router, self._disk, self._life = router, disk, life
        self._current: Batch | None = None
        self._busy = True
        self.dead = False
        Spool.__init__(self, settings, life.counter, lambda level, text: router.log("ROUTER", level, text))

    def _begin(self, previous: Spool | None) -> None:
        self._router.world.after(0.0, self._do, self._files.recover)

    def flush(self) -> None:
        Spool.flush(self)
        self._wake()

    def rotate(self) -> None:
        Spool.rotate(self)
        self._wake()

    def _hand_over(self, kind: str) -> None:
        Spool._hand_over(self, kind)
        self._wake()

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            self._router.world.after(0.0, self._next)

    def _next(self) -> None:
        """The next of what waits."""
        if self.dead:
            return
        if self._router.paused:
            self._router.when_on.append(self._next)
            return
        try:
            item = self._queue.get_nowait()
        except queue.Empty:
            self._busy = False
            return
        self._current = item
        self._do(self._files.publish_all if item is None else partial(self._write, item))

    def _do(self, action: Callable[[], object]) -> None:
        if self.dead:
            return
        try:
            took = self._disk.act(action)
        except Died:
            self._router.die()
            return
        self._current = None
        self._router.world.after(took, self._next)

    def finish(self) -> None:
        """Write all that waits, now, as a process that ends in order."""
        self.close()
        self.dead = True
        with suppress(queue.Empty):
            while (item := self._queue.get_nowait()) is not None:
                self._disk.act(partial(self._write, item))
        self._disk.act(self._files.publish_all)

    def die(self) -> None:
        """The process is gone."""
        self.dead = True
        self._life.crashed = True
        unwritten = self._life.unwritten
        for kind, waiting in self._waiting.items():
            unwritten[kind] += waiting.count
        items = [self._current]
        with suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        for item in items:
            if item is not None:
                unwritten[item.kind] += item.count


class VirtualExporter:
    """See `waymesh_router.telemetry.exporter.Exporter`."""

    def __init__(self, sink: VirtualSpool, router: SimRouter) -> None:
        self.sink = sink
        self._router = router

    def wall_us(self) -> int:
        """See Exporter: the system clock can be off."""
        return round((EPOCH_S + self._router.world.now + self._router.clock_off_s) * 1e6)

    def clock_ns(self) -> int:
        """See Exporter."""
        return round(self._router.world.now * 1e9)

    def process(self) -> Process:
        """See Exporter."""
        return Process(1, 2)
