"""Addresses that a connector tries: a name resolves to other addresses after a pod was replaced."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.kit.waiting import wait_until
from tests.unit.runtime.fakes import Running
from waymesh_router.connections.retries import Retries
from waymesh_router.runtime.transport import connector as module
from waymesh_router.runtime.transport import dialing
from waymesh_router.runtime.transport.addresses import SocketAddress

DEADLINE_S = 30.0


@pytest.fixture
def unresponsive() -> Iterator[SocketAddress]:
    """An address that does not answer, like that of a removed pod: its accept queue is full."""
    with socket.socket() as server, contextlib.ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield socket.AF_INET, server.getsockname()


class Names:
    """A resolver with addresses that the test sets. `asked`: the number of look-ups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[SocketAddress] = []
        self.asked = 0
        monkeypatch.setattr(module, "resolve", self._resolve)

    def _resolve(self, *_: object) -> list[SocketAddress]:
        found = list(self.addresses)
        self.asked += 1
        return found


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


def local(port: int) -> SocketAddress:
    return socket.AF_INET, ("127.0.0.1", port)


def connected(host: Running) -> bool:
    return any(name == "C" for name, _ in host.router.connections)


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses that answer nothing are waited for."""
    monkeypatch.setattr(dialing, "CONNECT_S", 3600.0)


def test_an_address_that_does_not_answer_holds_up_no_other(
    host: Running, unresponsive: SocketAddress, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    never(monkeypatch)
    names.addresses = [unresponsive, local(host.listen())]
    host.connect(1, host="pod.example")
    wait_until(lambda: connected(host), DEADLINE_S)
    assert names.asked == 1
    assert not host.router.failures


def test_a_name_is_looked_up_at_each_try(
    host: Running, unresponsive: SocketAddress, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = dialing.CONNECT_S
    monkeypatch.setattr(dialing, "CONNECT_S", 0.05)
    names.addresses = [unresponsive]
    host.connect(1, host="pod.example")
    wait_until(lambda: host.router.failures, DEADLINE_S)
    assert host.router.failures[0] == ("C", "Connection to pod.example:1 failed: connecting took too long")
    names.addresses = [local(host.listen())]
    monkeypatch.setattr(dialing, "CONNECT_S", usual)  # enough for one that answers, on a busy machine too
    wait_until(lambda: connected(host), DEADLINE_S)


def test_a_change_of_the_mesh_has_names_looked_up_while_a_try_hangs(
    host: Running, unresponsive: SocketAddress, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    never(monkeypatch)
    names.addresses = [unresponsive]
    host.connect(1, host="pod.example")
    wait_until(lambda: names.asked == 1, DEADLINE_S)
    names.addresses = [local(host.listen())]

    def found() -> bool:
        host.call(host.host.retry)
        return connected(host)

    wait_until(found, DEADLINE_S)
    assert not host.router.failures


def test_a_change_of_the_mesh_ends_the_wait_for_the_next_try(
    host: Running, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retries, "delay", lambda self, now: 3600.0)
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        names.addresses = [(socket.AF_INET, refusing.getsockname())]
        host.connect(1, host="pod.example")
        wait_until(lambda: host.router.failures, DEADLINE_S)
    names.addresses = [local(host.listen())]
    host.call(host.host.retry)
    wait_until(lambda: connected(host), DEADLINE_S)
    host.call(host.host.retry)
    assert sum(name == "C" for name, _ in host.router.connections) == 1, "one that is up is left alone"
