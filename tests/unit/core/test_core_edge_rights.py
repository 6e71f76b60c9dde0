"""What edge routers and containers never take without an explicit right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub
from tests.unit.core.edge_peer import EdgePeer, edge_connection
from waymesh_amqp.performatives import Terminus

RESERVED = ["_topo/0/R/temp.1", "_topo/0/R/box", "_topo/all/box", "_topo/0/B/temp.1", "_local/box", "_edge/X/temp.1"]


def container(hub: Hub) -> Peer:
    peer = hub.peer()
    peer.conn.role = "route-container"
    return peer.open().begin()


def reasons(seen: list[Any]) -> list[str]:
    return [one.error.condition for one in seen if type(one).__name__ == "Detach"]


@pytest.mark.parametrize("address", [*RESERVED, "$management", "amqp:/_topo/0/R/temp.1", "/_local/box"])
@pytest.mark.parametrize("peer_of", [edge_connection, container])
def test_messages_for_routers_and_for_one_client(peer_of: Any, address: str) -> None:
    peer = peer_of(core_hub())
    assert reasons(peer.send(frames.attach_receiver("in", 20, address=address))) == ["amqp:not-allowed"]


@pytest.mark.parametrize("peer_of", [edge_connection, container])
def test_other_addresses_and_dynamic_ones_are_served(peer_of: Any) -> None:
    peer = peer_of(core_hub())
    assert not reasons(peer.send(frames.attach_receiver("in", 20, address="orders")))
    assert not reasons(peer.send(frames.attach_receiver("replies", 21, source=Terminus("source", dynamic=True))))


def test_a_client_receives_from_its_router_s_own_addresses() -> None:
    peer = core_hub().peer().open().begin()
    assert not reasons(peer.send(frames.attach_receiver("in", 0, address="_local/box")))


def test_with_an_explicit_right() -> None:
    peer = container(core_hub())
    peer.conn.access = SimpleNamespace(
        may_receive_reserved=lambda text: text == "_local/box", attach=lambda _link, _attach: None, closed=lambda: None
    )
    assert not reasons(peer.send(frames.attach_receiver("in", 0, address="_local/box")))
    assert reasons(peer.send(frames.attach_receiver("other", 1, address="_local/other"))) == ["amqp:not-allowed"]


def test_the_link_for_its_own_messages_is_its_own() -> None:
    edge = EdgePeer(core_hub(), "E")
    assert not reasons(edge.answers)
