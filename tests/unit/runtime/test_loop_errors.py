"""An internal error in a timer, a handler or a turn is logged and counted, and has no other effect."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.kit.ports import free_port
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import FakeRouter, Running
from tests.unit.runtime.test_runtime_host import dial, read_line
from waymesh_router.runtime.transport.connector import Connector
from waymesh_router.runtime.transport.listener import Listener

BUG = RuntimeError("a bug")


def fail(*_: Any) -> Any:
    raise BUG


def serves(host: Running, port: int) -> None:
    """Whether a new client is served."""
    with dial(port) as sock:
        sock.sendall(b"hello\n")
        assert read_line(sock) == b"hello\n"


def reported(host: Running, where: str) -> None:
    """One error was counted and logged with its traceback. Asked in the loop's thread, which ends its turn before."""
    errors, text = host.call(lambda: (host.host.errors, host.log_text()))
    assert errors == 1
    assert f"internal error {where}" in text
    assert "RuntimeError: a bug" in text


def test_a_failing_timer_costs_itself(host: Running) -> None:
    port = host.listen()
    later: list[str] = []

    def set_timers() -> None:
        host.loop.call_later(0, fail)
        host.loop.call_later(0, lambda: later.append("ran"))

    host.call(set_timers)
    wait_until(lambda: later)
    reported(host, "in a timer")
    serves(host, port)


def test_a_failing_call_from_a_thread_costs_itself(host: Running) -> None:
    port = host.listen()
    host.loop.call_from_thread(fail)
    serves(host, port)
    reported(host, "in a call from another thread")


def test_a_failing_tick_of_the_router_does_not_keep_others_from_being_served(
    host: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = host.listen()
    monkeypatch.setattr(host.router, "tick", fail)
    serves(host, port)
    wait_until(lambda: "internal error in the router's timers" in host.log_text())
    assert host.host.errors >= 1


def test_a_failing_turn_is_tried_again(host: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    port = host.listen()
    failures: list[str] = []

    def broken(router: FakeRouter) -> list[Any]:
        if not failures:
            failures.append("failed")
            raise BUG
        return router.handler.dirty

    monkeypatch.setattr(FakeRouter, "dirty", property(broken))
    host.call(lambda: None)
    wait_until(lambda: failures)
    serves(host, port)
    reported(host, "in a turn of the loop")


class Endpoint:
    """A descriptor whose handler raises."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.events = 0
        self.abandoned = False

    def on_event(self, mask: int) -> None:
        self.events += 1
        raise BUG

    def abandon(self) -> None:
        self.abandoned = True
        self.sock.close()


def test_a_handler_that_raises_is_served_no_longer_and_told_to_close(host: Running) -> None:
    port = host.listen()
    ours, theirs = socket.socketpair()
    endpoint = Endpoint(ours)
    host.call(host.loop.register, ours.fileno(), endpoint)
    theirs.sendall(b"x")
    wait_until(lambda: endpoint.abandoned)
    assert endpoint.events == 1
    reported(host, "while Endpoint served a descriptor")
    serves(host, port)
    theirs.close()


def test_a_client_that_cannot_be_taken_on_costs_no_other_client(host: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    port = host.listen()
    original = Listener._start
    with monkeypatch.context() as patch:
        patch.setattr(Listener, "_start", fail)
        with dial(port) as sock:
            assert sock.recv(1) == b""
    assert Listener._start is original
    reported(host, "with a new client of listener L")
    serves(host, port)


def test_a_listener_that_raises_goes_on_after_a_pause(host: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waymesh_router.runtime.transport.listener.RETRY_ACCEPT_S", 0.01)
    port = host.listen()
    with monkeypatch.context() as patch:
        patch.setattr(Listener, "accept", fail)
        with dial(port):
            wait_until(lambda: host.host.errors)
    serves(host, port)


def test_a_connector_that_raises_tries_again(host: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    original = Connector._resolve

    def broken(connector: Connector) -> None:
        if not failures:
            failures.append(connector.name)
            raise BUG
        original(connector)

    monkeypatch.setattr(Connector, "_resolve", broken)
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(DEADLINE_S)
        host.connect(port)
        server.accept()[0].close()
    reported(host, "in connector C")


def test_what_the_host_does_not_survive_costs_its_connection(host: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ended` raises halfway: the descriptor is closed nevertheless, and others are served."""
    port = host.listen()
    sock = dial(port)
    sock.sendall(b"hello\n")
    assert read_line(sock) == b"hello\n"
    monkeypatch.setattr(host.host, "_report_lost", fail)
    sock.close()
    wait_until(lambda: host.host.errors)
    monkeypatch.undo()
    assert not host.call(lambda: dict(host.host._connections))
    serves(host, port)
