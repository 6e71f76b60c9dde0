"""The services of the interior router at an edge router, in memory: their links end, and are attached again."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub
from tests.unit.core.interior_peer import Interior, attached, client, edge_hub, route, wait
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
