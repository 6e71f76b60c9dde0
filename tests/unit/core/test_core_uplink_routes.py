"""Link routes of an edge router's containers, in memory: what the interior router is told of them."""

from __future__ import annotations

import pytest

from tests.kit.pump import Hub
from tests.unit.core.interior_peer import Interior, edge_hub, route, uplink_of, wait


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


@pytest.mark.parametrize(("direction", "key"), [("in", "Clr"), ("out", "Dlr")])
def test_a_link_route_exists_beyond_while_it_has_a_container(hub: Hub, direction: str, key: str) -> None:
    interior = Interior(hub)
    broker = route(hub, direction)
    (create,) = interior.requests()
    name = f"E/proxyLinkRoute/{key}"
    assert create.application_properties is not None
    assert create.application_properties["operation"] == "CREATE"
    kind = "org.apache.qpid.dispatch.router.connection.linkRoute"
    assert create.body == {"type": kind, "name": name, "pattern": "lr/#", "direction": direction}
    interior.answer_request(create, 201, {"identity": "7"})
    broker.close()
    (_, delete) = interior.requests()
    assert delete.application_properties == {"operation": "DELETE", "type": kind, "name": name, "identity": "7"}
    interior.answer_request(delete, 204)
    wait(hub, 60)
    assert len(interior.requests()) == 2


def test_a_container_that_leaves_before_the_answer(hub: Hub) -> None:
    interior = Interior(hub)
    route(hub).close()
    (create,) = interior.requests()
    interior.answer_request(create, 201, {"identity": "7"})
    assert [r.application_properties["operation"] for r in interior.requests() if r.application_properties] == [
        "CREATE",
        "DELETE",
    ]


def test_a_request_without_an_answer_is_repeated_and_a_refused_one_is_not(hub: Hub) -> None:
    interior = Interior(hub)
    route(hub)
    wait(hub, 9)
    assert len(interior.requests()) == 1
    wait(hub, 2)
    first, second = interior.requests()
    assert first.correlation_id != second.correlation_id
    interior.answer_request(second, 403)
    wait(hub, 60)
    assert len(interior.requests()) == 2


def test_the_next_uplink_gets_link_routes_again(hub: Hub) -> None:
    first = Interior(hub)
    route(hub)
    first.answer_request(first.requests()[0], 201, {"identity": "7"})
    first.peer.peer.kill()
    second = Interior(hub, "B")
    assert len(second.requests()) == 1


def test_a_draining_edge_takes_its_link_routes_back(hub: Hub) -> None:
    interior = Interior(hub)
    route(hub)
    interior.answer_request(interior.requests()[0], 201, {"identity": "7"})
    uplink_of(hub).withdraw()
    hub.turn()
    interior.answer_request(interior.requests()[1], 204)
    uplink_of(hub).rejoin()
    hub.turn()
    operations = [(r.application_properties or {})["operation"] for r in interior.requests()]
    assert operations == ["CREATE", "DELETE", "CREATE"]
