"""The link route of a link, known on its side toward the container."""

from __future__ import annotations

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.pump import core_hub, core_of
from waymesh_router.core.link_routing.route_candidates import UpstreamLink, link_route_of


def test_both_sides_of_a_routed_link_have_its_link_route() -> None:
    hub = core_hub()
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "prefix": "lr", "connection": "broker"})
    Container(hub)
    hub.peer().open().begin().send(frames.attach_sender(address="lr.q"))
    assert [link_route_of(link) for link in core_of(hub).links.values()] == ["Clr", "Clr"]


def test_other_links_have_none() -> None:
    hub = core_hub()
    hub.peer().open().begin().send(frames.attach_sender())
    assert [link_route_of(link) for link in core_of(hub).links.values()] == [None]


def test_a_link_whose_way_another_link_determined_has_no_link_route() -> None:
    hub = core_hub()
    hub.peer().open().begin().send(frames.attach_sender())
    (link,) = core_of(hub).links.values()
    link.route = UpstreamLink(None, None, dynamic=False)
    assert link_route_of(link) is None
