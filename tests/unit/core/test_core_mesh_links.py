"""Links between two routers: control and data links attached, used and lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import mesh_frame, neighbour
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.performatives import Attach, Detach, Flow
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.attaching import COST_PROPERTY
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.link_kinds import CONTROL, DATA, PRIORITIES
from waymesh_router.core.links.mesh_links import MESH_FRAME_BYTES
from waymesh_router.core.model import RouterConnection


class ControlPlane(ControlPlaneHooks):
    def __init__(self) -> None:
        self.told: list[Any] = []

    def control_up(self, connection: RouterConnection) -> None:
        self.told.append(("up", connection.id))

    def control_lost(self, connection: RouterConnection) -> None:
        self.told.append(("lost", connection.id))

    def control_message(self, connection: RouterConnection, message: bytes) -> None:
        self.told.append((connection.id, message))


@pytest.fixture
def hub() -> Hub:
    made = core_hub()
    core_of(made).context.control_plane = ControlPlane()
    return made


def mesh(hub: Hub) -> list[Any]:
    plane = core_of(hub).context.control_plane
    assert isinstance(plane, ControlPlane)
    return plane.told


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
    """Further ones are for the messages of single senders."""
    peer = neighbour(hub, "B", data_links=PRIORITIES + 1)
    for links in (peer.conn.data_out, peer.conn.data_in):
        assert [link.priority for link in links] == [*range(PRIORITIES)]


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
