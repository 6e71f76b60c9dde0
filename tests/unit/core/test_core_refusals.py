"""Refused connections, links and requests: told to telemetry, counted, and logged."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.kit.pump import core_hub
from waymesh_amqp.errors import NOT_FOUND, UNAUTHORIZED_ACCESS
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.core import Core
from waymesh_router.core.model import RouterConnection
from waymesh_router.core.telemetry_hooks import TelemetryHooks


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
