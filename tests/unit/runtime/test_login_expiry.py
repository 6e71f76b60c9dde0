"""Connections end when their token or certificate expires, and the expiry of certificates is logged."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.certificates.expiry import ExpiryWarnings, next_time
from waymesh_router.certificates.own import POLL_S, OwnCertificates
from waymesh_router.clients.login_expiry import LoginExpiry
from waymesh_router.connections.connector_state import ConnectorState
from waymesh_router.events.event import Event
from waymesh_router.peers.certificate import DAY_S, PeerCertificate, Validity

pytestmark = pytest.mark.engine_independent

DOOR: dict[str, Any] = {"role": "inter-router", "recheckPeers": True}
YEAR = Validity(0.0, 365 * DAY_S)


class Connection:
    """Records how it was closed."""

    def __init__(self, expires_at: float, origin: str, certificate: PeerCertificate | None) -> None:
        self.id, self.user, self.role, self.origin = 7, "CN=south", "inter-router", origin
        self.remote, self.settings = SimpleNamespace(container_id="south-0"), SimpleNamespace(client=False)
        self.peer = SimpleNamespace(host="10.0.0.7:40312", certificate=certificate)
        self.expires_at = expires_at
        self.closed: list[tuple[str, str]] = []

    def close(self, condition: str, description: str) -> None:
        self.closed.append((condition, description))


class World:
    """The clock, which the test sets, and the logged events."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tokens = SimpleNamespace(now=lambda: self.now)
        self.told: list[tuple[str, Event]] = []
        self.profiles: dict[str, Validity] = {}

    def log(self, module: str, level: str, text: str, event: Event) -> None:
        assert (module, level) == ("SERVER", "warning")
        self.told.append((text, event))

    def certificates(self) -> dict[str, Validity]:
        return self.profiles


class Expiry:
    """A `LoginExpiry` with the listeners `door`, with recheckPeers, and `amqp`, without."""

    def __init__(self) -> None:
        self.world = World()
        self.listeners: dict[str, Any] = {"door": DOOR, "amqp": {"role": "normal", "recheckPeers": False}}
        self.expiry = LoginExpiry(cast(Any, self.world), self.listeners)

    def opened(
        self, expires_at: float = math.inf, origin: str = "amqp", validity: Validity | None = None, number: str = "5F"
    ) -> Connection:
        certificate = PeerCertificate("CN=south", number, validity) if validity else None
        connection = Connection(expires_at, origin, certificate)
        self.expiry.opened(cast(Any, connection))
        return connection

    def tick(self, now: float) -> None:
        self.world.now = now
        self.expiry.tick(0.0)


def test_closed_once_at_the_expiry() -> None:
    expiry = Expiry()
    early, late, never = expiry.opened(110.0), expiry.opened(120.0), expiry.opened(math.inf)
    expiry.tick(109.9)
    assert not early.closed
    expiry.tick(110.0)
    expiry.tick(111.0)
    assert early.closed == [(UNAUTHORIZED_ACCESS, "token expired")]
    expiry.tick(1e12)
    assert len(late.closed) == 1
    assert not never.closed


def test_not_closed_after_its_end() -> None:
    expiry = Expiry()
    connection = expiry.opened(110.0)
    expiry.expiry.connection_closed(cast(Any, connection))
    expiry.tick(200.0)
    assert not connection.closed


def test_expired_before_it_opened() -> None:
    expiry = Expiry()
    connection = expiry.opened(99.0)
    expiry.tick(100.0)
    assert connection.closed


def test_a_certificate_ends_a_connection_only_where_peers_are_checked_again() -> None:
    expiry = Expiry()
    at_door = expiry.opened(origin="door", validity=Validity(0.0, 110.0))
    client = expiry.opened(origin="amqp", validity=Validity(0.0, 110.0))
    both = expiry.opened(105.0, origin="door", validity=Validity(0.0, 110.0))
    expiry.tick(105.0)
    assert (at_door.closed, both.closed) == ([], [(UNAUTHORIZED_ACCESS, "token expired")])
    expiry.tick(110.0)
    expiry.tick(120.0)
    told = "the certificate of the peer expired at 1970-01-01T00:01:50Z"
    assert at_door.closed == [(UNAUTHORIZED_ACCESS, told)]
    assert not client.closed


