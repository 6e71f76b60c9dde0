"""Ended connections of all kinds are freed by reference counting: they leave nothing to the collector of cycles."""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.guarded import Guarded, vhost
from tests.kit import frames
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.garbage import GARBAGE
from tests.kit.ports import free_port
from tests.kit.process import section
from tests.kit.web_socket import WebSocket
from waymesh_amqp.connection import Connection
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.transport.connection_io import ConnectionIO

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

class World:
    """A router with policy, and listeners of all kinds."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
        self.tls, self.web = free_port(), free_port()
        text = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key, caCertFile=authority.cert)
        text += section("listener", name="tls", host="127.0.0.1", port=self.tls, sslProfile="p", requireSsl=True)
        text += section("listener", name="web", host="127.0.0.1", port=self.web, http=True)
        self.guarded = Guarded(folder, text)
        self.guarded.group()
        self.trust = ssl.create_default_context(cafile=str(authority.cert))

    def settle(self) -> None:
        """Wait until all connections are gone."""
        router = self.guarded.router
        router.wait(lambda: not router.running.host._connections, "the end of all connections")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("freed"))
    yield made
    made.guarded.router.stop()


def in_cycles(world: World) -> list[object]:
    """Connections of this router, and their transports, that only the collector frees."""
    router = world.guarded.router
    owners = (router.router.core, router.running.host)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        found = [each for each in gc.garbage if issubclass(type(each), (Connection, ConnectionIO))]  # not of proxies
        return [each for each in found if getattr(each, "handler", getattr(each, "owner", None)) in owners]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def drain(client: socket.socket) -> None:
    """Read to the end, which may be a reset: the router does not read what follows an error."""
    with contextlib.suppress(ConnectionResetError):
        while client.recv(4096):
            pass


def links(client: Client) -> None:
    receiver = client.receiver("orders", credit=1)
    sent = client.sender("orders").send("an order")
    receiver.next().accept()
    assert sent.outcome() == "accepted"


def plain(world: World) -> None:
    with Client(world.guarded.url) as client:
        links(client)


def password(world: World) -> None:
    client = world.guarded.client("alice")
    links(client)
    client.close()


def wrong_password(world: World) -> None:
    login = {"user": "alice", "password": "wrong", "allowed_mechs": "PLAIN"}
    client = Client(world.guarded.url, wait=False, allow_insecure_mechs=True, **login)
    assert client.wait_ended()
    client.close()


def killed(world: World) -> None:
    client = Client(world.guarded.url)
    links(client)
    client.receiver("orders", credit=10)
    client.abort()


def unsettled(world: World) -> None:
    client = Client(world.guarded.url)
    receiver = client.receiver("orders", credit=1)
    client.sender("orders").send("an order")
    receiver.next()
    client.abort()


def managed(world: World) -> None:
    with ManagementClient(world.guarded.url) as client:
        assert client.query("connection", ["identity"])


def denied(world: World) -> None:
    world.guarded.set(vhost({"remoteHosts": "192.0.2.1"}))
    assert "disallowed" in world.guarded.refused()
    world.guarded.group()


def encrypted(world: World) -> None:
    with socket.create_connection(("127.0.0.1", world.tls)) as plain_socket:
        with world.trust.wrap_socket(plain_socket, server_hostname="localhost") as secured:
            secured.sendall(frames.AMQP + frames.open_() + frames.close())
            drain(secured)
    with socket.create_connection(("127.0.0.1", world.tls)) as broken:
        broken.sendall(frames.AMQP)
        drain(broken)


def over_web_socket(world: World) -> None:
    web = WebSocket(world.web)
    web.sendall(frames.AMQP + frames.open_() + frames.close())
    web.close()


def nonsense(world: World) -> None:
    for sent in (b"", frames.AMQP, frames.AMQP + b"\0\0\0\1" * 4, b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", world.guarded.router.port)) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            drain(client)
    with socket.create_connection(("127.0.0.1", world.web)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        drain(client)


KINDS = (plain, password, wrong_password, killed, unsettled, managed, denied, encrypted, over_web_socket, nonsense)


@pytest.mark.parametrize("use", KINDS, ids=lambda use: str(use.__name__))
def test_connections_leave_nothing_for_the_collector(world: World, use: Callable[[World], None]) -> None:
    GARBAGE.hold()
    try:
        in_cycles(world)
        for _ in range(3):  # something may keep the last one for a while
            use(world)
            world.settle()
        assert in_cycles(world) == []
    finally:
        GARBAGE.let_go()
