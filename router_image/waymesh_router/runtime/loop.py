"""The event loop: raw epoll, one thread.

Not asyncio: with its transports, a round trip takes 2.4 times as long as with a raw loop. Compiled, a turn in which
only connections are ready runs without the interpreter. The steps of a turn:

1. Call `on_wake` with the time, and run the timers that are due.
2. Call `on_event` once for each ready descriptor.
3. Call `turn(now)`, which runs the router's own timers, then writes once to each connection with pending output.
4. For a tenth of a millisecond, handle descriptors with low priority: those of clients that have not opened yet, or
   have closed. So even many of them at once do not delay the others (docs/decisions/0044). If no other is ready, this
   comes before the turn.

An error in a timer, a handler, a call from a thread or the turn itself is reported to `on_error`; the loop continues
without the timer, handler or call that raised it.

A timer that is set during a turn runs in a later turn, after the writes of the current one. So code can answer a
request, then close the connection by a timer.
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

import cython

from waymesh_router.runtime.transport.connection_io import ConnectionIO

if cython.compiled:
    from cython.cimports.cpython.exc import PyErr_CheckSignals
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.libc.math import ceil
    from cython.cimports.waymesh_router.runtime.epoll import epoll_wait
else:
    from math import ceil

EPOLLIN = select.EPOLLIN
EPOLLOUT = select.EPOLLOUT
EPOLLRDHUP = select.EPOLLRDHUP
EPOLLET = select.EPOLLET
CLOSED = EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
"""Events that report that the peer has closed, at least for sending."""
_CLOSED = cython.declare(cython.int, CLOSED)
FAILED_TURN_S = 0.25
"""Maximum delay of the next turn after an error in a turn."""
MAX_EVENTS = cython.declare(cython.int, 1024)
"""Maximum number of ready descriptors handled in one turn: with more, the first ones would wait long for their
answers."""
MAX_WAIT_MS = cython.declare(cython.double, 2147483647.0)
"""The longest time for which epoll can be asked to wait."""
LOW_PRIORITY_S = 0.0001
"""Time in each turn for descriptors with low priority; at least one event is handled."""


class EventHandler(Protocol):
    """Handles the events of a descriptor."""

    def on_event(self, mask: int) -> None:
        """The descriptor is ready; `mask` is from epoll."""

    def abandon(self) -> None:
        """`on_event` raised, and the descriptor is no longer served: close the object that owns it."""


class Timer:
    """A call that is due at `when`; `cancel()` disables it."""

    __slots__ = ("_loop", "callback", "when")

    def __init__(self, loop: Loop, when: float, callback: Callable[[], None]) -> None:
        self._loop: Loop | None = loop  # while the loop stores the timer, unless it is cancelled
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        """Cancel the call. No effect if it has run."""
        self.callback = None
        loop, self._loop = self._loop, None
        if loop is not None:
            loop._forget_cancelled()


class Loop:
    """Descriptors, timers and calls from other threads, served by one thread."""

    def __init__(self) -> None:
        # Seconds since the epoch at start; not affected by later corrections of the system clock.
        self._origin = time.time() - time.monotonic()
        self._epoll = select.epoll()
        self._fd = self._epoll.fileno()
        self._reported: list[tuple[int, int]] = []  # interpreted: descriptors and events of this turn
        # epoll is asked for one event at a time: then it moves each reported descriptor to the end of its queue.
        self._low = select.epoll()
        self._low_fd = self._low.fileno()
        self._epoll.register(self._low_fd, EPOLLIN)
        self._handlers: dict[int, EventHandler] = {}
        self._masks: dict[int, int] = {}
        self._low_masks: dict[int, int] = {}  # of descriptors with low priority
        self._timers: list[Timer] = []
        self._cancelled = 0  # timers in the list
        self._calls: deque[Callable[[], None]] = deque()
        self._kept: deque[tuple[int, EventHandler]] = deque()  # see `again`
        self._wakeup, self.wakeup_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopped = False
        self.on_wake: Callable[[float], None] = _ignore_time
        """Called with the time when a turn begins, before its events."""
        self.on_error: Callable[[str, Exception], None] = _print_error
        """Called after an internal error with a description of the action and the error."""
        self.register(self._wakeup, self)

    def now(self) -> cython.double:
        """Seconds since the epoch, monotonic."""
        return time.monotonic() + self._origin

    # ---- descriptors

    def register(
        self, fd: int, handler: EventHandler, mask: int = EPOLLIN, *, low_priority: bool = False
    ) -> None:
        """Serve `fd` with `handler`, also if another one serves it, whose priority it keeps. Low priority: after all
        others, and for a short time in each turn."""
        if fd in self._handlers:
            self.replace(fd, handler, mask)
            return
        self._handlers[fd] = handler
        if low_priority:
            self._low_masks[fd] = mask
            self._low.register(fd, mask)
        else:
            self._masks[fd] = mask
            self._epoll.register(fd, _with_close(mask))

    def replace(self, fd: int, handler: EventHandler, mask: int = EPOLLIN) -> None:
        """Give a registered `fd` another handler, which gets pending events too."""
        self._handlers[fd] = handler
        self.modify(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        """Change the events for which a registered `fd` waits."""
        if fd in self._low_masks:
            if self._low_masks[fd] != mask or mask & EPOLLET:  # edges before it are reported to another handler
                self._low_masks[fd] = mask
                self._low.modify(fd, mask)
        else:
            self._masks[fd] = mask
            self._epoll.modify(fd, _with_close(mask))

    def raise_priority(self, fd: int) -> None:
        """Give a registered `fd` normal priority. No effect if it has it already."""
        mask = self._low_masks.pop(fd, None)
        if mask is not None:
            self._low.unregister(fd)
            self._masks[fd] = mask
            self._epoll.register(fd, _with_close(mask))

    def again(self, fd: int) -> None:
        """Report a registered `fd` as readable once more, with low priority: its handler keeps input that epoll does
        not report."""
        self._kept.append((fd, self._handlers[fd]))

    def _lower_priority(self, fd: cython.int) -> None:
        self._epoll.unregister(fd)
        self._low_masks[fd] = self._masks.pop(fd)
        self._low.register(fd, self._low_masks[fd])

    def unregister(self, fd: int) -> None:
        """Stop serving `fd`. Must be called before it is closed. No effect if it is not registered."""
        if self._handlers.pop(fd, None) is not None:
            low = self._low_masks.pop(fd, None) is not None
            self._masks.pop(fd, None)
            with contextlib.suppress(OSError):  # a failed TLS wrapper has closed it, which removes it from epoll
                (self._low if low else self._epoll).unregister(fd)

    # ---- timers and other threads

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the first turn after `when`."""
        timer = Timer(self, when, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` after `delay_s` seconds; with 0 in the next turn."""
        return self.call_at(self.now() + delay_s, callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread, soon. Safe in any thread and any signal handler.
        For signals, `wakeup_fd` must also be passed to `signal.set_wakeup_fd`; otherwise one that arrives just before
        epoll waits would be handled late.
        """
        self._calls.append(callback)
        with contextlib.suppress(BlockingIOError):  # full: the loop is already awake
            os.write(self.wakeup_fd, b"\0")

    def on_event(self, mask: int) -> None:
        """The wake-up descriptor: run the calls from other threads."""
        os.read(self._wakeup, 4096)
        if cython.compiled:
            PyErr_CheckSignals()  # of those that wrote to the pipe, else the next turn might wait without them
        while self._calls:
            self._guarded("in a call from another thread", self._calls.popleft())

    def abandon(self) -> None:
        """Do not close the wake-up descriptor: without it, no signal would be handled."""
        self.register(self._wakeup, self)

    # ---- running

    def run(self, turn: Callable[[float], float]) -> None:
        """Serve until `stop()`. `turn(now)` ends each turn and returns the time of its next deadline."""
        deadline: cython.double = self._turn(turn)
        low: cython.bint = False  # whether descriptors with low priority were served since the last turn
        others: cython.bint
        now: cython.double
        count: cython.int
        place: cython.int
        fd: cython.int
        mask: cython.int
        io: ConnectionIO
        while not self._stopped:
            count = self._wait(0.0 if low or self._kept else self._timeout(deadline))
            low, others = bool(self._kept), False  # are there any to serve?
            now = self.now()
            self.on_wake(now)
            if self._timers:
                self._run_timers(now)
            for place in range(count):
                if cython.compiled:
                    fd, mask = self._events[place].data.fd, self._events[place].events  # type: ignore[attr-defined]
                else:
                    fd, mask = self._reported[place]
                handler = self._handlers.get(fd)
                if handler is None:
                    low = low or fd == self._low_fd
                elif mask & _CLOSED and fd in self._masks:  # not lowered by another handler of this turn
                    self._lower_priority(fd)
                    low = True
                else:
                    others = True
                    try:
                        if isinstance(handler, ConnectionIO):
                            io = handler
                            io.on_event(mask)
                        else:
                            handler.on_event(mask)
                    except Exception as error:  # noqa: BLE001 - the edge of handlers
                        self._abandon(fd, handler, error)
            # Else the loop keeps the connection that had the last event, even one that has ended.
            handler = io = None  # type: ignore[assignment]
            if low and not others:  # nobody waits for an answer: one turn is enough
                self._serve_low()
                low = False
            deadline = self._turn(turn)
            if low:
                self._serve_low()

    def _wait(self, timeout_s: cython.double) -> cython.int:
        """Wait for events, at most `timeout_s` (-1: no limit). Returns the number of ready descriptors, which are in
        `_events`, or interpreted in `_reported`. Raises the error of a signal handler."""
        if cython.compiled:
            timeout: cython.int = -1 if timeout_s < 0 else cython.cast(cython.int, ceil_ms(timeout_s))
            count: cython.int
            failure: cython.int = 0
            with cython.nogil:
                count = epoll_wait(self._fd, self._events, MAX_EVENTS, timeout)  # type: ignore[attr-defined]
                if count < 0:
                    failure = errno
            # Compiled code does not notice a signal, or that objects may be collected, unless it asks.
            PyErr_CheckSignals()
            if count < 0:
                if failure != EINTR:
                    raise OSError(failure, os.strerror(failure))
                return 0
            return count
        self._reported = self._epoll.poll(timeout_s, MAX_EVENTS)
        return len(self._reported)

    def _serve_low(self) -> None:
        """Handle events of descriptors with low priority, one after the other, until LOW_PRIORITY_S is over."""
        end = time.monotonic() + LOW_PRIORITY_S
        while not self._stopped:
            events = self._low.poll(0, 1)
            if self._kept:
                fd, handler = self._kept.popleft()
                if self._handlers.get(fd) is handler:  # not passed on, or closed
                    events.append((fd, EPOLLIN))
            elif not events:
                return
            for fd, mask in events:
                found = self._handlers.get(fd)
                if found is not None:
                    try:
                        found.on_event(mask)
                    except Exception as error:  # noqa: BLE001 - the edge of handlers
                        self._abandon(fd, found, error)
            if time.monotonic() >= end:
                return

    def stop(self) -> None:
        """Make `run` return at the end of this turn."""
        self._stopped = True

    def close(self) -> None:
        """Close the loop's own descriptors."""
        self._epoll.close()
        self._low.close()
        os.close(self._wakeup)
        os.close(self.wakeup_fd)

    def _timeout(self, deadline: cython.double) -> cython.double:
        """Seconds for which epoll may wait (-1: no limit)."""
        if self._timers:
            timer: Timer = self._timers[0]
            if timer.when < deadline:
                deadline = timer.when
        if deadline == math.inf:
            return -1.0
        deadline -= self.now()
        return deadline if deadline > 0.0 else 0.0

    def _run_timers(self, now: cython.double) -> None:
        timers: list[Timer] = self._timers
        first: Timer = timers[0]
        if first.when > now:
            return
        due = []
        timer: Timer
        while timers and timers[0].when <= now:
            timer = heapq.heappop(timers)
            if timer._loop is None:
                self._cancelled -= 1
            else:
                timer._loop = None
                due.append(timer)
        for timer in due:
            if timer.callback is not None:
                self._guarded("in a timer", timer.callback)

    def _forget_cancelled(self) -> None:
        """A stored timer was cancelled. No more cancelled ones are stored than others: one that is made beside a flood,
        such as that of a TLS handshake, would keep a block of 1 MiB of Python's allocator for 15 s."""
        self._cancelled += 1
        if 2 * self._cancelled > len(self._timers):
            self._timers[:] = [timer for timer in self._timers if timer.callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _turn(self, turn: Callable[[float], float]) -> cython.double:
        now: cython.double = self.now()
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

    def _abandon(self, fd: cython.int, handler: EventHandler, error: Exception) -> None:
        """A handler raised an error: stop serving its descriptor, because it would raise again in each turn."""
        self.on_error(f"while {type(handler).__name__} served a descriptor", error)
        if self._handlers.get(fd) is handler:
            self.unregister(fd)
        self._guarded(f"while {type(handler).__name__} was closed", handler.abandon)


def ceil_ms(seconds: cython.double) -> cython.double:
    """Milliseconds for epoll, never less than `seconds`: it would wake up too early, again and again."""
    milliseconds: cython.double = ceil(seconds * 1000.0)
    return milliseconds if milliseconds < MAX_WAIT_MS else MAX_WAIT_MS


def _with_close(mask: int) -> int:
    """Add EPOLLRDHUP if input is awaited: it is reported together with the last input."""
    return mask | EPOLLRDHUP if mask & EPOLLIN else mask


def _ignore_time(_now: float) -> None:
    """Default until `on_wake` is set."""


def _print_error(where: str, error: Exception) -> None:
    """Default until `on_error` is set."""
    sys.stderr.write(f"internal error {where}: {''.join(traceback.format_exception(error))}")
