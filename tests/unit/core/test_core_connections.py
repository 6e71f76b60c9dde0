"""The connections of a router: numbered, opened, changed and lost."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import opened
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.performatives import Close, ErrorInfo
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.model import RouterConnection
from waymesh_router.core.telemetry_hooks import TelemetryHooks


class Telemetry(TelemetryHooks):
    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def connection_opened(self, connection: RouterConnection) -> None:
        self.told.append(("opened", connection.id))

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        self.told.append(("closed", connection.id))


@pytest.fixture
def hub() -> Hub:
    made = core_hub()
    core_of(made).context.telemetry = Telemetry()
    return made


def test_a_connection_is_there_from_its_transport_to_its_end(hub: Hub) -> None:
    core = core_of(hub)
    peer = hub.peer()
    assert core.connections == {1: peer.conn}
    peer.open()
    peer.send(frames.close())
    assert core.connections == {}
    assert isinstance(core.context.telemetry, Telemetry)
    assert core.context.telemetry.told == [("opened", 1), ("closed", 1)]
    assert hub.peer().conn.id == 2, "numbers are not used again"


def test_whoever_asks_may_change_or_end_a_connection_before_its_open_is_answered(hub: Hub) -> None:
    core = core_of(hub)

    def name(conn: RouterConnection) -> None:
        conn.settings.properties[Symbol("mine")] = 1

    core.connection_table.on_opened = name
    assert opened(hub.peer()).properties == {"mine": 1}
    core.connection_table.on_opened = lambda conn: conn.close("amqp:not-allowed", "go away")
    answers = hub.peer().send(frames.AMQP, frames.open_())
    (close,) = [a for a in answers if isinstance(a, Close)]
    assert close.error is not None
    assert close.error.condition == "amqp:not-allowed"
    assert isinstance(core.context.telemetry, Telemetry)
    assert ("opened", 2) not in core.context.telemetry.told


def test_a_connection_that_is_refused_at_its_open_ends_soon_without_an_answer(hub: Hub) -> None:
    core_of(hub).connection_table.on_opened = lambda conn: conn.close("amqp:not-allowed", "go away")
    peer = hub.peer()
    peer.send(frames.AMQP, frames.open_())
    hub.tick(peer.conn.settings.close_timeout_s / 2)
    assert not peer.conn.done, "it may answer the close"
    hub.tick(peer.conn.settings.close_timeout_s)
    assert peer.conn.done


def test_connections_are_numbered_from_1(hub: Hub) -> None:
    table = core_of(hub).connection_table
    conn = RouterConnection(ConnectionSettings("engine"), core_of(hub), 100.0)
    table.add(conn)
    assert table.by_id == {1: conn}
    assert table.next_id == 2
