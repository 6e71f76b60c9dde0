"""The event loop: raw epoll, one thread.

Not asyncio: its transports cost 2.4 times the round-trip time of a raw loop. One turn is

1. the timers that are due, 2. one `on_event` for each ready descriptor, 3. `turn(now)`, which lets the router act on
its own deadlines and then writes to each connection that has something to say, once.

Whatever raises, a timer, a handler, a call from a thread, the turn itself, is reported to `on_error` and costs only
what it was about: the loop goes on.

A timer that is set during a turn runs in a later turn, after that turn's writes: whoever answers a request and then
wants to close the connection can rely on it.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import os
import select
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Protocol

EPOLLIN = select.EPOLLIN
EPOLLOUT = select.EPOLLOUT
FAILED_TURN_S = 0.25
"""After a turn that raised the next one comes at the latest so much later."""
MAX_EVENTS = 1024
"""Ready descriptors taken in one turn: more would make the first ones wait long for their answer."""


class EventHandler(Protocol):
    """What is registered for a descriptor."""

    def on_event(self, mask: int) -> None:
        """The descriptor is ready; `mask` as epoll gave it."""

    def abandon(self) -> None:
        """`on_event` raised, and the descriptor is served no longer: close what it belongs to."""


class Timer:
    """A call that is due at `when`; `cancel()` makes it do nothing."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        """Forget the call. Harmless when it ran already."""
        self.callback = None


class Loop:
    """Descriptors, timers and calls from other threads, served by one thread."""

    def __init__(self) -> None:
        # Seconds since the epoch at start, but never set back or forth by whoever corrects the clock of the machine.
        self._origin = time.time() - time.monotonic()
        self._epoll = select.epoll()
        self._handlers: dict[int, EventHandler] = {}
        self._timers: list[Timer] = []
        self._calls: deque[Callable[[], None]] = deque()
        self._wakeup, self.wakeup_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopped = False
        self.on_error: Callable[[str, Exception], None] = _print_error
        """Called with what was being done and the error that our own code raised while it was done."""
        self.register(self._wakeup, self)

    def now(self) -> float:
        """Seconds since the epoch, monotonic."""
        return time.monotonic() + self._origin

    # ---- descriptors

    def register(self, fd: int, handler: EventHandler, mask: int = EPOLLIN) -> None:
        """Serve `fd` by `handler` from now on."""
        self._handlers[fd] = handler
        self._epoll.register(fd, mask)

    def replace(self, fd: int, handler: EventHandler, mask: int = EPOLLIN) -> None:
        """Give a registered `fd` to another handler. What is ready already is reported to the new one."""
        self._handlers[fd] = handler
        self._epoll.modify(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        """Change what a registered `fd` waits for."""
        self._epoll.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        """Stop serving `fd`; to be called before it is closed. Harmless when it is not registered."""
        if self._handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):  # a TLS wrapper that failed has closed it, and epoll forgot it by itself
                self._epoll.unregister(fd)

    # ---- timers and other threads

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the first turn after `when`."""
        timer = Timer(when, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `delay_s` seconds have gone by; with 0 in the next turn."""
        return self.call_at(self.now() + delay_s, callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread, soon. Any thread, and any signal handler, may say this.

        For signals `wakeup_fd` must also be given to `signal.set_wakeup_fd`, or one that arrives just before epoll
        waits would be served late.
        """
        self._calls.append(callback)
        with contextlib.suppress(BlockingIOError):  # full: the loop is awake already
            os.write(self.wakeup_fd, b"\0")

    def on_event(self, mask: int) -> None:
        """The wake-up descriptor: run what other threads left."""
        os.read(self._wakeup, 4096)
        while self._calls:
            self._guarded("in a call from another thread", self._calls.popleft())

    def abandon(self) -> None:
        """The wake-up descriptor stays: without it no signal would be heard."""
        self.register(self._wakeup, self)

    # ---- running

    def run(self, turn: Callable[[float], float]) -> None:
        """Serve until `stop()`. `turn(now)` ends each turn and gives the time of its own next deadline."""
        poll = self._epoll.poll
        handlers = self._handlers
        deadline = self._turn(turn)
        while not self._stopped:
            events = poll(self._timeout(deadline), MAX_EVENTS)
            if self._timers:
                self._run_timers(self.now())
            for fd, mask in events:
                handler = handlers.get(fd)
                if handler is not None:
                    try:
                        handler.on_event(mask)
                    except Exception as error:  # noqa: BLE001 - the edge of handlers
                        self._abandon(fd, handler, error)
            deadline = self._turn(turn)

    def stop(self) -> None:
        """Make `run` return at the end of this turn."""
        self._stopped = True

    def close(self) -> None:
        """Give the loop's own descriptors back."""
        self._epoll.close()
        os.close(self._wakeup)
        os.close(self.wakeup_fd)

    def _timeout(self, deadline: float) -> float:
        """Seconds that epoll may wait (-1: for ever)."""
        timers = self._timers
        if timers and timers[0].when < deadline:
            deadline = timers[0].when
        if deadline == math.inf:
            return -1.0
        return max(0.0, deadline - self.now())

    def _run_timers(self, now: float) -> None:
        timers = self._timers
        due = []
        while timers and timers[0].when <= now:
            due.append(heapq.heappop(timers))
        for timer in due:
            if timer.callback is not None:
                self._guarded("in a timer", timer.callback)

    def _turn(self, turn: Callable[[float], float]) -> float:
        now = self.now()
        try:
            return turn(now)
        except Exception as error:  # noqa: BLE001 - the edge of turns
            self.on_error("in a turn of the loop", error)
            return now + FAILED_TURN_S

    def _guarded(self, where: str, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the edge of timers and calls
            self.on_error(where, error)

    def _abandon(self, fd: int, handler: EventHandler, error: Exception) -> None:
        """A handler raised. Were its descriptor still served, it would raise again in each turn."""
        self.on_error(f"while {type(handler).__name__} served a descriptor", error)
        if self._handlers.get(fd) is handler:
            self.unregister(fd)
        self._guarded(f"while {type(handler).__name__} was closed", handler.abandon)


def _print_error(where: str, error: Exception) -> None:
    """Until somebody else is to hear of errors."""
    sys.stderr.write(f"internal error {where}: {''.join(traceback.format_exception(error))}")
