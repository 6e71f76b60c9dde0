"""One writer at a time: a run claims the store before it reads the manifest, and gives it back at its end.

No file system need create a file exclusively, for object stores often can't: a run writes a claim under a name of its
own, then lists all claims. Of two runs that claim at once, at least one sees the other, and withdraws. A claim is never
rewritten; beside it is a file with a number that its run counts up (the beat). A claim whose beat stands still for
LEASE_S, by the clock of who looks, is of a run that was killed, and is taken over; if it was not killed but held up, it
finds the other's claim, of a higher term, and stops.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from uuid import uuid4

from waymesh_analytics.errors import AnalyticsError, StoreBusy

from .files import Files

FOLDER = "lock"
LEASE_S = 60.0
BEAT_S = 10.0
LOOK_S = 1.0
"""Between two looks at another's beat."""
TRIES = 3
"""Runs that claim at the same moment withdraw, all of them; each tries so often."""
CLAIM, BEAT = ".json", ".beat"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Owner:
    """The process of a run. `space`: the kernel and the process namespace in which `pid` is its number, "" where that
    is not known."""

    host: str
    pid: int
    space: str

    @classmethod
    def this(cls) -> Owner:
        """This process."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
                space = f"{boot.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
        except OSError:
            space = ""
        return cls(socket.gethostname(), os.getpid(), space)

    def has_ended(self, here: Owner) -> bool:
        """Whether its process is known to have ended, as seen from the process `here`."""
        if not self.space or self.space != here.space or self.pid == here.pid:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


@dataclass(frozen=True, slots=True)
class Clock:
    """`now`: seconds that only grow. `wait`: lets so many pass."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class Claim:
    """The right to write a store. `term`: higher than that of all who had it before. `taken_over`: from a run that did
    not give it back."""

    files: Files
    name: str
    term: int
    taken_over: bool
    say: Say
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _count: int = 0

    def start(self) -> None:
        """Let the beat count on in a thread."""
        self._thread = threading.Thread(target=self._count_on, name="claim", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Count the beat up once."""
        self._count += 1
        self.files.put(f"{FOLDER}/{self.name}{BEAT}", str(self._count))

    def check(self) -> None:
        """Raises StoreBusy where another run has taken the store over."""
        there = _claims(self.files)
        if self.name not in there or any(_term(name) > self.term for name in there):
            raise StoreBusy(
                f"{self.files.full('')}: another run has taken over, for it saw no sign of life of this one for "
                f"{LEASE_S:g} s; run this again"
            )

    def release(self) -> None:
        """Give the store back."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        _remove(self.files, self.name)

    def _count_on(self) -> None:
        while not self._ended.wait(BEAT_S):
            try:
                self.beat()
            except (AnalyticsError, OSError) as error:
                self.say(f"warning: the claim on the store could not be renewed, it is tried again: {error}")


def acquire(files: Files, say: Say, floor: int = 0, owner: Owner | None = None, clock: Clock | None = None) -> Claim:
    """Claim the store, with a term above `floor`. Raises StoreBusy where another run has it."""
    here, clock = owner or Owner.this(), clock or Clock()
    token = uuid4().hex[:12]
    for _ in range(TRIES):
        there = _claims(files)
        dead = {name: _wait_for_end(files, name, here, say, clock) for name in there}
        term = 1 + max([floor, *map(_term, there)])
        mine = f"{term:08d}-{token}"
        files.write_new(f"{FOLDER}/{mine}{CLAIM}", json.dumps(asdict(here)))
        rivals = [name for name in _claims(files) if name != mine and name not in dead]
        awake = [name for name, beat in dead.items() if _beat(files, name) != beat]
        if not rivals and not awake:
            for name in dead:
                _remove(files, name)
            return Claim(files, mine, term, bool(dead), say)
        _remove(files, mine)
        clock.wait(random.uniform(0.0, LOOK_S))
    raise _busy(files, "several runs began at the same moment")


def _wait_for_end(files: Files, name: str, here: Owner, say: Say, clock: Clock) -> str | None:
    """Watch another's claim until its run is known to have ended; returns its last beat. Raises StoreBusy as soon as
    its run shows that it lives."""
    owner, beat, since = _owner(files, name), _beat(files, name), clock.now()
    who = f"the run of process {owner.pid} on {owner.host}" if owner else "a run"
    if owner is not None and owner.has_ended(here):
        say(f"{who} did not give the store back; it has ended, its claim is taken over")
        return beat
    say(f"{who} has claimed the store; waiting up to {LEASE_S:g} s for a sign of life")
    while clock.now() - since < LEASE_S:
        clock.wait(LOOK_S)
        if name not in _claims(files):
            return _beat(files, name)
        if _beat(files, name) != beat:
            raise _busy(files, f"{who} is writing it")
    say(f"{who} gave no sign of life for {LEASE_S:g} s; its claim is taken over")
    return beat


def _busy(files: Files, reason: str) -> StoreBusy:
    return StoreBusy(f"{files.full('')}: {reason}; a store has one writer at a time, run this again later")


def _claims(files: Files) -> list[str]:
    return [name.removesuffix(CLAIM) for name in files.names(FOLDER) if name.endswith(CLAIM)]


def _term(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _owner(files: Files, name: str) -> Owner | None:
    try:
        return Owner(**json.loads(files.read_text(f"{FOLDER}/{name}{CLAIM}")))
    except (AnalyticsError, OSError, TypeError, ValueError):
        return None  # it has just been given back, or is not of ours


def _beat(files: Files, name: str) -> str | None:
    try:
        return files.read_text(f"{FOLDER}/{name}{BEAT}")
    except (AnalyticsError, OSError):
        return None  # there is none yet


def _remove(files: Files, name: str) -> None:
    """The claim goes last: a beat alone would stay for ever."""
    files.delete(f"{FOLDER}/{name}{BEAT}")
    files.delete(f"{FOLDER}/{name}{CLAIM}")
