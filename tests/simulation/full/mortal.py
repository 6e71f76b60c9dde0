"""What a simulated router has of a process: it can end in the middle of any write, and wait for its disk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.simulation.full.world import Station, World

if TYPE_CHECKING:
    from tests.simulation.full.disk import Disk

ARRIVES_S = 0.02
"""What is written takes so long to arrive at most, on wires without a delay."""


class Mortal(Station):
    """A station that crashes. `disk`: where telemetry and log go; without one they are kept in memory."""

    def __init__(self, world: World) -> None:
        Station.__init__(self, world)
        self.alive = False
        self.disk: Disk | None = None
        self._life = 0
        self._dying = False
        self._writes_left = math.inf

    def lives(self) -> None:
        """A new process."""
        self.alive = True
        self._dying = False

    def died(self) -> None:
        """The process is gone."""
        self.alive = self.paused = False
        self._pauses = 0
        self._writes_left = math.inf
        if self.disk is not None:
            self.disk.crashed()

    def crash(self) -> None:
        """End at once."""
        raise NotImplementedError

    # ---- in the middle of a write
    def crash_within(self, writes: int, latest_s: float) -> None:
        """Crash in the middle of the write of that number, to a connection or to the disk, but not later than that."""
        self._writes_left = writes
        self.world.after(latest_s, self._crash_of, self._life)

    def dies_now(self) -> bool:
        """Another write begins: whether it is the one in which the process ends."""
        self._writes_left -= 1
        return self._writes_left == 0

    def die(self) -> None:
        """The process has ended: what it has written may still arrive."""
        self._dying = self.paused = True
        self.world.after(ARRIVES_S, self._crash_of, self._life)

    def let_out(self, data: bytes) -> bytes:
        """A part of the last write before a crash, which comes as soon as that part can have arrived; then nothing."""
        if not self.dies_now():
            return b"" if self._dying else data
        self.die()
        part = data[: self.world.rng.randrange(len(data))]
        self.world.injected["crash within a write" if part else "crash between writes"] += 1
        return part

    def _crash_of(self, life: int) -> None:
        if self._life == life:
            self.crash()

    # ---- the log
    def write_line(self, module: str, level: str, text: str) -> None:
        """A line of the log is written in the thread of the loop, which waits for the disk."""
        took = 0.0 if self.disk is None else self.disk.write_line(module, level, text)
        if took:
            self.pause()
            self.world.after(took, self._went_on, self._life)

    def _went_on(self, life: int) -> None:
        if life == self._life and not self._dying:
            self.go_on()