def test_the_listener_as_it_is_now_decides_and_a_deleted_one_as_it_was() -> None:
    expiry = Expiry()
    validity = Validity(0.0, 110.0)
    client, deleted = expiry.opened(origin="amqp", validity=validity), expiry.opened(origin="door", validity=validity)
    del expiry.listeners["door"]
    expiry.tick(109.0)
    expiry.listeners["amqp"] = {"role": "normal", "recheckPeers": True}
    expiry.expiry.listener_changed()
    expiry.tick(110.0)
    assert client.closed
    assert deleted.closed


def test_the_end_is_told_a_week_and_a_day_before_once_for_each_certificate() -> None:
    expiry = Expiry()
    end = YEAR.end
    expiry.opened(origin="door", validity=YEAR)
    expiry.opened(origin="door", validity=YEAR)
    expiry.opened(origin="amqp", validity=YEAR, number="60")
    times: list[float] = []
    for now in (0.0, end - 7 * DAY_S - 1, end - 7 * DAY_S, end - 3 * DAY_S, end - DAY_S, end - 10, end):
        expiry.tick(now)
        times += [now] * (len(expiry.world.told) - len(times))
    assert times == [end - 7 * DAY_S, end - DAY_S]
    text, event = expiry.world.told[0]
    assert text == "[C7] the certificate of the peer expires at 1971-01-01T00:00:00Z: CN=south"
    assert event.fields == {
        "event": "certificate.expires", "user": "CN=south", "router": "south-0", "host": "10.0.0.7:40312",
        "listener": "door", "connection": 7, "certificate": "CN=south", "number": "5F", "ends": "1971-01-01T00:00:00Z",
    }  # fmt: skip


def test_what_is_seen_late_is_told_once_and_a_certificate_that_lives_shortly_in_its_last_fifth() -> None:
    warnings = ExpiryWarnings()
    assert warnings.due("late", YEAR, YEAR.end - 60)
    assert not warnings.due("late", YEAR, YEAR.end - 50)
    daily = Validity(0.0, DAY_S)
    assert daily.warning_times() == [DAY_S * 0.8]
    assert not warnings.due("daily", daily, DAY_S * 0.7)
    assert warnings.due("daily", daily, DAY_S * 0.9)
    assert warnings.due("daily", Validity(1.0, DAY_S + 1), DAY_S * 0.9), "another certificate in the same file"
    assert not warnings.due("gone", daily, DAY_S)
    assert next_time(daily, 0.0) == DAY_S * 0.8
    assert next_time(daily, DAY_S * 0.8) == DAY_S
    assert next_time(daily, DAY_S) == math.inf


def test_the_ends_of_own_certificates_are_told_of_connectors_to_other_routers() -> None:
    world = World()
    world.profiles = {"token": YEAR, "broker": YEAR}
    connectors = {
        "north": ConnectorState({"role": "inter-router", "sslProfile": "token"}),
        "again": ConnectorState({"role": "edge", "sslProfile": "token"}),
        "broker": ConnectorState({"role": "route-container", "sslProfile": "broker"}),
        "plain": ConnectorState({"role": "inter-router"}),
    }
    own = OwnCertificates(cast(Any, world), connectors)
    for turn, now in enumerate((0.0, YEAR.end - 2 * DAY_S, YEAR.end - 60)):
        world.now = now
        own.tick(turn * POLL_S)
        own.tick(turn * POLL_S + 1)
    assert [event.fields for _, event in world.told] == [
        {"event": "certificate.expires", "connector": "north", "sslProfile": "token", "ends": "1971-01-01T00:00:00Z"}
    ] * 2
    world.profiles = {"token": Validity(YEAR.end, 2 * YEAR.end)}
    own.tick(10 * POLL_S)
    assert len(world.told) == 2, "a renewed one is told when it ends"
