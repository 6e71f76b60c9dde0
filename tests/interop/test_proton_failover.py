"""Alternatives named in the open: routers tell them to clients, and follow those that peers tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.types import Symbol
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.failover import server_list, targets_of

StartRouter = Callable[..., RouterProcess]


def test_clients_are_told(start_router: StartRouter) -> None:
    port = free_port()
    urls = "amqps://one.example:5671, two.example"
    router = start_router("A", section("listener", name="l", host="127.0.0.1", port=port, failoverUrls=urls))
    wait_until(lambda: "started, mode" in router.log)
    with Client(f"amqp://127.0.0.1:{port}") as client:
        told = client.call(lambda: client.connection.remote_properties)["failover-server-list"]
    assert [{str(key): str(value) for key, value in entry.items()} for entry in told] == [
        {"network-host": "one.example", "port": "5671", "scheme": "amqps"},
        {"network-host": "two.example", "port": "5672"},
    ]
    with ManagementClient(router.url) as manager:
        with pytest.raises(ManagementError, match="failoverUrls: http://x: expected") as raised:
            manager.create("listener", {"name": "bad", "port": "0", "failoverUrls": "http://x"})
        assert raised.value.status == 400


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

            def peer() -> list[str]:
                rows = manager.query("connection", ["container", "dir", "opened"])
                return [row["container"] for row in rows if row["dir"] == "out" and row["opened"]]

            wait_until(lambda: peer() == ["main"])
            main.kill()
            wait_until(lambda: peer() == ["other"])
    finally:
        main.stop()
        other.stop()


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
            {Symbol("failover-server-list"): server_list("amqp://a, amqps://b:7,c")},
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
