"""The open that a connector sends: host name and idle time-out."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from waymesh_amqp.connection import Connection
from waymesh_router.events.event import Event
from waymesh_router.peers.peer import Peer
from waymesh_router.policy.hosts import Addresses
from waymesh_router.router import Router
from waymesh_schema.config import parse_json


class NullHost:
    """A host that does nothing."""

    def connect(self, attrs: Mapping[str, Any]) -> None:
        """Never connects."""

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """Ignores the attributes."""

    def offload(self, conn: Connection, work: Callable[[], bytes]) -> bool:
        """No thread is free."""
        return False

    def log(self, module: str, level: str, text: str, event: Event | None = None, /) -> None:
        """Ignores the line."""

    def recent_log(self, limit: int) -> list[Any]:
        """Always empty."""
        return []

    def numeric_addresses(self, names: Collection[str]) -> Addresses:
        """Finds no addresses."""
        return dict.fromkeys(names, ())

    def look_up(self, names: Collection[str], done: Callable[[Addresses], None]) -> None:
        """Never answers."""

    def certificates(self) -> dict[str, Any]:
        """Always empty."""
        return {}


@pytest.mark.parametrize(("extra", "expected"), [("", "broker-0"), (', "openHostname": "vhost"', "vhost")])
def test_a_connector_asks_for_its_host_or_for_the_name_it_is_given(extra: str, expected: str) -> None:
    text = '[["router", {"id": "a"}],\n["connector", {"name": "b", "host": "broker-0", "port": "1"' + extra + "}]]"
    router = Router(parse_json(text, "a.json"), NullHost(), 0.0, random.Random(1))  # type: ignore[arg-type]
    router.start()
    connection = router.connected("b", Peer("broker-0:1"))
    assert connection.settings.hostname == expected


@pytest.mark.parametrize(("role", "seconds", "expected"), [
    ("route-container", 1, 4.0), ("route-container", 0, 0.0), ("route-container", 16, 16.0), ("normal", 1, 1.0),
])  # fmt: skip
def test_brokers_are_not_asked_for_heartbeats_more_often_than_each_two_seconds(
    role: str, seconds: int, expected: float
) -> None:
    """The open has half of the idle time-out. Spec: 2.4.5."""
    extra = f', "role": "{role}", "idleTimeoutSeconds": {seconds}'
    text = '[["router", {"id": "a"}],\n["connector", {"name": "b", "host": "b", "port": "1"' + extra + "}]]"
    router = Router(parse_json(text, "a.json"), NullHost(), 0.0, random.Random(1))  # type: ignore[arg-type]
    router.start()
    assert router.connected("b", Peer("b:1")).settings.idle_timeout_s == expected
