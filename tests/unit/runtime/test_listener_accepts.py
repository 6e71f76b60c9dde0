"""How often a listener asks for clients: once where one comes alone, several times where many come together."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.tls.identity import Identity
from waymesh_router.runtime.tls.sockets import Transport
from waymesh_router.runtime.transport.listener import ACCEPTS_AT_ONCE, Listener

pytestmark = pytest.mark.engine_independent


class Door:
    """A listening socket that counts how often it is asked; `clients` have connected."""

    def __init__(self) -> None:
        self.asked = 0
        self.clients: list[socket.socket] = []
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._sock.setblocking(False)

    def connect(self, count: int) -> None:
        self.clients += [socket.create_connection(self._sock.getsockname(), 5) for _ in range(count)]

    def accept(self) -> tuple[socket.socket, Any]:
        self.asked += 1
        return self._sock.accept()

    def close(self) -> None:
        for sock in (self._sock, *self.clients):
            sock.close()


class Place:
    """A listener without TLS, and a door of it."""

    def __init__(self) -> None:
        self.accepted: list[Transport] = []
        self.door = Door()
        self.loop = Loop()
        attrs = {"name": "amqp", "host": "127.0.0.1", "port": 0}
        self.listener = Listener(self.loop, attrs, None, self._take, lambda *_: None)

    def _take(self, listener: Listener, sock: Transport, peer: str, identity: Identity | None) -> None:
        self.accepted.append(sock)

    def serve(self) -> tuple[int, int]:
        """epoll reports clients: how often the door is asked for them, and how many are accepted."""
        asked, accepted = self.door.asked, len(self.accepted)
        self.listener.accept(cast("socket.socket", self.door))
        return self.door.asked - asked, len(self.accepted) - accepted

    def close(self) -> None:
        self.door.close()
        self.listener.close()
        self.loop.close()
        for sock in self.accepted:
            sock.close()


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.close()


def test_a_client_that_comes_alone_costs_one_call(place: Place) -> None:
    place.door.connect(1)
    assert place.serve() == (1, 1)
    place.listener.opening.remove(place.accepted[0].fileno())  # it has opened
    place.door.connect(1)
    assert place.serve() == (1, 1)


def test_while_others_open_several_are_accepted_together(place: Place) -> None:
    place.door.connect(2 + ACCEPTS_AT_ONCE)
    assert place.serve() == (1, 1)
    assert place.serve() == (ACCEPTS_AT_ONCE, ACCEPTS_AT_ONCE)
    assert place.serve() == (2, 1)
    assert place.serve() == (1, 0)
