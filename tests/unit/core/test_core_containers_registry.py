"""Connections of containers: which of them an entity means, and sessions for the router's own links."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_router.core.containers import registry
from waymesh_router.core.containers.registry import LINKS_A_SESSION, Containers, place_of
from waymesh_router.core.link_routing.sessions import SessionPending


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.mark.parametrize(
    ("attrs", "place"),
    [
        ({}, None),
        ({"connection": "", "containerId": None}, None),
        ({"connection": "broker"}, ("connection", "broker")),
        ({"containerId": "B"}, ("containerId", "B")),
        ({"connection": "broker", "containerId": "B"}, ("connection", "broker")),
    ],
)
def test_the_place_of_an_entity(attrs: dict[str, Any], place: Any) -> None:
    assert place_of(attrs) == place


def test_a_connection_is_found_by_connector_container_and_number(hub: Hub) -> None:
    containers = core_of(hub).containers
    one, other = Container(hub, "b", "X").conn, Container(hub, "c", "X").conn
    assert containers.at(("connection", "b")) == [one]
    assert containers.at(("containerId", "X")) == [one, other], "in the order in which they came"
    assert containers.at(("id", str(other.id))) == [other]
    assert containers.at(("connection", "X")) == []
    assert containers.at(None) == []


def test_a_connection_that_ended_is_not_found(hub: Hub) -> None:
    containers = core_of(hub).containers
    one, other = Container(hub, "b", "X"), Container(hub, "b", "X")
    one.close()
    assert containers.at(("containerId", "X")) == containers.at(("connection", "b")) == [other.conn]
    assert containers.at(("id", str(one.conn.id))) == []


def test_only_route_containers_are_containers(hub: Hub) -> None:
    hub.peer().open(container_id="X")
    assert core_of(hub).containers.at(("containerId", "X")) == []


def test_each_of_several_with_one_container_id_gets_the_links(hub: Hub) -> None:
    one = Container(hub, "brokers", "X")
    attrs = {"identity": "1", "direction": "in", "address": "q", "containerId": "X"}
    core_of(hub).autolinks.add(attrs)
    other = Container(hub, "brokers", "X")
    assert [[link.address for link in container.active()] for container in (one, other)] == [["q"], ["q"]]


def test_a_container_attaches_links_of_its_own_as_a_client_does(hub: Hub) -> None:
    container, client = hub.peer(), hub.peer()
    container.conn.role = registry.ROUTE_CONTAINER
    container.open().begin().send(frames.attach_receiver(address="q"), frames.credit(1))
    client.open().begin().send(frames.attach_sender(address="q"), frames.transfer(0, settled=True))
    payloads = [frame.payload for frame in container.frames() if isinstance(frame, frames.Seen) and frame.payload]
    assert payloads == [frames.message()]


def attach(hub: Hub, session: Any, number: int) -> None:
    terms = Attach(f"l{number}", 0, role=True, source=Terminus("source", address="a"), target=Terminus("target"))
    core_of(hub).link_registry.open_link(session, terms)


def test_links_in_and_out_use_sessions_of_their_own(hub: Hub) -> None:
    containers: Containers = core_of(hub).containers
    conn = Container(hub).conn
    incoming, outgoing = containers.session(conn, True), containers.session(conn, False)
    assert incoming is not outgoing
    assert (containers.session(conn, True), containers.session(conn, False)) == (incoming, outgoing)


def test_a_full_session_is_followed_by_another(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LINKS_A_SESSION >= 64
    monkeypatch.setattr(registry, "LINKS_A_SESSION", 2)
    containers: Containers = core_of(hub).containers
    conn = Container(hub).conn
    sessions = []
    for number in range(5):
        session = containers.session(conn, True)
        hub.turn()  # the container tells how many links it takes
        attach(hub, session, number)
        sessions.append(session)
    assert [sessions.index(session) for session in sessions] == [0, 0, 2, 2, 4]


def test_a_peer_without_further_sessions_gets_more_links_in_those_it_has(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LINKS_A_SESSION", 1)
    containers: Containers = core_of(hub).containers
    conn = Container(hub, channel_max=0).conn
    session = containers.session(conn, True)
    hub.turn()
    attach(hub, session, 1)
    assert containers.session(conn, True) is session
    assert containers.session(conn, False) is session, "as there is none for links in this direction"
    session.remote_handle_max = 0
    with pytest.raises(AmqpError):
        containers.session(conn, True)


def test_how_many_links_a_session_takes_is_not_known_before_the_answer(hub: Hub) -> None:
    containers: Containers = core_of(hub).containers
    conn = Container(hub).conn
    attach(hub, containers.session(conn, True), 1)
    with pytest.raises(SessionPending):
        containers.session(conn, True)
    assert conn.handle_max == 0


def test_an_ended_session_is_replaced(hub: Hub) -> None:
    containers: Containers = core_of(hub).containers
    conn = Container(hub).conn
    first = containers.session(conn, True)
    first.end()
    assert containers.session(conn, True) is not first


def test_a_lone_session_has_no_other_link(hub: Hub) -> None:
    containers: Containers = core_of(hub).containers
    conn = Container(hub).conn
    first = containers.separate_session(conn)
    assert containers.separate_session(conn) is first
    attach(hub, first, 1)
    second = containers.separate_session(conn)
    assert second not in (first, containers.session(conn, True), containers.session(conn, False))
