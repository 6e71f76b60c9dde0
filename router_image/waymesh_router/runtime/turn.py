"""What ends each turn of the event loop, for one router. Compiled: without the interpreter if nothing else is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import cython

if cython.compiled:
    from cython.cimports.waymesh_router.runtime.transport.connection_io import continue_all_inputs, flush_all
    from cython.cimports.waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
else:
    from waymesh_router.runtime.transport.connection_io import continue_all_inputs, flush_all
    from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.router import Router
    from waymesh_router.runtime.transport.connection_io import ConnectionIO

FAILED_TURN_S = 0.25
"""Maximum delay of the next turn after an error in the router's timers."""


class Turn:
    """Writes output and lets the router do what is due. `connections`: the open ones, shared with the host."""

    def __init__(
        self,
        connections: dict[Connection, ConnectionIO],
        buffer: ReceiveBuffer,
        failed: Callable[[str, Exception], None],
    ) -> None:
        """`failed(where, error)` reports an internal error."""
        self.router: Router
        self.stopping: Callable[[], None] | None = None
        """Called at the end of each turn while the process is being stopped."""
        self._connections = connections
        self._buffer = buffer
        self._failed = failed

    def begin(self, now: cython.double) -> None:
        """A turn begins: set the router's time."""
        self.router.core.now = now

    def end(self, now: cython.double) -> cython.double:
        """End a turn: write output, handle input left from earlier turns, run the router's timers, write again.

        Output is written first, so that peers get their answers before long work continues. Returns the time of the
        next deadline; `now` if input is left.
        """
        deadline: cython.double
        dirty: list[Connection] = self.router.dirty
        flush_all(dirty, self._connections)
        if self._buffer.ready:
            continue_all_inputs(self._buffer)
        try:
            deadline = self.router.tick(now)
        except Exception as error:  # noqa: BLE001 - the edge of timers: pending output is written nevertheless
            self._failed("in the router's timers", error)
            deadline = now + FAILED_TURN_S
        flush_all(dirty, self._connections)
        if self.stopping is not None:
            self.stopping()
        return now if self._buffer.ready else deadline
