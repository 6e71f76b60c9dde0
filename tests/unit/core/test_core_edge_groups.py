"""Edge routers in user groups of the policy: what they consume, produce and route, and what happens without a group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import PROPERTIES, UP, EdgePeer, edge_connection
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.types import Symbol
from waymesh_router.clients.access import ClientAccess
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.core.link_kinds import NO_MANAGEMENT, READ_MANAGEMENT, UNDECIDED_MANAGEMENT
from waymesh_router.policy.enforcement import Enforcement
from waymesh_router.policy.vhosts import parse_policy

GROUP = {"users": "shop", "remoteHosts": "*", "sources": "shop.*", "targets": "orders.*"}


class Place:
    """An interior router with a policy, whose edge routers connect to the listener `edges`."""

    def __init__(self, groups: dict[str, Any], *, enabled: bool = True, strict: bool = False, **vhost: Any) -> None:
        self.hub: Hub = core_hub()
        self.log: list[tuple[str, str]] = []
        values = {"enableVhostPolicy": enabled}
        vhosts = [{"hostname": "$default", "groups": groups, **vhost}]
        self.enforcement = Enforcement(parse_policy(values, vhosts, PatternTree[str], lambda _: ()))
        listeners = {"edges": {"strictEdges": strict}}
        core = core_of(self.hub)
        access = ClientAccess(
            self.enforcement, core, listeners, lambda level, text, *_: self.log.append((level, text))
        )
        core.connection_table.on_opened = access.opened
        make = self.hub.peer

        def peer(*args: Any) -> Peer:
            made = make(*args)
            made.conn.origin = "edges"
            made.conn.management = UNDECIDED_MANAGEMENT
            made.conn.mechanism = "EXTERNAL"
            return made

        self.hub.peer = peer  # type: ignore[method-assign, assignment]

    def warnings(self) -> list[str]:
        return [text for level, text in self.log if level == "warning"]


def reasons(seen: list[Any]) -> list[str]:
    return [one.error.condition for one in seen if type(one).__name__ == "Detach" and one.error is not None]


def tries(peer: Peer, receiver: bool, address: str | None, handle: int = 30, **over: Any) -> str:
    attach = frames.attach_receiver if receiver else frames.attach_sender
    found = reasons(peer.send(attach(f"l{handle}", handle, address=address, **over)))
    return found[0] if found else ""


@pytest.mark.parametrize(("groups", "count"), [({"g": GROUP}, 0), ({"g": {**GROUP, "users": "other"}}, 1), ({}, 1)])
def test_connections_without_a_group_are_counted(groups: dict[str, Any], count: int) -> None:
    place = Place(groups)
    edge = edge_connection(place.hub, user="shop")
    assert len(core_of(place.hub).edges.without_group) == count
    edge.kill()
    assert not core_of(place.hub).edges.without_group


def test_a_client_and_a_refused_edge_router_do_not_count() -> None:
    place = Place({}, strict=True)
    peer = place.hub.peer()
    peer.conn.role, peer.conn.user = "edge", "shop"
    peer.send(frames.AMQP, frames.open_(container_id="E", properties=PROPERTIES))
    assert not core_of(place.hub).edges.without_group


def test_an_edge_mode_uplink_needs_no_right() -> None:
    edge = EdgePeer(Place({"g": GROUP}).hub, "E", user="shop")
    assert not reasons(edge.answers)
    assert edge.reply_to
    assert not tries(edge.peer, False, "$management")


def test_a_listener_with_management_none_leaves_an_edge_router_all_but_requests() -> None:
    place = Place({"g": GROUP})
    make = place.hub.peer

    def peer(*args: Any) -> Peer:
        made = make(*args)
        made.conn.management = NO_MANAGEMENT
        return made

    place.hub.peer = peer  # type: ignore[method-assign, assignment]
    edge = EdgePeer(place.hub, "E", user="shop")
    assert not reasons(edge.answers)
    assert tries(edge.peer, False, "$management") == "amqp:unauthorized-access"
    assert not tries(edge.peer, True, "shop.a", 31)
    assert not edge.peer.conn.creates_link_routes


@pytest.mark.parametrize(
    ("receiver", "address", "expected"),
    [
        (True, "shop.a", ""),
        (True, "orders.a", "amqp:unauthorized-access"),
        (False, "orders.a", ""),
        (False, "shop.a", "amqp:unauthorized-access"),
        (False, "$coordinator", "amqp:unauthorized-access"),
        (True, "_local/shop", "amqp:not-allowed"),
    ],
)
def test_the_group_says_what_it_consumes_and_produces(receiver: bool, address: str, expected: str) -> None:
    edge = EdgePeer(Place({"g": GROUP}).hub, "E", user="shop")
    assert tries(edge.peer, receiver, address) == expected


def test_the_group_says_what_it_routes_and_gives_no_right_to_write() -> None:
    peer = edge_connection(Place({"g": {**GROUP, "linkRoutePattern": "shop.#"}}).hub, user="shop")
    allowed = [one for one in ("shop.b.#", "orders.#", "#") if peer.conn.access.may_create_link_route(one)]
    assert allowed == ["shop.b.#"]
    assert (peer.conn.management, peer.conn.creates_link_routes) == (READ_MANAGEMENT, True)


def test_a_dynamic_source_with_an_address_is_not_one_for_replies() -> None:
    peer = EdgePeer(Place({"g": GROUP}).hub, "E", user="shop").peer
    named = Terminus("source", dynamic=True, dynamic_node_properties={Symbol("x-opt-qd.address"): "orders.a"})
    assert tries(peer, True, None, source=named) == "amqp:unauthorized-access"
    assert not tries(peer, True, None, 31, source=Terminus("source", dynamic=True))


@pytest.mark.parametrize("by_annotation", [True, False])
@pytest.mark.parametrize(
    ("to", "allowed"),
    [
        ("orders.a", True),
        ("shop.a", False),
        ("_topo/0/R/temp.x", True),
        ("_edge/X/temp.x", True),
        ("_local/box", False),
    ],
)
def test_messages_without_a_link_of_their_own(to: str, allowed: bool, by_annotation: bool) -> None:
    place = Place({"g": GROUP})
    edge = EdgePeer(place.hub, "E", user="shop")
    annotations = {Symbol("x-opt-qd.to"): to} if by_annotation else None
    message = Message(to="orders.a" if by_annotation else to, message_annotations=annotations, body="x")
    edge.peer.send(frames.transfer(0, encode_message(message), handle=UP))
    assert place.enforcement.counts.messages_denied == (0 if allowed else 1)


def test_an_annotation_names_no_other_address_than_that_of_the_link() -> None:
    edge = EdgePeer(Place({"g": GROUP}).hub, "E", user="shop")
    edge.sender("orders.a")
    links = [link for link in core_of(edge.peer.hub).links.values() if link.address is not None and not link.is_sender]
    (link,) = [link for link in links if link.address is not None and link.address.key == "M0orders.a"]
    assert link.strip


# ---- without a group
@pytest.mark.parametrize(
    ("groups", "enabled", "vhost"),
    [
        ({"g": {**GROUP, "users": "other"}}, True, {}),
        ({"g": GROUP}, False, {}),
        ({"$default": {**GROUP, "users": "*"}}, True, {"allowUnknownUser": True}),
    ],
)
def test_an_edge_router_keeps_its_rights_with_a_warning(
    groups: dict[str, Any], enabled: bool, vhost: dict[str, Any]
) -> None:
    place = Place(groups, enabled=enabled, **vhost)
    edge = EdgePeer(place.hub, "E", user="shop")
    assert not tries(edge.peer, True, "orders.a")
    EdgePeer(place.hub, "F", user="shop")
    (text,) = place.warnings()
    assert "edge router E, user shop: the edge router is in no user group" in text


def strict(groups: dict[str, Any], user: str = "shop", **settings: Any) -> bool:
    """Whether an edge router is let in by a strict listener."""
    place = Place(groups, strict=True, **settings)
    peer = place.hub.peer()
    peer.conn.role, peer.conn.user = "edge", user
    properties = {Symbol("qd.annotations-version"): 1}
    peer.send(frames.AMQP, frames.open_(container_id="E", hostname="elsewhere", properties=properties))
    return not peer.conn.over


@pytest.mark.parametrize(
    ("groups", "settings", "admitted"),
    [
        ({"g": GROUP}, {}, True),
        ({"g": {**GROUP, "users": "other"}}, {}, False),
        ({"g": GROUP}, {"enabled": False}, False),
        ({"$default": {**GROUP, "users": "*"}}, {"allowUnknownUser": True}, True),
        ({"g": {**GROUP, "blocked": True}}, {}, False),
    ],
)
def test_a_strict_listener_admits_none_without_a_group(
    groups: dict[str, Any], settings: dict[str, Any], admitted: bool
) -> None:
    assert strict(groups, **settings) == admitted


def test_groups_in_a_token_do_not_count() -> None:
    place = Place({"wide": {**GROUP, "users": "admin", "sources": "*"}}, strict=True)
    peer = place.hub.peer()
    peer.conn.role, peer.conn.user, peer.conn.groups = "edge", "shop", ("wide",)
    properties = {Symbol("qd.annotations-version"): 1}
    peer.send(frames.AMQP, frames.open_(container_id="E", properties=properties))
    assert peer.conn.over


def test_the_host_name_in_the_open_does_not_select_the_vhost() -> None:
    place = Place({"g": GROUP})
    edge = EdgePeer(place.hub, "E", user="shop", hostname="elsewhere")
    assert tries(edge.peer, True, "orders.a") == "amqp:unauthorized-access"
