"""Links of a router: numbered, kept while they last, and the router's own ones attached."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Attach, Terminus


@pytest.fixture
def hub() -> Hub:
    return core_hub()


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


def test_sessions_that_manage_are_known_until_their_last_link_for_it_ends(hub: Hub) -> None:
    registry = core_of(hub).link_registry
    core_of(hub).address_table.subscribe("M0$management", lambda *_: None)
    peer, other = hub.peer().open().begin(), hub.peer().open().begin()
    managing, plain = peer.session(), other.session()
    for handle in range(2):
        peer.send(frames.attach_sender(f"s{handle}", handle, address="$management"))
    other.send(frames.attach_sender(address="q"), frames.attach_receiver("r", 1, address="$management"))
    assert (registry.manages(managing), registry.manages(plain)) == (True, False)
    peer.send(frames.detach(0))
    assert registry.manages(managing)
    peer.send(frames.detach(1))
    assert not registry.manages(managing)
    peer.send(frames.attach_sender("s2", 0, address="$management"))
    assert registry.manages(managing)
    peer.kill()
    assert not registry.manages(managing)


def test_the_router_has_dynamic_sources_of_a_session_only_as_long_as_it_manages(hub: Hub) -> None:
    """The dynamic source of one that never did, or has detached its links for this, goes to the container."""
    route = {"identity": "1", "direction": "both", "pattern": "#", "connection": "broker"}
    core_of(hub).linkroutes.add(route)
    container = Container(hub)
    peer = hub.peer().open().begin()
    core_of(hub).address_table.subscribe("M0$management", lambda *_: None)
    dynamic_source = Terminus("source", dynamic=True)
    peer.send(frames.attach_sender("a", 0, address="$management"), frames.attach_sender("b", 1, address="$management"))
    peer.send(frames.attach_receiver("c", 2, source=dynamic_source))
    assert container.links == []
    peer.send(frames.detach(0))
    peer.send(frames.attach_receiver("d", 3, source=dynamic_source))
    assert container.links == [], "one is left"
    peer.send(frames.begin(1))
    peer.send(frames.attach_receiver("e", 0, channel=1, source=dynamic_source))
    assert len(container.links) == 1, "another session"
    peer.send(frames.detach(1))
    peer.send(frames.attach_receiver("f", 4, source=dynamic_source))
    assert len(container.links) == 2
    peer.send(frames.attach_sender("a", 0, address="$management"))
    peer.kill()
    again = hub.peer().open().begin()
    again.send(frames.attach_receiver("g", 0, source=dynamic_source))
    assert len(container.links) == 3
