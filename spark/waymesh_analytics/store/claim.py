"""One writer at a time: a run claims the store before it reads the manifest, and releases it at its end.

Exclusive creation of a file is not required, because object stores often lack it: a run writes a claim under a unique
name, then lists all claims. Of two runs that claim at the same time, at least one sees the other and withdraws. A claim
is never rewritten; next to it is a heartbeat, a file with a counter that its run increments. If a heartbeat does not
change for LEASE_S, measured by the clock of the observer, its run is presumed dead and the claim is taken over. A run
that was only suspended then finds a claim of a higher term, and stops.
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
from waymesh_analytics.log import Log

from .files import Files

FOLDER = "lock"
LEASE_S = 60.0
HEARTBEAT_S = 10.0
POLL_S = 1.0
"""Time between two reads of another run's heartbeat."""
TRIES = 3
"""Runs that claim at the same time may all withdraw; each tries this often."""
CLAIM, HEARTBEAT = ".json", ".beat"


@dataclass(frozen=True, slots=True)
class Owner:
    """The process of a run."""

    host: str
    pid: int
    # Identifies the kernel and the PID namespace of `pid`; "" if unknown.
    space: str

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
                space = f"{boot.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
        except OSError:
            space = ""
        return cls(socket.gethostname(), os.getpid(), space)

    def has_ended(self, here: Owner) -> bool:
        """Whether the process is known to have ended; `here` is the process that asks."""
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
    """Monotonic time, replaced in tests."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class Claim:
    """The right to write a store."""

    files: Files
    name: str
    # Higher than the terms of all earlier claims.
    term: int
    # Whether another run had not released its claim.
    taken_over: bool
    log: Log
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _count: int = 0

    def start(self) -> None:
        """Send heartbeats from a thread."""
        self._thread = threading.Thread(target=self._send_heartbeats, name="claim", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Send one heartbeat."""
        self._count += 1
        self.files.put(f"{FOLDER}/{self.name}{HEARTBEAT}", str(self._count))

    def check(self) -> None:
        """Raises StoreBusy if another run has taken the store over."""
        claims = _claims(self.files)
        if self.name not in claims or any(_term(name) > self.term for name in claims):
            raise StoreBusy(
                f"{self.files.full('')}: another run has taken over, because it saw no heartbeat of this run for "
                f"{LEASE_S:g} s; run this again"
            )

    def release(self) -> None:
        """Release the store."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        _remove(self.files, self.name)

    def _send_heartbeats(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            try:
                self.beat()
            except (AnalyticsError, OSError) as error:
                self.log(f"warning: the heartbeat of the claim on the store failed and will be retried: {error}")


def acquire(files: Files, log: Log, floor: int = 0, owner: Owner | None = None, clock: Clock | None = None) -> Claim:
    """Claim the store with a term above `floor`. Raises StoreBusy if another run has it."""
    here, clock = owner or Owner.current(), clock or Clock()
    token = uuid4().hex[:12]
    for _ in range(TRIES):
        claims = _claims(files)
        dead = {name: _wait_for_end(files, name, here, log, clock) for name in claims}
        term = 1 + max([floor, *map(_term, claims)])
        mine = f"{term:08d}-{token}"
        files.write_new(f"{FOLDER}/{mine}{CLAIM}", json.dumps(asdict(here)))
        rivals = [name for name in _claims(files) if name != mine and name not in dead]
        alive = [name for name, beat in dead.items() if _heartbeat(files, name) != beat]
        if not rivals and not alive:
            for name in dead:
                _remove(files, name)
            return Claim(files, mine, term, bool(dead), log)
        _remove(files, mine)
        clock.wait(random.uniform(0.0, POLL_S))
    raise _busy(files, "several runs started at the same time")


def _wait_for_end(files: Files, name: str, here: Owner, log: Log, clock: Clock) -> str | None:
    """Watch a claim until its run is known to have ended or is presumed dead; returns its last heartbeat.

    Raises StoreBusy as soon as the heartbeat changes.
    """
    owner, beat, since = _owner(files, name), _heartbeat(files, name), clock.now()
    who = f"the run of process {owner.pid} on {owner.host}" if owner else "a run"
    if owner is not None and owner.has_ended(here):
        log(f"{who} ended without releasing the store; its claim is taken over")
        return beat
    log(f"{who} has claimed the store; waiting up to {LEASE_S:g} s for a heartbeat")
    while clock.now() - since < LEASE_S:
        clock.wait(POLL_S)
        if name not in _claims(files):
            return _heartbeat(files, name)
        if _heartbeat(files, name) != beat:
            raise _busy(files, f"{who} is writing to it")
    log(f"{who} sent no heartbeat for {LEASE_S:g} s; its claim is taken over")
    return beat


def _busy(files: Files, reason: str) -> StoreBusy:
    return StoreBusy(f"{files.full('')}: {reason}; a store has one writer at a time; run this again later")


def _claims(files: Files) -> list[str]:
    return [name.removesuffix(CLAIM) for name in files.names(FOLDER) if name.endswith(CLAIM)]


def _term(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _owner(files: Files, name: str) -> Owner | None:
    try:
        return Owner(**json.loads(files.read_text(f"{FOLDER}/{name}{CLAIM}")))
    except (AnalyticsError, OSError, TypeError, ValueError):
        return None  # just released, or not a claim of this program


def _heartbeat(files: Files, name: str) -> str | None:
    try:
        return files.read_text(f"{FOLDER}/{name}{HEARTBEAT}")
    except (AnalyticsError, OSError):
        return None  # not yet written


def _remove(files: Files, name: str) -> None:
    """The claim is removed last: a heartbeat without a claim would never be removed."""
    files.delete(f"{FOLDER}/{name}{HEARTBEAT}")
    files.delete(f"{FOLDER}/{name}{CLAIM}")
