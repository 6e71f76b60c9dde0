"""The interior's side of edge mode, in memory: annotations, lookup, heartbeats, link routes, losses, memory."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

import waymesh_amqp
from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_of
from tests.unit.core.edge_peer import (
    DOWN,
    HEARTBEAT,
    LOOKUP,
    REPLIES,
    UP,
    EdgePeer,
    announced,
    announcing_hub,
    condition,
    consumer,
    count,
    edge_connection,
    producer,
)
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, modified
from waymesh_amqp.performatives import Attach, Terminus, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.edge.messages import (
    NOT_FOUND,
    OK,
    LookupRequest,
    decode_lookup_reply,
    encode_heartbeat,
    encode_lookup,
)
from waymesh_router.peers import mechanisms


@pytest.fixture
def hub() -> Hub:
    return announcing_hub()


# ---- annotations
def test_annotations_of_an_edge_are_trusted_but_not_its_place_in_the_mesh(hub: Hub) -> None:
    edge, other = EdgePeer(hub), EdgePeer(hub, "F")
    handle = other.receiver("q")
    mine = {"x-opt-qd.ingress": "0/E", "x-opt-qd.trace": ["0/E"], "x-opt-qd.to": "q", "own": 1}
    edge.send(UP, Message(to="elsewhere", message_annotations=mine))
    (message,) = [m for at, m in other.arrived() if at == handle]
    expected = {"x-opt-qd.ingress": "0/R", "x-opt-qd.trace": ["0/R"], "x-opt-qd.to": "q", "own": 1}
    assert message.message_annotations == expected


# ---- lookup and heartbeats
def looked_up(edge: EdgePeer, address: str, sender: bool = True) -> tuple[int, bool, bool]:
    edge.send(LOOKUP, encode_lookup(LookupRequest(edge.reply_to, "client-1", address, sender), edge.id))
    (message,) = [m for at, m in edge.arrived() if at == REPLIES]
    reply = decode_lookup_reply(encode_message(message))
    assert (reply.correlation_id, message.to) == ("client-1", edge.reply_to)
    return reply.status, reply.link_route, reply.reachable


def container(hub: Hub, prefix: str = "lr") -> Peer:
    peer = hub.peer()
    peer.conn.role = "route-container"
    peer.open(container_id="broker")
    attrs = {"identity": prefix, "name": prefix, "direction": "both", "prefix": prefix, "containerId": "broker"}
    core_of(hub).linkroutes.add(attrs)
    return peer


def test_lookups(hub: Hub) -> None:
    edge = EdgePeer(hub)
    assert looked_up(edge, "lr.a") == (NOT_FOUND, False, False)
    broker = container(hub)
    for sender in (True, False):
        assert looked_up(edge, "lr.a", sender) == (OK, True, True)
    assert looked_up(edge, "other") == (NOT_FOUND, False, False)
    assert looked_up(edge, "_topo/0/R/lr") == (NOT_FOUND, False, False)
    broker.kill()
    assert looked_up(edge, "lr.a") == (OK, True, False)


def test_a_bad_lookup_has_no_answer(hub: Hub) -> None:
    edge = EdgePeer(hub)
    edge.send(LOOKUP, Message(body=["lr.a", True]))
    assert edge.arrived() == []


def test_an_edge_that_no_longer_sends_heartbeats_is_dropped_without_a_close(hub: Hub) -> None:
    core = core_of(hub)
    silent, quiet = EdgePeer(hub), EdgePeer(hub, "F")  # the second one never sends any
    silent.send(HEARTBEAT, encode_heartbeat(0, "E"))
    for _ in range(4):
        core.now += 2
        core.edges.tick(core.now)
    assert not silent.peer.conn.over
    core.now += 2
    core.edges.tick(core.now)
    assert silent.peer.conn.over
    assert not quiet.peer.conn.over
    assert announced(hub)[-1] == "-HE"


def test_credit_for_heartbeats_is_replaced(hub: Hub) -> None:
    edge = EdgePeer(hub)
    for number in range(10):
        edge.send(HEARTBEAT, encode_heartbeat(number, "E"))
    assert not edge.peer.conn.over


# ---- link routes
def proxy(hub: Hub, edge: EdgePeer, pattern: str = "lr/#") -> None:
    """What the management of link routes of connections does for a CREATE of the edge router."""
    for direction in ("in", "out"):
        attrs = {"identity": f"{edge.id}{direction}", "name": direction, "direction": direction, "pattern": pattern}
        core_of(hub).linkroutes.add(attrs, edge.peer.conn)


def test_an_attach_is_passed_down_to_the_edge_that_announced_the_link_route(hub: Hub) -> None:
    edge = EdgePeer(hub)
    proxy(hub, edge)
    assert {"+Clr:4", "+Dlr:4"} <= set(announced(hub))
    client = hub.peer().open(container_id="C").begin()
    client.send(frames.attach_receiver("link", address="lr/a"))
    sources = [a.source for a in edge.peer.take() if isinstance(a, Attach)]
    assert [source.address for source in sources if source is not None] == ["lr/a"]
    assert looked_up(EdgePeer(hub, "F"), "lr/a", False) == (OK, True, True)


def test_an_attach_of_an_edge_never_goes_back_there(hub: Hub) -> None:
    edge = EdgePeer(hub)
    proxy(hub, edge)
    assert looked_up(edge, "lr/a", False) == (OK, True, False)
    assert condition(edge.peer.send(frames.attach_receiver("link", 9, address="lr/a"))) == "qd:no-route-to-dest"


def test_the_link_routes_of_an_edge_end_with_its_connection(hub: Hub) -> None:
    edge = EdgePeer(hub)
    proxy(hub, edge)
    edge.peer.kill()
    assert {"-Clr", "-Dlr"} <= set(announced(hub))
    assert not len(core_of(hub).linkroutes)


def test_links_without_an_address_are_not_routed_by_a_link_route_for_everything(hub: Hub) -> None:
    container(hub, "").send()
    attrs = {"identity": "all", "name": "all", "direction": "both", "pattern": "#", "containerId": "broker"}
    core_of(hub).linkroutes.add(attrs)
    edge = EdgePeer(hub)
    assert edge.reply_to.startswith("amqp:/_topo/0/R/temp.")
    producer(hub, "_edge/E/x").send(frames.transfer(0, settled=True))
    assert len(edge.on(DOWN)) == 1


# ---- losses
def test_the_outcomes_of_a_lost_edge(hub: Hub) -> None:
    edge = EdgePeer(hub)
    edge.receiver("q", credit=1)
    sender = producer(hub)
    sender.send(frames.transfer(0), frames.transfer(1))
    assert len(edge.arrived()) == 1
    edge.peer.kill()
    assert {state.descriptor for state in frames.told(sender.take())} == {modified().descriptor, RELEASED.descriptor}


def test_outcomes_pass_from_a_client_to_the_edge(hub: Hub) -> None:
    edge = EdgePeer(hub)
    receiver = consumer(hub)
    handle = edge.sender("q")
    edge.send(handle, settled=False)
    assert count(receiver) == 1
    receiver.send(frames.disposition(0))
    assert edge.outcomes() == [ACCEPTED]


def test_a_message_of_several_frames_passes_in_both_directions(hub: Hub) -> None:
    edge = EdgePeer(hub)
    receiver = consumer(hub)
    handle, mine = edge.sender("q"), edge.receiver("r")
    edge.peer.send(frames.transfer(0, frames.message(b"a" * 500), handle=handle, more=True))
    edge.peer.send(frames.transfer(None, b"b" * 500, handle=handle, more=False))
    assert count(receiver) == 2
    sender = producer(hub, "r")
    sender.send(frames.transfer(0, frames.message(b"a" * 500), more=True))
    arrived = edge.peer.take()
    assert [f.more for f in arrived if isinstance(f, Transfer)] == [True]
    sender.send(frames.transfer(None, b"b" * 500, more=False))
    assert [f.more for f in edge.peer.take() if isinstance(f, Transfer)] == [False]
    assert mine


def test_symbols_are_not_service_addresses(hub: Hub) -> None:
    source = Terminus("source", address=Symbol("q"))
    assert condition(edge_connection(hub).send(frames.attach_receiver(source=source))) == "amqp:precondition-failed"


@pytest.mark.parametrize("address", [["q"], {"q": 1}, 5])
def test_an_address_of_another_type_is_refused(hub: Hub, address: Any) -> None:
    peer = hub.peer().open().begin()
    for at, attach in enumerate((frames.attach_receiver, frames.attach_sender)):
        assert condition(peer.send(attach(f"link {at}", at, address=address))) == "amqp:precondition-failed"


# ---- memory
EDGES = 50
ENOUGH_BYTES = {"compiled": 40_000, "interpreted": 160_000}
"""For an edge router with its uplink and ten links of addresses."""


def test_the_memory_of_an_edge_router(hub: Hub) -> None:
    def connect(name: str) -> None:
        edge = EdgePeer(hub, name)
        for number in range(5):
            edge.receiver(f"{name}.in{number}")
            edge.sender(f"{name}.out{number}")
        hub.ends[id(edge.peer.conn)].written = b""

    connect("first")
    tracemalloc.start()
    try:
        for number in range(EDGES):
            connect(f"E{number}")
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used / EDGES < ENOUGH_BYTES[waymesh_amqp.engine()]


# ---- configuration
def test_only_interior_routers_have_listeners_for_edge_routers_and_no_router_connects_as_one() -> None:
    attrs = {"name": "edges", "role": "edge", "authenticatePeer": False}
    mechanisms.check_listener(attrs, "interior")
    with pytest.raises(ValueError, match="role='standalone' not allowed to connect"):
        mechanisms.check_listener(attrs, "standalone")
    with pytest.raises(ValueError, match="role edge of a connector"):
        mechanisms.check_connector(attrs, "interior")
    assert mechanisms.ANYBODY_IS_TRUSTED in mechanisms.login_warnings(attrs, None, None)
    attrs["authenticatePeer"] = True
    assert mechanisms.ANYBODY_IS_TRUSTED not in mechanisms.login_warnings(attrs, None, None)
