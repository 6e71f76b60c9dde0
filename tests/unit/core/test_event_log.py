"""Which events the lines of connections tell, and of whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.pump import core_hub, core_of
from waymesh_amqp.errors import NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS
from waymesh_amqp.performatives import ErrorInfo, Open
from waymesh_amqp.sasl import SaslServer, UserFile, make_line
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.link_health import BLOCKED_S, Delays, LinkHealth
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.events.event import Event
from waymesh_router.log.event_log import EventLog
from waymesh_router.log.link_ends import LINES
from waymesh_router.peers.peer import Peer

USERS = UserFile.parse(make_line("alice", "right", "plain"))
FAILED = ErrorInfo(UNAUTHORIZED_ACCESS, "SASL PLAIN authentication failed")


class Records(TelemetryHooks):
    """Keeps the other events."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str, str, Mapping[str, str]]] = []
        self.detached: list[int] = []

    def link_detached(self, link: RouterLink) -> None:
        self.detached.append(link.id)

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        self.kept.append((name, severity, about, detail))


class Told:
    """An event log, and the events of its lines."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []
        self.core = core_of(core_hub())
        self.health = LinkHealth(self.core)
        self.records = Records()
        self.log = EventLog(self._write, self.health, self.records)
        self.handler: Any = self.core

    def _write(self, module: str, level: str, text: str, event: Event | None = None, /) -> None:
        assert event is not None
        self.events.append(event)
        self.lines.append(text)

    def connection(self, client: bool = False, opens: bool = True, user: str = "", by: str = "") -> RouterConnection:
        settings = ConnectionSettings("A", client=client)
        settings.sasl = None if client else SaslServer(["PLAIN", "ANONYMOUS"], USERS)
        conn = RouterConnection(settings, self.handler, 0.0)
        conn.id, conn.origin, conn.peer = 7, "people", Peer("10.0.0.7:5")
        conn.user, conn.mechanism, conn.expires_at = user or None, by or None, math.inf
        conn.remote = Open(container_id="theirs", hostname="host") if opens else None
        return conn

    @property
    def kinds(self) -> list[str]:
        return [event.kind.value for event in self.events]


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_connection_from_its_login_to_its_end(told: Told) -> None:
    conn = told.connection(user="alice", by="PLAIN")
    told.log.connection_opened(conn)
    told.log.connection_closed(conn, None)
    assert told.kinds == ["authentication.succeeded", "connection.opened", "connection.closed"]
    who = {"user": "alice", "host": "10.0.0.7:5", "listener": "people"}
    assert [event.who for event in told.events] == [who] * 3
    assert told.events[1].detail["container"] == "theirs"


def test_anonymous_is_no_login(told: Told) -> None:
    told.log.connection_opened(told.connection(user="anonymous", by="ANONYMOUS"))
    assert told.kinds == ["connection.opened"]


def test_a_login_is_told_even_if_no_open_follows(told: Told) -> None:
    conn = told.connection(opens=False, user="alice", by="PLAIN")
    told.log.connection_closed(conn, ErrorInfo(RESOURCE_LIMIT_EXCEEDED, "too slow"))
    assert told.kinds == ["authentication.succeeded", "connection.refused"]


@pytest.mark.parametrize(
    ("name", "shown"), [("alice", {"user": "alice"}), ("a password in the wrong place", {}), ("", {})]
)
def test_a_failed_login_names_only_users_that_exist(told: Told, name: str, shown: dict[str, str]) -> None:
    conn = told.connection(opens=False)
    conn.settings.sasl.init("PLAIN", f"\0{name}\0wrong".encode())  # type: ignore[union-attr]
    told.log.connection_closed(conn, FAILED)
    (event,) = told.events
    assert (event.kind, event.host) == ("authentication.failed", "10.0.0.7")
    assert event.who == {**shown, "host": "10.0.0.7:5", "listener": "people"}


def test_an_error_means_something_else_before_the_open_was_accepted(told: Told) -> None:
    error = ErrorInfo(NOT_ALLOWED, "by policy")
    denied, admitted = told.connection(), told.connection()
    told.log.connection_closed(denied, error)
    assert told.kinds == ["connection.refused"]
    told.log.connection_opened(admitted)
    told.log.connection_closed(admitted, error)
    assert told.kinds[1:] == ["connection.opened", "connection.error", "connection.closed"]


def test_a_connector_that_is_refused_is_no_client(told: Told) -> None:
    told.log.connection_closed(told.connection(client=True, opens=False), FAILED)
    assert told.kinds == ["connection.error"]
    assert told.events[0].who == {"host": "10.0.0.7:5", "connector": "people"}


def consumer(told: Told) -> RouterLink:
    """The link of a consumer whose connection is open."""
    conn = told.connection(user="alice")
    link = RouterLink(Session(conn, 0, 10))
    link.id, link.name, link.is_sender = 12, "in", True
    link.address = Address("M0orders", BALANCED)
    return link


def test_the_line_of_a_lost_link_has_its_delays(told: Told) -> None:
    link = consumer(told)
    told.log.link_attached(link)
    link.zero_credit_since = 1.0
    told.core.now = 1.0 + BLOCKED_S
    told.health._links[link.id] = delays = Delays()
    delays.settled(2.0)
    delays.settled(20.0)
    delays.settled(30.0)
    link.connection.over = True
    told.log.link_detached(link)
    assert told.lines[-1].endswith("mod=0 delay1=1 delay10=2 blocked=no")
    told.log.link_attached(link)
    told.core.now += 0.1
    told.log.link_detached(link)
    assert told.events[-1].detail["blocked"] == "yes"


def consumers(told: Told, count: int) -> list[RouterLink]:
    """Links of one connection that are attached, each with an accepted delivery."""
    first = consumer(told)
    links = [first]
    for number in range(1, count):
        link = RouterLink(first.session)
        link.id, link.name, link.is_sender = first.id + number, f"in-{number}", True
        links.append(link)
    for link in links:
        link.delivery_count = link.accepted = 1
        told.log.link_attached(link)
    return links


@pytest.mark.parametrize("count", [1, LINES, LINES + 1, LINES + 1_000])
def test_many_links_of_a_lost_connection_have_one_line_together(told: Told, count: int) -> None:
    links = consumers(told, count)
    conn = links[0].connection
    told.lines.clear()
    told.events.clear()
    conn.over = True
    for link in links:
        told.log.link_detached(link)
    alone = min(count, LINES)
    assert told.lines[:alone] == [
        f"[C7][L{link.id}] Link lost: del=1 presett=0 psdrop=0 acc=1 rej=0 rel=0 mod=0 delay1=0 delay10=0 blocked=no"
        for link in links[:alone]
    ]
    more = count - alone
    summed = f"del={more} presett=0 psdrop=0 acc={more} rej=0 rel=0 mod=0 delay1=0 delay10=0 blocked=no"
    assert told.lines[alone:] == ([f"[C7] Link lost: {more} more links: {summed}"] if more else [])
    assert set(told.kinds) == {"link.lost"}
    if more:
        detail = told.events[-1].detail
        assert (detail["connection"], detail["links"], detail["acc"]) == (7, more, more)
        assert not {"link", "link_id"} & detail.keys()
    assert told.records.detached == [link.id for link in links], "records are not summed"


def test_links_that_end_after_their_connection_have_a_second_sum(told: Told) -> None:
    links = consumers(told, LINES + 30)
    conn = links[0].connection
    told.log.connection_opened(conn)
    conn.over = True
    links[LINES].zero_credit_since = 1.0
    told.core.now = 2.0 + BLOCKED_S
    for link in links[: LINES + 10]:
        told.log.link_detached(link)
    told.lines.clear()
    told.log.connection_closed(conn, None)
    assert [line.partition(": del")[0] for line in told.lines] == [
        "[C7] Link lost: 10 more links", "[C7] Connection Closed"
    ]  # fmt: skip
    assert told.lines[0].endswith("blocked=yes")
    for link in links[LINES + 10 :]:
        told.log.link_detached(link)
    assert told.lines[2].startswith("[C7] Link lost: 20 more links: del=20 ")
    assert told.lines[2].endswith("blocked=no")
    assert len(told.lines) == 3


def test_links_that_are_detached_have_a_line_each_however_many(told: Told) -> None:
    links = consumers(told, 2 * LINES)
    told.lines.clear()
    for link in links:
        told.log.link_detached(link)
        told.log.link_detached(link)  # as of a link that is not attached: no line
    assert len(told.lines) == len(links)
    assert all("Link detached: del=1 " in line for line in told.lines)


def test_compat_40_a_link_on_which_nothing_goes_on(told: Told) -> None:
    link = consumer(told)
    told.log.deliveries_stuck(link, 3, 12.4)
    told.log.link_blocked(link, 5, 60.2)
    assert told.kinds == ["delivery.stuck", "link.blocked"]
    assert told.lines == [
        "[C7][L12] Stuck delivery: At least one delivery on this link has been undelivered/unsettled for more than 10 "
        "seconds: 3 deliveries are unsettled, the oldest for 12 s: name=in address=M0orders",
        "[C7][L12] Link blocked with zero credit for 60 seconds: 5 deliveries wait for a link that takes none: name=in "
        "address=M0orders",
    ]
    name, severity, about, detail = told.records.kept[0]
    assert (name, severity, about) == ("delivery.stuck", "warning", "in")
    assert detail == {
        "user": "alice", "host": "10.0.0.7:5", "listener": "people", "connection": "7", "link_id": "12", "link": "in",
        "address": "M0orders", "deliveries": "3", "seconds": "12",
    }  # fmt: skip
