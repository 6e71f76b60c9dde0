"""Failover lists in the open: routers announce them to clients, and follow those of their peers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit import frames
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import ErrorInfo, SaslMechanisms, SaslOutcome, encode_frame
from waymesh_amqp.types import Symbol
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.peers.failover import server_list, targets_of

StartRouter = Callable[..., RouterProcess]


def test_clients_are_told(start_router: StartRouter) -> None:
    port = free_port()
    urls = "amqps://one.example:5671, two.example"
    router = start_router("A", section("listener", name="l", host="127.0.0.1", port=port, failoverUrls=urls))
    wait_until(lambda: "started, mode" in router.log)
    with Client(f"amqp://127.0.0.1:{port}") as client:
        listed = told(client)
    assert listed == [
        {"network-host": "one.example", "port": "5671", "scheme": "amqps"},
        {"network-host": "two.example", "port": "5672"},
    ]
    with ManagementClient(router.url) as manager:
        with pytest.raises(ManagementError, match="failoverUrls: http://x: expected") as raised:
            manager.create("listener", {"name": "bad", "port": "0", "failoverUrls": "http://x"})
        assert raised.value.status == 400


def test_another_list_is_for_the_connections_that_come_then(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router("A", section("listener", name="l", host="127.0.0.1", port=port))
    wait_until(lambda: "started, mode" in router.log)
    with ManagementClient(router.url) as manager, Client(f"amqp://127.0.0.1:{port}") as before:
        assert told(before) is None
        manager.update({"failoverUrls": "wss://one.example, ws://[::1]:8080"}, "listener", name="l")
        with Client(f"amqp://127.0.0.1:{port}") as client:
            assert told(client) == [
                {"network-host": "one.example", "port": "443", "scheme": "wss"},
                {"network-host": "::1", "port": "8080", "scheme": "ws"},
            ]
        for bad in ("http://x", "amqp://", "amqp://user:secret@h"):
            with pytest.raises(ManagementError, match="failoverUrls") as raised:
                manager.update({"failoverUrls": bad}, "listener", name="l")
            assert raised.value.status == 400
        assert manager.read("listener", name="l")["failoverUrls"] == "wss://one.example, ws://[::1]:8080"
        manager.update({"failoverUrls": None}, "listener", name="l")
        with Client(f"amqp://127.0.0.1:{port}") as client:
            assert told(client) is None
        assert not before.ended.is_set()


def told(client: Client) -> list[dict[str, str]] | None:
    """The list in the router's open."""
    listed = client.call(lambda: client.connection.remote_properties).get("failover-server-list")
    return listed and [{str(key): str(value) for key, value in entry.items()} for entry in listed]


def test_a_connector_goes_where_its_peer_said(start_router: StartRouter, tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    urls = f"amqp://127.0.0.1:{second}"
    text = section("listener", name="l", host="127.0.0.1", port=first, failoverUrls=urls)
    main = RouterProcess(tmp_path, "main", section("router", id="main") + text, [first]).start()
    other = RouterProcess(
        tmp_path, "other", section("router", id="other") + section("listener", host="127.0.0.1", port=second), [second]
    ).start()
    router = start_router("A", section("connector", name="c", host="127.0.0.1", port=first))
    try:
        with ManagementClient(router.url) as manager:
            wait_until(lambda: peers(manager) == ["main"])
            main.kill()
            wait_until(lambda: peers(manager) == ["other"])
    finally:
        main.stop()
        other.stop()


def test_a_replica_that_opens_and_closes_is_left_for_the_next(start_router: StartRouter, tmp_path: Path) -> None:
    """A broker that is not the active one of several may say so behind its open: amqp:connection:forced."""
    port = free_port()
    other = RouterProcess(
        tmp_path, "other", section("router", id="other") + section("listener", host="127.0.0.1", port=port), [port]
    ).start()
    with replica() as (first, tries):
        urls = f"amqp://127.0.0.1:{port}"
        given = {"host": "127.0.0.1", "port": first, "failoverUrls": urls}
        connector = section("connector", name="c", role="route-container", **given)
        router = start_router("A", connector)
        try:
            with ManagementClient(router.url) as manager:
                wait_until(lambda: "other" in peers(manager))
            wait_until(lambda: tries)
        finally:
            other.stop()


def peers(manager: ManagementClient) -> list[str]:
    """Containers to which the router has connected."""
    rows = manager.query("connection", ["container", "dir", "opened"])
    return [row["container"] for row in rows if row["dir"] == "out" and row["opened"]]


@contextlib.contextmanager
def replica() -> Iterator[tuple[int, list[int]]]:
    """Its port, and an entry for each connection that it has opened and closed."""
    tries: list[int] = []
    answers = (
        frames.SASL + encode_frame(0, SaslMechanisms(["ANONYMOUS"])),
        encode_frame(0, SaslOutcome(0)),
        frames.AMQP + frames.open_(container_id="replica") + frames.close(error=ErrorInfo("amqp:connection:forced")),
    )

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                for answer in answers:
                    peer.recv(4096)
                    peer.sendall(answer)
                tries.append(1)
                while peer.recv(4096):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], tries
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("properties", "targets"),
    [
        (None, []),
        ({}, []),
        ({"failover-server-list": "x"}, []),
        ({"failover-server-list": [1, {}, {"network-host": 3}, {"network-host": ""}]}, []),
        ({"failover-server-list": [{"network-host": "h", "port": p} for p in ("x", "0", 65536, -1, "amqp:")]}, []),
        (
            {"failover-server-list": [{"network-host": "h", "port": p} for p in (1, "65535", "amqps")]},
            [("h", 1), ("h", 65535), ("h", 5671)],
        ),
        (
            {Symbol("failover-server-list"): server_list("amqp://a, amqps://b:7,wss://d,c")},
            [("a", 5672), ("b", 7), ("c", 5672)],
        ),
    ],
)
def test_what_peers_say(properties: object, targets: list[tuple[str, int]]) -> None:
    assert targets_of(properties) == targets


@pytest.mark.parametrize("urls", ["http://x", "amqp://", "amqp://h:99999", "amqp://h:p"])
def test_bad_urls(urls: str) -> None:
    with pytest.raises(ValueError):
        server_list(urls)
