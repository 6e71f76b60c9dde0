"""What the relay does to connections, seen from their two ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.chaos.relay import Relay, Wire
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.engine_independent

WAIT_S = 60.0
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    yield relay
    relay.close()


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """What the wire of a test leads to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        yield server


@pytest.fixture
def wire(relay: Relay, door: socket.socket) -> Wire:
    return relay.wire("w", door.getsockname()[1])


@pytest.fixture
def ends(wire: Wire, door: socket.socket) -> Iterator[Ends]:
    """The two ends of a connection through the wire: who connected, who listened."""
    with socket.create_connection(("127.0.0.1", wire.port), WAIT_S) as client:
        server, _ = door.accept()
        with server:
            server.settimeout(WAIT_S)
            pass_on(client, server)
            yield client, server


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """Bytes get through."""
    source.sendall(b"hello")
    assert target.recv(5, socket.MSG_WAITALL) == b"hello"


def has_ended(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True


def is_silent(end: socket.socket) -> bool:
    """Whether nothing has come, and no end either."""
    end.setblocking(False)
    try:
        end.recv(1)
    except BlockingIOError:
        return True
    finally:
        end.settimeout(WAIT_S)
    return False


def test_bytes_and_ends_pass(relay: Relay, ends: Ends) -> None:
    client, server = ends
    pass_on(server, client)
    assert relay.is_whole()
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert server.recv(4, socket.MSG_WAITALL) == b"last"
    assert has_ended(server)
    server.close()
    assert has_ended(client)
    wait_until(lambda: [end.wire for end in relay.ends] == ["w"])
    wait_until(lambda: not relay.is_whole())


def test_a_cut_ends_both(relay: Relay, wire: Wire, ends: Ends) -> None:
    relay.cut(wire)
    assert has_ended(ends[0])
    assert has_ended(ends[1])


def test_one_way_is_silent_the_other_is_not(relay: Relay, wire: Wire, ends: Ends) -> None:
    client, server = ends
    relay.change(wire, "there", held=True)
    client.sendall(b"later")
    pass_on(server, client)
    assert is_silent(server)
    relay.heal()
    assert server.recv(5, socket.MSG_WAITALL) == b"later"
    pass_on(client, server)


@pytest.mark.parametrize("way", ["there", "back"])
def test_half_open(relay: Relay, wire: Wire, ends: Ends, way: str) -> None:
    """The reset end knows it, the other one gets no answer, and when it ends, the connection is over."""
    client, server = ends
    reset, left = (server, client) if way == "there" else (client, server)
    relay.halve(wire, way)
    assert has_ended(reset)
    left.sendall(b"to nobody")
    assert not relay.is_whole()
    assert is_silent(left)
    left.close()
    wait_until(lambda: not wire.pairs)


def test_delayed_and_slowed_bytes_come(relay: Relay, wire: Wire, ends: Ends) -> None:
    client, server = ends
    began = time.monotonic()
    relay.change(wire, "both", delay_s=0.2)
    pass_on(client, server)
    assert time.monotonic() - began >= 0.2
    relay.change(wire, "both", delay_s=0.0, rate=10000.0)
    began = time.monotonic()
    client.sendall(bytes(2000))
    assert len(server.recv(2000, socket.MSG_WAITALL)) == 2000
    assert time.monotonic() - began >= 0.19


def test_nobody_listens(relay: Relay, wire: Wire, door: socket.socket) -> None:
    door.close()
    with socket.create_connection(("127.0.0.1", wire.port), WAIT_S) as client:
        assert has_ended(client)
    assert not relay.is_whole()
    assert not relay.ends
