"""Heartbeats of an edge router, in memory, and an interior router that hangs."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub
from tests.unit.core.interior_peer import Interior, edge_hub, uplink_of, wait
from waymesh_router.core.edge.messages import HEARTBEAT_ADDRESS, decode_heartbeat


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def beat(hub: Hub, times: int) -> None:
    for _ in range(times):
        wait(hub, 2.1)


def test_heartbeats_while_there_is_credit(hub: Hub) -> None:
    interior = Interior(hub, credit=2)
    link = interior.link("sender", HEARTBEAT_ADDRESS)
    for seconds, count in ((0.9, 0), (0.2, 1), (1.8, 1), (0.3, 2), (2.1, 2)):
        wait(hub, seconds)
        assert len(link.bodies) == count
    interior.peer.send(frames.credit(2, link.handle, channel=link.channel, delivery_count=2))
    wait(hub, 2.1)
    assert [decode_heartbeat(body) for body in link.bodies] == [0, 1, 2]


def test_heartbeats_go_on_when_their_link_is_attached_again(hub: Hub) -> None:
    interior = Interior(hub)
    interior.peer.detach(interior.link("sender", HEARTBEAT_ADDRESS))
    wait(hub, 2.1)
    wait(hub, 1.1)
    assert len(interior.link("sender", HEARTBEAT_ADDRESS).bodies) == 1


def test_an_interior_router_that_hangs_is_left(hub: Hub) -> None:
    interior, other = Interior(hub, "A", credit=2), Interior(hub, "B")
    beat(hub, 4)
    assert interior.conn is uplink_of(hub).active
    beat(hub, 1)
    assert interior.conn.over
    assert uplink_of(hub).active is other.conn


def test_credit_may_come_late_while_other_frames_arrive(hub: Hub) -> None:
    interior = Interior(hub, credit=2)
    for _ in range(12):
        interior.peer.send(frames.EMPTY)
        beat(hub, 1)
    assert not interior.conn.over


def test_an_edge_router_that_itself_stood_still_asks_again(hub: Hub) -> None:
    interior = Interior(hub, credit=2)
    beat(hub, 3)
    wait(hub, 600)
    assert not interior.conn.over
