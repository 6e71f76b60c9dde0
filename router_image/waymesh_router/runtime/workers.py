"""A few threads for work that would block the loop: the key derivation (PBKDF2) for peers that log in."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from waymesh_router.runtime.loop import Loop

THREADS = 2
NICENESS = 10
"""The niceness of the threads, see nice(1)."""
WAITING = 256
"""Maximum number of waiting tasks; further ones are refused."""
WAITING_OF_ONE = 64
"""Maximum number of waiting tasks of one source."""


@dataclass(frozen=True, slots=True)
class _Task:
    work: Callable[[], bytes]
    wanted: Callable[[], bool]
    done: Callable[[bytes | Exception], None]


class Workers:
    """Runs tasks in threads, alternating between sources. `done` is called in the loop's thread, `wanted` in any."""

    def __init__(self, loop: Loop, threads: int = THREADS) -> None:
        self._loop = loop
        self._threads = threads
        self._lock = threading.Lock()  # protects the following attributes
        self._running = 0
        self._waiting: dict[str, deque[_Task]] = {}
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
        with self._lock:
            queue = self._waiting.get(source)
            if (queue is not None and len(queue) >= WAITING_OF_ONE) or sum(map(len, self._waiting.values())) >= WAITING:
                return False
            if queue is None:
                queue = self._waiting[source] = deque()
                self._turns.append(source)
            queue.append(_Task(work, wanted, done))
            start = self._running < self._threads
            if start:
                self._running += 1
        if start:
            try:
                threading.Thread(target=self._run, name="sasl", daemon=True).start()
            except RuntimeError:  # no thread can be started now: the thread for a later task runs this one first
                with self._lock:
                    self._running -= 1
                raise
        return True

    def _run(self) -> None:
        """In a thread with a lower priority than the loop's: run tasks until none waits.

        A thread runs many tasks: starting one blocks the loop until it runs, for milliseconds if the cores are busy.
        """
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while (task := self._next()) is not None:
            if task.wanted():
                result: bytes | Exception
                try:
                    result = task.work()
                except Exception as error:  # noqa: BLE001 - the connection edge, reported to the loop
                    result = error
                self._loop.call_from_thread(partial(task.done, result))

    def _next(self) -> _Task | None:
        """The next task, of the source whose turn it is. None: the thread must end."""
        with self._lock:
            if not self._turns:
                self._running -= 1
                return None
            source = self._turns.popleft()
            task = self._waiting[source].popleft()
            if self._waiting[source]:
                self._turns.append(source)
            else:
                del self._waiting[source]
            return task
