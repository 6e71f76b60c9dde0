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
