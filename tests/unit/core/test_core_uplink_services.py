"""The edge's side of edge mode, in memory: lookups of link routes, and link routes of its own containers."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.pump import Hub, core_of
from tests.unit.core.interior_peer import Interior, attached, client, credit_of, edge_hub, uplink_of, wait
from waymesh_amqp.performatives import Detach
from waymesh_router.core.edge.messages import NOT_FOUND, OK


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


# ---- lookups
def test_an_attach_waits_for_the_answer(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, answers = client(hub, frames.attach_receiver(address="lr.a"))
    producer, more = client(hub, frames.attach_sender(address="lr.b"))
    assert not attached(answers + more)
    one, other = interior.lookups()
    assert [(one.address, one.sender), (other.address, other.sender)] == [("lr.a", False), ("lr.b", True)]
    assert one.correlation_id != other.correlation_id
    interior.answer(other, NOT_FOUND, False, False)
    assert attached(producer.take())
    assert not attached(consumer.take())
    interior.answer(one, NOT_FOUND, False, False)
    assert attached(consumer.take())
    interior.answer(one, NOT_FOUND, False, False)  # again
    assert consumer.take() == []


def test_what_is_not_looked_up(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    assert attached(client(hub, frames.attach_sender(address=None))[1])
    assert attached(client(hub, frames.attach_sender(address="_topo/0/A/$management"))[1])
    assert interior.lookups() == []


def test_an_attach_for_a_link_route_is_passed_up(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(name="mine", address="lr.a"))
    interior.answer(interior.lookups()[0], OK, True, True)
    assert attached(consumer.take())
    assert "mine" in interior.link("receiver", "lr.a").attach.name
    assert "M0lr.a" not in core_of(hub).addresses


def test_a_routed_link_ends_with_the_uplink(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(name="mine", address="lr.a"))
    interior.answer(interior.lookups()[0], OK, True, True)
    consumer.take()
    interior.peer.peer.kill()
    (error,) = [answer.error for answer in consumer.take() if isinstance(answer, Detach)]
    assert error is not None
    assert error.condition == "qd:routed-link-lost"
    assert not consumer.conn.over


def test_an_attach_for_a_link_route_without_container_is_refused(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(address="lr.a"))
    interior.answer(interior.lookups()[0], OK, True, False)
    (error,) = [answer.error for answer in consumer.take() if isinstance(answer, Detach)]
    assert error is not None
    assert error.condition == "qd:no-route-to-dest"


@pytest.mark.parametrize("how", ["late", "lost", "detached"])
def test_without_an_answer_it_is_a_link_to_an_address(hub: Hub, how: str) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(address="lr.a"))
    if how == "late":
        wait(hub, 2.9)
        assert not attached(consumer.take())
        wait(hub, 0.2)
    elif how == "lost":
        interior.peer.peer.kill()
    else:
        interior.peer.detach([link for link in interior.peer.active() if link.address == "made"][1])
        wait(hub, 0.1)
    assert attached(consumer.take())
    assert "M0lr.a" in core_of(hub).addresses


def test_a_client_that_leaves_meanwhile_is_forgotten(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(address="lr.a"))
    other, _ = client(hub, frames.attach_receiver(address="lr.b"))
    consumer.kill()
    other.send(frames.detach())
    for request in interior.lookups():
        interior.answer(request, NOT_FOUND, False, False)
    assert not {"M0lr.a", "M0lr.b"} & set(core_of(hub).addresses)
    assert not any(address in ("lr.a", "lr.b") for _, address in interior.links())


# ---- link routes
def route(hub: Hub, direction: str = "in") -> Container:
    """A link route to a container at the edge."""
    attrs = {"identity": "1", "name": "r", "direction": direction, "prefix": "lr", "containerId": "broker"}
    core_of(hub).linkroutes.add(attrs)
    return Container(hub)


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
    uplink_of(hub).stand_aside()
    hub.turn()
    interior.answer_request(interior.requests()[1], 204)
    uplink_of(hub).come_back()
    hub.turn()
    operations = [(r.application_properties or {})["operation"] for r in interior.requests()]
    assert operations == ["CREATE", "DELETE", "CREATE"]


def test_a_link_route_whose_container_is_here_is_not_looked_up(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    broker = route(hub)
    _, answers = client(hub, frames.attach_sender(address="lr.a"))
    assert attached(answers)
    assert credit_of(answers) == 10
    assert [link.address for link in broker.links] == ["lr.a"]
    assert interior.lookups() == []
