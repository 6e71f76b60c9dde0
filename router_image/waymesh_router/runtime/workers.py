"""A few threads for work that would block the loop: the key derivation (PBKDF2) for peers that log in."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from waymesh_router.runtime.loop import Loop

THREADS = 2
NICENESS = 10
"""Added to the niceness of the threads, as of `nice`."""
WAITING = 256
"""Maximum number of waiting tasks; more are refused."""
WAITING_OF_ONE = 64
"""Maximum number of waiting tasks of one source."""


@dataclass(frozen=True, slots=True)
class _Piece:
    work: Callable[[], bytes]
    wanted: Callable[[], bool]
    done: Callable[[bytes | Exception], None]


class Workers:
    """Runs tasks in threads, alternating between sources; everything else happens in the loop's thread."""

    def __init__(self, loop: Loop, threads: int = THREADS) -> None:
        self._loop = loop
        self._threads = threads
        self._running = 0
        self._waiting: dict[str, deque[_Piece]] = {}
        self._turns: deque[str] = deque()

    def submit(
        self,
        source: str,
        work: Callable[[], bytes],
        wanted: Callable[[], bool],
        done: Callable[[bytes | Exception], None],
    ) -> bool:
        """Run `work` and pass its result or error to `done`; False: too many tasks are waiting.

        A task whose `wanted()` is no longer true when its turn comes is dropped.
        """
        mine = self._waiting.get(source)
        if mine is None:
            mine = self._waiting[source] = deque()
            self._turns.append(source)
        if len(mine) >= WAITING_OF_ONE or sum(map(len, self._waiting.values())) >= WAITING:
            self._forget_if_empty(source)
            return False
        mine.append(_Piece(work, wanted, done))
        self._start()
        return True

    def _start(self) -> None:
        while self._running < self._threads and self._turns:
            source = self._turns.popleft()
            piece = self._waiting[source].popleft()
            self._turns.append(source)
            self._forget_if_empty(source)
            if piece.wanted():
                self._running += 1
                threading.Thread(target=self._run, args=(piece,), name="sasl", daemon=True).start()

    def _forget_if_empty(self, source: str) -> None:
        if not self._waiting[source]:
            del self._waiting[source]
            self._turns.remove(source)

    def _run(self, piece: _Piece) -> None:
        """Runs in a thread with a lower priority than the loop's."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        result: bytes | Exception
        try:
            result = piece.work()
        except Exception as error:  # noqa: BLE001 - the connection edge, told to the loop
            result = error
        self._loop.call_from_thread(lambda: self._finished(piece, result))

    def _finished(self, piece: _Piece, result: bytes | Exception) -> None:
        self._running -= 1
        self._start()
        piece.done(result)
