"""The right to management of a client whose listener does not say: decided by who it is, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.pump import core_hub, core_of
from waymesh_amqp.performatives import Open
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import ConnectionState
from waymesh_amqp.types import Symbol
from waymesh_router.connections.transports import new_connection
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import NO_MANAGEMENT, READ_MANAGEMENT, UNDECIDED_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.core.model import RouterConnection
from waymesh_router.peers.peer import Peer


def opened(
    host: str, user: str | None = None, mechanism: str | None = None, *, properties: Any = None, **attributes: object
) -> RouterConnection:
    core: Core = core_of(core_hub())
    conn = new_connection(ConnectionSettings("R"), {"name": "clients", **attributes}, Peer(host), core)
    conn.user, conn.mechanism = user, mechanism
    if "management" not in attributes:
        assert conn.management == UNDECIDED_MANAGEMENT
    conn.state = ConnectionState.OPEN_RCVD
    core.on_open(conn, Open("client", properties=properties))
    return conn


@pytest.mark.parametrize("host", ["127.0.0.1:4711", "127.9.9.9:1", "::1:4711", "::ffff:127.0.0.1:4711"])
def test_a_client_of_this_machine_may_write(host: str) -> None:
    assert opened(host).management == WRITE_MANAGEMENT


@pytest.mark.parametrize("host", ["10.0.0.1:4711", "fe80::1%eth0:4711", "::ffff:10.0.0.1:4711", "localhost:1", ""])
@pytest.mark.parametrize(
    ("user", "mechanism"),
    [(None, None), ("anonymous", "ANONYMOUS"), ("ann", None), ("anonymous", "PLAIN")],  # last: authServicePlugin
)
def test_a_client_of_another_machine_without_a_proven_name_may_read(
    host: str, user: str | None, mechanism: str | None
) -> None:
    assert opened(host, user, mechanism).management == READ_MANAGEMENT


@pytest.mark.parametrize("mechanism", ["PLAIN", "EXTERNAL", "SCRAM-SHA-256"])
def test_an_authenticated_user_may_write(mechanism: str) -> None:
    assert opened("10.0.0.1:4711", "ann", mechanism).management == WRITE_MANAGEMENT


def test_what_the_listener_says_holds() -> None:
    assert opened("127.0.0.1:1", "ann", "PLAIN", management="none").management == NO_MANAGEMENT
    assert opened("127.0.0.1:1", "ann", "PLAIN", management="read").management == READ_MANAGEMENT
    assert opened("10.0.0.1:1", management="write").management == WRITE_MANAGEMENT


@pytest.mark.parametrize("role", ["edge", "route-container"])
@pytest.mark.parametrize(("mechanism", "creates"), [("EXTERNAL", True), (None, False)])
def test_edge_routers_and_containers_only_create_link_routes(role: str, mechanism: str | None, creates: bool) -> None:
    user = None if mechanism is None else "shop"
    conn = opened("10.0.0.1:1", user, mechanism, properties={Symbol("qd.annotations-version"): 1}, role=role)
    assert (conn.management, conn.creates_link_routes) == (READ_MANAGEMENT, creates)
    written = opened("10.0.0.1:1", user, mechanism, role=role, management="write")
    assert (written.management, written.creates_link_routes) == (WRITE_MANAGEMENT, False)
