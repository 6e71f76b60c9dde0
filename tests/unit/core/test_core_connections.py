"""Connections, links between routers, and links of the router itself: opened, numbered and lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container, mesh_frame, neighbour, opened
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Attach, Close, Detach, ErrorInfo, Flow, Terminus
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.attaching import COST_PROPERTY
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.hang_up import hang_up
from waymesh_router.core.kinds import CONTROL, DATA, PRIORITIES
from waymesh_router.core.links.mesh_links import MESH_FRAME_BYTES
from waymesh_router.core.model import RouterConnection
from waymesh_router.core.telemetry_hooks import TelemetryHooks


class ControlPlane(ControlPlaneHooks):
    def __init__(self) -> None:
        self.told: list[Any] = []

    def control_up(self, connection: RouterConnection) -> None:
        self.told.append(("up", connection.id))

    def control_lost(self, connection: RouterConnection) -> None:
        self.told.append(("lost", connection.id))

    def control_message(self, connection: RouterConnection, message: bytes) -> None:
        self.told.append((connection.id, message))


class Telemetry(TelemetryHooks):
    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def connection_opened(self, connection: RouterConnection) -> None:
        self.told.append(("opened", connection.id))

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        self.told.append(("closed", connection.id))


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    core_of(hub).context.control_plane = ControlPlane()
    core_of(hub).context.telemetry = Telemetry()
    return hub


def mesh(hub: Hub) -> list[Any]:
    plane = core_of(hub).context.control_plane
    assert isinstance(plane, ControlPlane)
    return plane.told


# ---- connections
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


def test_hanging_up_ends_the_transport_after_what_was_to_be_told(hub: Hub) -> None:
    receiver, sender = hub.peer().open().begin(), hub.peer().open().begin()
    receiver.send(frames.attach_receiver(), frames.credit(1))
    sender.send(frames.attach_sender(), frames.transfer(0))
    receiver.end.feed(frames.disposition(0))
    hang_up(sender.conn, "stopped")
    assert sender.conn.over
    sender.end.collect()
    found = sender.take()
    assert [type(f).__name__ for f in found] == ["Disposition"]
    assert sender.conn.id not in core_of(hub).connections


# ---- links of the router itself
def terms(name: str) -> Attach:
    return Attach(name, 0, role=False, source=Terminus("source"), target=Terminus("target", address="a"))


def test_links_are_numbered_and_forgotten(hub: Hub) -> None:
    core = core_of(hub)
    container = Container(hub)
    session = container.conn.open_session()
    links = [core.link_registry.open_link(session, terms(name)) for name in "ab"]
    hub.turn()
    assert [link.id for link in links] == [1, 2]
    assert core.links == {1: links[0], 2: links[1]}
    assert links[0].container
    links[0].detach()
    hub.turn()
    assert core.links == {2: links[1]}
    assert core.link_registry.next_id == 3


def test_a_link_that_the_peer_does_not_take_is_not_kept(hub: Hub) -> None:
    core = core_of(hub)
    container = Container(hub)
    session = container.conn.open_session()
    hub.turn()
    session.remote_handle_max = 0
    core.link_registry.open_link(session, terms("a"))
    with pytest.raises(AmqpError):
        core.link_registry.open_link(session, terms("b"))
    assert list(core.links) == [1]


def test_a_client_s_link_is_not_one_of_a_container(hub: Hub) -> None:
    hub.peer().open().begin().send(frames.attach_receiver())
    (link,) = core_of(hub).links.values()
    assert not link.container


# ---- links between routers
def test_the_control_plane_hears_when_both_control_links_are_there(hub: Hub) -> None:
    peer = hub.peer()
    peer.conn.role = "inter-router"
    peer.open(container_id="B").begin()
    peer.send(mesh_frame(0, CONTROL, True))
    assert mesh(hub) == []
    answers = peer.send(mesh_frame(1, CONTROL, False))
    assert any(isinstance(f, Flow) and f.link_credit for f in answers)
    assert mesh(hub) == [("up", peer.conn.id)]
    assert (peer.conn.control_out is None, peer.conn.control_in is None) == (False, False)


def test_data_links_get_their_priority_in_the_order_in_which_they_come(hub: Hub) -> None:
    peer = neighbour(hub, "B", data_links=PRIORITIES + 1)
    for links in (peer.conn.data_out, peer.conn.data_in):
        assert [link.priority for link in links] == [*range(PRIORITIES), PRIORITIES - 1]


@pytest.mark.parametrize("handle", [0, 1])
def test_a_lost_control_link_is_told_once(hub: Hub, handle: int) -> None:
    peer = neighbour(hub, "B")
    peer.send(frames.detach(handle))
    assert mesh(hub) == [("up", peer.conn.id), ("lost", peer.conn.id)]
    assert (peer.conn.control_in, peer.conn.control_out) == (None, None)


def test_a_lost_data_link_is_used_no_more(hub: Hub) -> None:
    peer = neighbour(hub, "B", data_links=3)
    peer.send(frames.detach(4), frames.detach(5))
    assert (len(peer.conn.data_out), len(peer.conn.data_in)) == (2, 2)
    assert mesh(hub) == [("up", peer.conn.id)]


def test_a_lost_connection_is_told(hub: Hub) -> None:
    peer = neighbour(hub, "B")
    peer.kill()
    assert mesh(hub) == [("up", peer.conn.id), ("lost", peer.conn.id)]


def test_control_messages_reach_the_control_plane(hub: Hub) -> None:
    peer = neighbour(hub, "B")
    peer.send(frames.transfer(0, frames.message(b"HELLO"), handle=1, settled=True))
    ((number, message),) = mesh(hub)[1:]
    assert number == peer.conn.id
    assert message.endswith(frames.message(b"HELLO"))


@pytest.mark.parametrize(("theirs", "agreed"), [(None, 3), (9, 9), (1, 3)])
def test_the_higher_cost_counts(hub: Hub, theirs: int | None, agreed: int) -> None:
    peer = hub.peer()
    peer.conn.role, peer.conn.cost = "inter-router", 3
    peer.open(container_id="B", properties=None if theirs is None else {Symbol(COST_PROPERTY): theirs})
    assert peer.conn.cost == agreed
    assert peer.conn.peer_max == MESH_FRAME_BYTES


def test_the_side_that_connects_attaches_all_links(hub: Hub) -> None:
    peer = hub.peer(ConnectionSettings("R", client=True))
    peer.conn.role = "inter-router"
    answers = peer.send(frames.AMQP, frames.open_(container_id="B"))
    attaches = [a for a in answers if isinstance(a, Attach)]
    assert len(attaches) == 2 * (1 + PRIORITIES)
    assert len({a.name for a in attaches}) == len(attaches)
    assert [a.role for a in attaches].count(True) == 1 + PRIORITIES


@pytest.mark.parametrize(
    ("role", "frame"),
    [
        ("normal", mesh_frame(0, DATA, True)),
        ("normal", mesh_frame(0, CONTROL, True)),
        ("inter-router", frames.attach_receiver()),
    ],
)
def test_links_of_the_other_kind_of_connection_are_refused(hub: Hub, role: str, frame: bytes) -> None:
    peer = hub.peer()
    peer.conn.role = role
    peer.open(container_id="B").begin()
    (detach,) = [d for d in peer.send(frame) if isinstance(d, Detach)]
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-allowed"
