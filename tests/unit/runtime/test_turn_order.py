"""The order of a loop turn: clients get their answers before long work continues."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.unit.runtime.fakes import Running, running
from waymesh_router.runtime.transport.connection_io import ConnectionIO

WAIT_S = 60.0


def unwritten_during(host: Running, start: Callable[[Callable[[], None]], None]) -> list[bool]:
    """Whether a client's answer was still unwritten, each time that long work had its turn from the request on.

    `start(work)` has the host call `work` in its turns.
    """
    found: list[bool] = []
    with socket.create_connection(("127.0.0.1", host.listen()), WAIT_S) as sock:
        sock.sendall(b"first\n")
        assert sock.recv(100) == b"first\n"
        ((_, conn),) = host.router.connections
        before: int = host.call(lambda: conn.octets_out)

        def work() -> None:
            pending = len(conn.pending())
            if conn.octets_out + pending > before:
                found.append(pending > 0)

        host.call(start, work)
        sock.sendall(b"second\n")
        assert sock.recv(100) == b"second\n"
        host.call(lambda: None)
    return found


def test_answers_are_written_before_the_timers_of_the_router() -> None:
    with running() as host:
        tick = host.router.tick

        def start(work: Callable[[], None]) -> None:
            def slow(now: float) -> float:
                work()
                return tick(now)

            host.router.tick = slow  # type: ignore[method-assign]

        found = unwritten_during(host, start)
    assert found
    assert not any(found)


def test_answers_are_written_before_input_of_others_that_was_left() -> None:
    with running() as host, socket.socket() as own:

        def start(work: Callable[[], None]) -> None:
            class Left(ConnectionIO):
                """Has input left in each turn until the client has gone."""

                def continue_input(self) -> None:
                    if not host.router.losses:
                        self.buffer.ready.append(self)
                    work()

            ((_, conn),) = host.router.connections
            left = Left(host.host, own, conn, host.host._buffer)
            left.buffer.ready.append(left)

        found = unwritten_during(host, start)
    assert found
    assert not any(found)
