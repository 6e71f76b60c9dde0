"""Addresses of host names in the rules of the access policy, looked up in threads: name servers may be slow."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from waymesh_router.policy.hosts import Addresses
from waymesh_router.runtime.loop import Loop, Timer

LOOK_UP_S = 1.0
"""Time limit of all look-ups of a request together."""
START_S = 5.0
"""Time limit of all look-ups of a configuration together: the router waits for them before it listens."""
THREADS = 16
"""Maximum number of concurrent look-ups. A look-up cannot be cancelled: slow ones continue after their time limit."""
THREADS_OF_ONE = 4
"""Maximum number of concurrent look-ups of one request."""

LookUp = Callable[[str], Collection[str]]
"""Numeric addresses of a host name; raises OSError or UnicodeError."""


def system_look_up(name: str) -> list[str]:
    """Numeric addresses of a host name, by the resolver of the system; raises OSError or UnicodeError."""
    return list(dict.fromkeys(str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)))


def numeric_addresses(names: Collection[str], limit_s: float = START_S, look_up: LookUp = system_look_up) -> Addresses:
    """Look up names and wait for the answers, for `limit_s` in total."""
    batch = _Batch(names, look_up, limit_s)
    end = time.monotonic() + limit_s
    for thread in [batch.start() for _ in range(min(THREADS, len(names)))]:
        thread.join(max(0.0, end - time.monotonic()))
    return batch.result()


class HostNames:
    """Looks up names without blocking the loop."""

    def __init__(self, loop: Loop, look_up: LookUp = system_look_up) -> None:
        self._loop = loop
        self._look_up = look_up
        self._running = 0
        self._waiting: deque[_Request] = deque()

    def look_up(self, names: Collection[str], done: Callable[[Addresses], None]) -> None:
        """Call `done` with all addresses, or with those found within LOOK_UP_S; never before this method returns."""
        request = _Request(_Batch(names, self._look_up, LOOK_UP_S), done)
        request.timer = self._loop.call_later(LOOK_UP_S, lambda: self._finish(request))
        self._waiting.append(request)
        self._start()

    def _start(self) -> None:
        while self._waiting and self._running < THREADS:
            request = self._waiting[0]
            batch = request.batch
            if batch.ended or not batch.left or request.threads == THREADS_OF_ONE:
                self._waiting.popleft()
                continue
            request.threads += 1
            self._running += 1
            batch.start(partial(self._loop.call_from_thread, partial(self._thread_ended, request)))

    def _thread_ended(self, request: _Request) -> None:
        self._running -= 1
        if not request.batch.ended and request.batch.complete():
            request.timer.cancel()
            self._finish(request)
        self._start()

    def _finish(self, request: _Request) -> None:
        request.batch.ended = True
        request.done(request.batch.result())


class _Request:
    """A request of the router, and the number of its threads."""

    timer: Timer

    def __init__(self, batch: _Batch, done: Callable[[Addresses], None]) -> None:
        self.batch = batch
        self.done = done
        self.threads = 0


class _Batch:
    """Names to look up; each of its threads takes one name at a time."""

    def __init__(self, names: Collection[str], look_up: LookUp, limit_s: float) -> None:
        self.left = deque(names)
        self.ended = False
        self._look_up = look_up
        self._found: dict[str, Collection[str] | str] = {}
        self._names = tuple(names)
        self._no_answer = f"no answer within {limit_s:g} s"

    def start(self, ended: Callable[[], None] | None = None) -> threading.Thread:
        """Start a thread; `ended` is called in it at its end."""
        thread = threading.Thread(target=self._run, args=(ended,), name="resolver", daemon=True)
        thread.start()
        return thread

    def complete(self) -> bool:
        return len(self._found) == len(self._names)

    def result(self) -> Addresses:
        return {name: self._found.get(name, self._no_answer) for name in self._names}

    def _run(self, ended: Callable[[], None] | None) -> None:
        try:
            while not self.ended:
                name = self.left.popleft()  # IndexError: none is left
                self._found[name] = self._one(name)
        except IndexError:
            pass
        finally:
            if ended is not None:
                ended()

    def _one(self, name: str) -> Collection[str] | str:
        try:
            return self._look_up(name) or "no address found"
        except (OSError, UnicodeError) as error:
            return getattr(error, "strerror", None) or str(error)
