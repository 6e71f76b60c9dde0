"""The edge's side of edge mode, in memory: links of the uplink that end, and an interior router that hangs."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub
from tests.unit.core.interior_peer import Interior, attached, client, edge_hub, uplink_of, wait
from tests.unit.core.test_core_uplink_services import route
from waymesh_router.core.edge.messages import HEARTBEAT_ADDRESS, LOOKUP_ADDRESS, NOT_FOUND


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


@pytest.mark.parametrize("which", ["requests", "replies"])
def test_lookups_go_on_when_their_link_is_attached_again(hub: Hub, which: str) -> None:
    interior = Interior(hub, link_routes=True)
    made = [link for link in interior.peer.active() if link.address == "made"][1]
    interior.peer.detach(interior.link("sender", LOOKUP_ADDRESS) if which == "requests" else made)
    assert attached(client(hub, frames.attach_receiver(address="lr.a"))[1])
    wait(hub, 10.1)
    consumer, answers = client(hub, frames.attach_receiver(address="lr.b"))
    assert not attached(answers)
    request = interior.lookups()[-1]
    assert request.address == "lr.b"
    interior.answer(request, NOT_FOUND, False, False)
    assert attached(consumer.take())


def test_link_routes_of_the_time_without_management_are_made_then(hub: Hub) -> None:
    interior = Interior(hub)
    interior.peer.detach(interior.link("sender", "$management"))
    route(hub)
    wait(hub, 9.9)
    assert ("sender", "$management") not in interior.links()
    wait(hub, 0.2)
    (create,) = interior.requests()
    assert create.application_properties is not None
    assert create.application_properties["operation"] == "CREATE"


def test_links_for_services_get_a_new_session_if_theirs_has_ended(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    interior.peer.end(interior.link("sender", LOOKUP_ADDRESS).channel)
    assert ("sender", LOOKUP_ADDRESS) not in interior.links()
    wait(hub, 10.1)
    for address in ("$management", LOOKUP_ADDRESS, HEARTBEAT_ADDRESS):
        assert ("sender", address) in interior.links()


def test_heartbeats_go_on_when_their_link_is_attached_again(hub: Hub) -> None:
    interior = Interior(hub)
    interior.peer.detach(interior.link("sender", HEARTBEAT_ADDRESS))
    wait(hub, 2.1)
    wait(hub, 1.1)
    assert len(interior.link("sender", HEARTBEAT_ADDRESS).bodies) == 1


def beat(hub: Hub, times: int) -> None:
    for _ in range(times):
        wait(hub, 2.1)


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
