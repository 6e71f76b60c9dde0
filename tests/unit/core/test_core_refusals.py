"""Refused connections, links and requests: told to telemetry, counted, and logged."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.errors import NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.core import Core
from waymesh_router.core.model import RouterConnection, RouterLink
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.events.event import Event
from waymesh_schema.events import LogEvent


class Telemetry(TelemetryHooks):
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        self.events.append((name, about))


@pytest.fixture
def core() -> Core:
    handler = core_hub().handler
    assert isinstance(handler, Core)
    return handler


@pytest.fixture
def conn(core: Core) -> RouterConnection:
    conn = RouterConnection(ConnectionSettings("engine"), core, 100.0)
    core.connection_table.add(conn)
    return conn


def test_only_denials_of_policy_are_counted(core: Core, conn: RouterConnection) -> None:
    core.context.telemetry = Telemetry()
    core.refusals.report("link", "a", NOT_FOUND, "", conn)
    core.refusals.report("link", "b", UNAUTHORIZED_ACCESS, "", conn)
    core.refusals.report("connection", "c", UNAUTHORIZED_ACCESS, "", conn)
    core.refusals.report("management", "UPDATE", UNAUTHORIZED_ACCESS, "", conn)
    assert core.context.telemetry.events == [
        ("link.refused", "a"),
        ("policy.denied", "b"),
        ("policy.denied", "c"),
        ("policy.denied", "UPDATE"),
    ]
    assert core.denied == {"connection": 1, "link": 1, "management": 1}


@pytest.mark.parametrize(
    ("refusal", "event", "denied"),
    [
        (Refusal(UNAUTHORIZED_ACCESS, "no"), LogEvent.POLICY_DENIED, 1),
        (Refusal(RESOURCE_LIMIT_EXCEEDED, "too many"), LogEvent.POLICY_DENIED, 1),
        (Refusal(NOT_FOUND, "nobody"), LogEvent.LINK_REFUSED, 0),
    ],
)
def test_a_refused_link_is_logged_with_its_reason(refusal: Refusal, event: LogEvent, denied: int) -> None:
    hub, lines = logged()
    core_of(hub).refusals.link(link_of(hub), refusal)
    ((text, found),) = lines
    assert text == f"[C1] Link refused: name=mine: {refusal.condition}: {refusal.description}"
    assert found is not None
    assert found.kind == event
    assert core_of(hub).denied["link"] == denied


def test_a_refusal_that_policy_has_logged_is_counted_only() -> None:
    hub, lines = logged()
    refusal = Refusal(UNAUTHORIZED_ACCESS, "no")
    refusal.logged = True
    core_of(hub).refusals.link(link_of(hub), refusal)
    assert lines == []
    assert core_of(hub).denied["link"] == 1


def logged() -> tuple[Hub, list[tuple[str, Event | None]]]:
    """A router with a client's link, and the lines of its log since then."""
    lines: list[tuple[str, Event | None]] = []

    def log(module: str, level: str, text: str, event: Event | None = None, /) -> None:
        lines.append((text, event))

    hub = core_hub()
    hub.peer().open().begin().send(frames.attach_receiver("mine"))
    core_of(hub).context.log = log
    return hub, lines


def link_of(hub: Hub) -> RouterLink:
    (link,) = core_of(hub).links.values()
    return link
