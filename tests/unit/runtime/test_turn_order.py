"""The order of a loop turn: clients get their answers before long work continues."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.fakes import Running, running

WAIT_S = 60.0

pytestmark = pytest.mark.engine_independent


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


def test_answers_are_written_before_input_of_others_that_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as host:

        def start(work: Callable[[], None]) -> None:
            def go_on(buffer: Any) -> None:
                buffer.ready = [] if host.router.losses else buffer.ready
                work()

            monkeypatch.setattr("waymesh_router.runtime.host.continue_all_inputs", go_on)
            host.host._buffer.ready = [None]  # type: ignore[list-item] # until the client has gone

        found = unwritten_during(host, start)
    assert found
    assert not any(found)
