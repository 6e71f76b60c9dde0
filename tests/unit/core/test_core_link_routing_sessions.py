"""Sessions of routed links: one of ours for each of a client's, shared only where the container takes no more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.answering import Container
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.states import MAPPED
from waymesh_router.core.link_routing.sessions import MirrorSessions, has_room


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def mirrors(hub: Hub) -> MirrorSessions:
    return MirrorSessions(core_of(hub).context.portions)


def origin(hub: Hub) -> Any:
    """A session of a client."""
    return hub.peer().open().begin().session()


def attach(hub: Hub, session: Any, name: str = "l") -> Any:
    core: Any = hub.handler
    terms = Attach(name, 0, role=False, source=Terminus("source"), target=Terminus("target", address="a"))
    link = core.link_registry.open_link(session, terms)
    hub.turn()
    return link


def test_each_session_of_a_client_has_one_on_each_connection(hub: Hub, mirrors: MirrorSessions) -> None:
    one, other = Container(hub).conn, Container(hub).conn
    first, second = origin(hub), origin(hub)
    sessions = [mirrors.session(client, conn) for client in (first, second) for conn in (one, other)]
    assert len(set(sessions)) == 4
    assert [mirrors.session(client, conn) for client in (first, second) for conn in (one, other)] == sessions


def test_a_container_without_further_sessions_has_the_least_used_one_shared(
    hub: Hub, mirrors: MirrorSessions
) -> None:
    conn = Container(hub, channel_max=1).conn
    clients = [origin(hub) for _ in range(3)]
    busy, idle = mirrors.session(clients[0], conn), mirrors.session(clients[1], conn)
    hub.turn()
    attach(hub, busy)
    assert mirrors.session(clients[2], conn) is idle
    attach(hub, idle, "l2")
    attach(hub, idle, "l3")
    assert mirrors.session(origin(hub), conn) is busy


def test_without_any_room_it_is_refused(hub: Hub, mirrors: MirrorSessions) -> None:
    conn = Container(hub, channel_max=0).conn
    session = conn.open_session()
    hub.turn()
    session.handles.take()
    session.remote_handle_max = 0
    with pytest.raises(AmqpError):
        mirrors.session(origin(hub), conn)


def test_a_session_ends_when_its_links_have_gone(hub: Hub, mirrors: MirrorSessions) -> None:
    container = Container(hub)
    client = origin(hub)
    session = mirrors.session(client, container.conn)
    link = attach(hub, session)
    mirrors.link_opened(client, session, False)
    mirrors.tidy()
    assert session.state == MAPPED
    mirrors.link_gone(session)
    mirrors.tidy()
    assert session.state == MAPPED, "the detach of its link is not answered yet"
    link.detach()
    hub.turn()
    mirrors.tidy()
    hub.turn()
    assert len(container.ends) == 1
    assert mirrors.session(client, container.conn) is not session


def test_a_session_that_got_no_link_ends_too(hub: Hub, mirrors: MirrorSessions) -> None:
    container = Container(hub)
    mirrors.session(origin(hub), container.conn)
    hub.turn()
    mirrors.tidy()
    hub.turn()
    assert len(container.ends) == 1


def test_connections_of_coordinators_are_those_of_the_client_s_session(hub: Hub, mirrors: MirrorSessions) -> None:
    one, other = Container(hub).conn, Container(hub).conn
    client, stranger = origin(hub), origin(hub)
    session = mirrors.session(client, one)
    mirrors.link_opened(client, session, True)
    plain = mirrors.session(client, other)
    mirrors.link_opened(client, plain, False)
    hub.turn()
    assert mirrors.connections(client) == {one.id: one}
    assert mirrors.connections(stranger) == {}
    mirrors.link_gone(session)
    mirrors.tidy()
    assert mirrors.connections(client) == {}


@pytest.mark.parametrize(("handle_max", "room"), [(0, False), (1, True)])
def test_room_for_one_more_link(hub: Hub, mirrors: MirrorSessions, handle_max: int, room: bool) -> None:
    session = mirrors.session(origin(hub), Container(hub).conn)
    hub.turn()
    attach(hub, session)
    session.remote_handle_max = handle_max
    assert has_room(session) == room
