"""Links of an edge router's uplink: how they are attached, and who hears of them."""

from __future__ import annotations

import pytest

from tests.kit.answering import Container
from tests.kit.pump import Hub, core_of
from tests.unit.core.interior_peer import edge_hub
from waymesh_amqp.performatives import Attach
from waymesh_router.core.edge.uplink_links import UplinkLinks, source, target
from waymesh_router.core.link_kinds import DATA
from waymesh_router.core.model import RouterLink


class User:
    """A part of the uplink that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, RouterLink]] = []

    def attached(self, link: RouterLink, answer: Attach) -> None:
        self.heard.append(("attached", link))

    def lost(self, link: RouterLink) -> None:
        self.heard.append(("lost", link))


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


@pytest.fixture
def container(hub: Hub) -> Container:
    """The peer of the links. The core does not take its connection for the uplink: the test says what is answered."""
    made = Container(hub)
    made.answers = False
    made.conn.role = "edge"
    return made


@pytest.fixture
def links(hub: Hub, container: Container) -> UplinkLinks:
    core = core_of(hub)
    made = UplinkLinks(core.context, core.link_registry, core.containers)
    made.start(container.conn)
    return made


def attach_of(container: Container) -> Attach:
    (link,) = container.links
    return link.attach


def test_termini_end_with_their_link_and_may_have_a_capability() -> None:
    one = source("q", "qd.waypoint.1")
    assert (one.address, one.capabilities, one.expiry_policy) == ("q", ["qd.waypoint.1"], "link-detach")
    other = target()
    assert (other.kind, other.address, other.capabilities) == ("target", None, None)
    assert source(dynamic=True).dynamic


def test_the_user_of_a_receiver_hears_of_the_answer(hub: Hub, container: Container, links: UplinkLinks) -> None:
    user = User()
    link = links.receiver(user, links.session(True), source("q"), target(), 5)
    hub.turn()
    assert attach_of(container).role
    assert (link.kind, link.capacity) == (DATA, 5)
    links.attached(link, attach_of(container))
    assert user.heard == [("attached", link)]


def test_an_answer_without_the_terminus_is_a_refusal(hub: Hub, links: UplinkLinks) -> None:
    user = User()
    sender = links.sender(user, links.session(False), source(), target("q"))
    receiver = links.receiver(user, links.session(True), source("q"), target(), 5)
    links.attached(sender, Attach("a", 0, role=True, source=source(), target=None))
    links.attached(receiver, Attach("b", 1, role=False, source=None, target=target()))
    assert user.heard == []


def test_a_lost_link_is_told_to_its_user_once(links: UplinkLinks) -> None:
    one, other = User(), User()
    link = links.sender(one, links.session(False), source(), target("q"))
    links.sender(other, links.session(False), source(), target("r"))
    links.lost(link)
    links.lost(link)
    assert (one.heard, other.heard) == ([("lost", link)], [])


def test_names_of_links_differ(hub: Hub, container: Container, links: UplinkLinks) -> None:
    for _ in range(3):
        links.sender(User(), links.session(False), source(), target("q"))
    hub.turn()
    assert len({link.attach.name for link in container.links}) == 3


def test_services_share_a_session_and_get_a_new_one_when_it_has_ended(
    hub: Hub, container: Container, links: UplinkLinks
) -> None:
    first = links.core_session()
    hub.turn()
    assert links.core_session() is first
    container.end(first.channel)
    assert links.core_session() is not first


def test_no_link_is_attached_on_a_connection_that_is_lost_or_none(container: Container, links: UplinkLinks) -> None:
    usable = [links.usable]
    container.peer.kill()
    usable.append(links.usable)
    links.stop()
    usable.append(links.usable)
    assert usable == [True, False, False]


def test_nobody_hears_of_links_of_an_uplink_that_is_over(links: UplinkLinks) -> None:
    user = User()
    link = links.sender(user, links.session(False), source(), target("q"))
    links.stop()
    links.lost(link)
    assert user.heard == []
