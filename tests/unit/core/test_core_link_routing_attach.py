"""Attaches that are passed on: where they may go, what the client is told, and how links and nodes are lost."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.kit import frames
from tests.kit.answering import Container, neighbour
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Attach, Detach, ErrorInfo, Terminus
from waymesh_amqp.types import Described, Symbol
from waymesh_router.core.link_kinds import LINK_BALANCED, ROUTED
from waymesh_router.core.link_routing.attach import NO_ROUTE
from waymesh_router.core.link_routing.endings import LINK_LOST
from waymesh_router.core.link_routing.route_candidates import link_route_of


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    route(hub)
    return hub


def route(hub: Hub, **attrs: Any) -> None:
    core_of(hub).linkroutes.add({
        "identity": "1", "direction": "both", "prefix": "b2", "connection": "broker", **attrs,
    })  # fmt: skip


def client(hub: Hub) -> Peer:
    return hub.peer().open().begin()


def detaches(peer: Peer) -> list[Detach]:
    return [d for d in peer.take() if isinstance(d, Detach)]


def condition(answers: list[Any]) -> str:
    """Why an attach was refused; "" where it was not."""
    detached = [d for d in answers if isinstance(d, Detach)]
    if not detached:
        return ""
    (detach,) = detached
    return "" if detach.error is None else detach.error.condition


# ---- where an attach goes
@pytest.mark.parametrize(
    ("direction", "receiver", "routed"),
    [("in", False, True), ("in", True, False), ("out", True, True), ("out", False, False), ("both", True, True)],
)
def test_the_direction_of_the_entity_counts(direction: str, receiver: bool, routed: bool) -> None:
    hub = core_hub()
    route(hub, direction=direction)
    container = Container(hub)
    client(hub).send((frames.attach_receiver if receiver else frames.attach_sender)(address="b2.q"))
    assert [link.address for link in container.links] == (["b2.q"] if routed else [])


def test_an_address_without_a_route_is_the_router_s_own(hub: Hub) -> None:
    container = Container(hub)
    peer = client(hub)
    peer.send(frames.attach_receiver(address="b3.q"))
    assert container.links == []
    assert "M0b3.q" in core_of(hub).addresses


def test_without_a_container_the_attach_is_refused(hub: Hub) -> None:
    assert condition(client(hub).send(frames.attach_receiver(address="b2.q"))) == NO_ROUTE


def test_links_go_to_the_container_with_the_fewest(hub: Hub) -> None:
    containers = [Container(hub), Container(hub), Container(hub)]
    peer = client(hub)
    for handle in range(6):
        peer.send(frames.attach_sender(f"l{handle}", handle, address="b2.q"))
    assert [len(container.links) for container in containers] == [2, 2, 2]
    containers[1].send(*[frames.detach(link.handle, channel=link.channel) for link in containers[1].links])
    peer.send(*[frames.attach_sender(f"m{handle}", handle, address="b2.q") for handle in (6, 7)])
    assert [len(container.active()) for container in containers] == [2, 2, 2]


def test_a_container_s_own_attach_comes_back_to_it_only_as_the_last_choice(hub: Hub) -> None:
    one = hub.peer()
    one.conn.role, one.conn.origin = "route-container", "broker"
    one.open().begin()
    one.send(frames.attach_sender("first", address="b2.q"))
    assert core_of(hub).linkroutes.status("1") == (True, 1), "it is the only one"
    other = Container(hub)
    one.send(*[frames.attach_sender(f"l{handle}", handle, address="b2.q") for handle in (1, 2, 3)])
    assert len(other.links) == 3


def full_container(hub: Hub) -> Container:
    """A container with one session, which takes no link."""
    full = Container(hub, channel_max=0)
    session = full.conn.open_session()
    hub.turn()
    session.handles.take()
    session.remote_handle_max = 0
    return full


def test_a_container_without_room_is_passed_over(hub: Hub) -> None:
    full, free = full_container(hub), Container(hub)
    answers = client(hub).send(frames.attach_sender(address="b2.q"))
    assert condition(answers) == ""
    assert (len(full.links), len(free.links)) == (0, 1)


def test_where_no_container_has_room_the_reason_is_told(hub: Hub) -> None:
    full_container(hub)
    assert condition(client(hub).send(frames.attach_sender(address="b2.q"))) == "amqp:resource-limit-exceeded"


def remote(hub: Hub, router_id: str, cost: int) -> Peer:
    """A neighbour with a container for the link route."""
    peer = neighbour(hub, router_id)
    core = core_of(hub)
    core.nodes[router_id].cost = cost
    core.remote_routers.add_consumers(router_id, "Cb2", LINK_BALANCED)
    return peer


def attached(peer: Peer) -> list[str]:
    """Addresses of the links that the router attached to send."""
    answers = [a for a in peer.take() if isinstance(a, Attach) and not a.role and a.target is not None]
    return [str(a.target.address) for a in answers if a.target is not None and a.target.address]


@pytest.mark.parametrize(("costs", "chosen"), [((1, 2), "B"), ((3, 2), "C")])
def test_the_nearest_router_gets_it(hub: Hub, costs: tuple[int, int], chosen: str) -> None:
    peers = {"B": remote(hub, "B", costs[0]), "C": remote(hub, "C", costs[1])}
    client(hub).send(frames.attach_sender(address="b2.q"))
    assert {name: attached(peer) for name, peer in peers.items()} == {"B": [], "C": [], chosen: ["b2.q"]}


def test_a_container_of_this_router_comes_before_other_routers(hub: Hub) -> None:
    peer, container = remote(hub, "B", 1), Container(hub)
    client(hub).send(frames.attach_sender(address="b2.q"))
    assert ([link.address for link in container.links], attached(peer)) == (["b2.q"], [])


def test_a_router_does_not_get_back_what_it_passed_on(hub: Hub) -> None:
    core_of(hub).linkroutes.remove("1")
    peer = remote(hub, "B", 1)
    assert condition(peer.send(frames.attach_sender("x", 50, address="b2.q"))) == NO_ROUTE


def test_an_attach_of_another_router_that_no_route_takes_is_refused(hub: Hub) -> None:
    assert condition(neighbour(hub, "B").send(frames.attach_sender("x", 50, address="b3.q"))) == NO_ROUTE


# ---- what the client is told
@pytest.mark.parametrize("receiver", [True, False])
def test_the_container_s_answer_comes_back(hub: Hub, receiver: bool) -> None:
    Container(hub)
    factory = frames.attach_receiver if receiver else frames.attach_sender
    (answer,) = [a for a in client(hub).send(factory("mine", address="b2.q")) if isinstance(a, Attach)]
    assert (answer.name, answer.role) == ("mine", not receiver)
    terminus = answer.source if receiver else answer.target
    assert terminus is not None
    assert terminus.address == "b2.q"


def test_the_client_waits_for_the_container_s_answer(hub: Hub) -> None:
    container = Container(hub)
    container.answers = False
    peer = client(hub)
    assert not any(isinstance(a, Attach) for a in peer.send(frames.attach_sender(address="b2.q")))
    assert len(container.links) == 1


def test_both_links_know_each_other_and_their_route(hub: Hub) -> None:
    container = Container(hub)
    peer = client(hub)
    peer.send(frames.attach_sender(address="b2.q"))
    (lk,) = [link for link in peer.session().links if link is not None]
    assert lk.partner.partner is lk
    assert (lk.kind, lk.partner.connection) == (ROUTED, container.conn)
    assert link_route_of(lk) == link_route_of(lk.partner) == "Cb2"
    assert core_of(hub).linkroutes.status("1") == (True, 1)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    "terms",
    [{"expiry_policy": Symbol("never")}, {"expiry_policy": Symbol("connection-close")}, {"timeout": 30}],
    ids=["never", "connection-close", "timeout"],
)
@pytest.mark.parametrize("receiver", [True, False])
def test_links_that_outlive_their_connection_can_be_refused(
    hub: Hub, allowed: bool, terms: dict[str, Any], receiver: bool
) -> None:
    container = Container(hub)
    core_of(hub).routed_attaches.resumable = allowed
    kind: Literal["source", "target"] = "source" if receiver else "target"
    terminus: dict[str, Any] = {kind: Terminus(kind, address="b2.q", **terms)}
    attach = frames.attach_receiver if receiver else frames.attach_sender
    assert condition(client(hub).send(attach(**terminus))) == ("" if allowed else "amqp:not-allowed")
    assert len(container.links) == allowed


def test_other_link_routed_links_are_not_refused(hub: Hub) -> None:
    container = Container(hub)
    core_of(hub).routed_attaches.resumable = False
    source = Terminus("source", address="b2.q", expiry_policy=Symbol("session-end"))
    assert condition(client(hub).send(frames.attach_receiver(source=source))) == ""
    assert len(container.links) == 1


def test_a_no_local_filter_is_kept_back_and_said_to_be_in_effect(hub: Hub) -> None:
    container = Container(hub)
    filters = {Symbol("no-local"): Described(Symbol("apache.org:no-local-filter:list"), [])}
    source = Terminus("source", address="b2.q", filter=filters)
    (answer,) = [a for a in client(hub).send(frames.attach_receiver(source=source)) if isinstance(a, Attach)]
    assert container.links[0].attach.source is not None
    assert container.links[0].attach.source.filter is None
    assert answer.source is not None
    assert answer.source.filter == filters


# ---- links that are lost
def test_a_detach_of_the_client_reaches_the_container(hub: Hub) -> None:
    container = Container(hub)
    peer = client(hub)
    peer.send(frames.attach_sender(address="b2.q"))
    assert len(detaches_after(peer, frames.detach(closed=False))) == 1
    assert [link.detach and link.detach.closed for link in container.links] == [False]
    assert core_of(hub).linkroutes.status("1") == (True, 0)


def detaches_after(peer: Peer, *data: bytes) -> list[Detach]:
    return [d for d in peer.send(*data) if isinstance(d, Detach)]


def test_a_container_s_error_reaches_the_client(hub: Hub) -> None:
    container = Container(hub)
    peer = client(hub)
    peer.send(frames.attach_sender(address="b2.q"))
    container.detach(container.links[0], error=ErrorInfo("amqp:resource-deleted", "gone"))
    (detach,) = detaches(peer)
    assert detach.closed
    assert detach.error is not None
    assert (detach.error.condition, detach.error.description) == ("amqp:resource-deleted", "gone")


def test_a_refusal_of_the_container_reaches_the_client(hub: Hub) -> None:
    container = Container(hub)
    container.refusal = ErrorInfo("amqp:not-found", "no queue")
    assert condition(client(hub).send(frames.attach_receiver(address="b2.q"))) == "amqp:not-found"


@pytest.mark.parametrize(
    ("error", "text", "info"),
    [
        (None, "Connectivity to the peer container was lost", None),
        (
            ErrorInfo("amqp:connection:forced", "stops"),
            "Connectivity to the peer container was lost: stops",
            {"condition": "amqp:connection:forced", "description": "stops"},
        ),
    ],
)
def test_a_lost_container_is_told_with_its_own_reason(
    hub: Hub, error: ErrorInfo | None, text: str, info: dict[str, str] | None
) -> None:
    container = Container(hub)
    peer = client(hub)
    peer.send(frames.attach_sender(address="b2.q"))
    container.close(error=error)
    (detach,) = detaches(peer)
    assert detach.closed
    assert detach.error is not None
    assert (detach.error.condition, detach.error.description, detach.error.info) == (LINK_LOST, text, info)


def test_a_lost_client_leaves_what_the_container_keeps_for_it(hub: Hub) -> None:
    container = Container(hub)
    peer = client(hub)
    peer.send(frames.attach_receiver(address="b2.q"))
    peer.kill()
    (link,) = container.links
    assert link.detach is not None
    assert (link.detach.closed, link.detach.error) == (False, None)


# ---- nodes that containers make
def dynamic(hub: Hub, made: str = "made", **attrs: Any) -> tuple[Container, Peer]:
    """A client with a dynamic source at a container, to which all links without an address go."""
    core_of(hub).linkroutes.remove("1")
    route(hub, prefix=None, pattern="#", **attrs)
    container = Container(hub)
    container.made = made
    peer = client(hub)
    peer.send(frames.attach_receiver(source=Terminus("source", dynamic=True)))
    assert [link.attach.source and link.attach.source.dynamic for link in container.links] == [True]
    return container, peer


def test_links_to_a_node_go_the_way_of_the_one_that_it_was_made_for(hub: Hub) -> None:
    container, _ = dynamic(hub)
    others = [Container(hub), Container(hub)]
    client(hub).send(frames.attach_sender(address="made"))
    assert [len(one.links) for one in (container, *others)] == [2, 0, 0]


def test_a_dynamic_node_is_named_and_reached_with_the_prefix_of_the_entity(hub: Hub) -> None:
    core_of(hub).linkroutes.remove("1")
    route(hub, prefix=None, pattern="#", delExternalPrefix="x/")
    container = Container(hub)
    answers = client(hub).send(frames.attach_receiver(source=Terminus("source", dynamic=True)))
    (address,) = [a.source.address for a in answers if isinstance(a, Attach) and a.source is not None]
    assert address == "x/made"
    client(hub).send(frames.attach_sender(address=address))
    assert container.links[1].address == "made"


@pytest.mark.parametrize("made", ["taken", "$coordinator"])
def test_a_container_does_not_take_an_address_of_the_mesh(hub: Hub, made: str) -> None:
    lines: list[tuple[Any, ...]] = []
    core_of(hub).context.log = lambda *line: lines.append(line)
    client(hub).send(frames.attach_receiver(address="taken"), frames.credit(1))
    core_of(hub).linkroutes.remove("1")
    route(hub, prefix="q", direction="out")
    container = Container(hub)
    container.made = made
    properties = {Symbol("x-opt-qd.address"): "q"}
    source = Terminus("source", dynamic=True, dynamic_node_properties=properties)
    client(hub).send(frames.attach_receiver(source=source))
    client(hub).send(frames.attach_sender(address="taken"))
    client(hub).send(frames.attach_sender(target=Terminus("coordinator")))
    assert len(container.links) == 1
    assert f"the container chose the address '{made}'" in str(lines)


def test_a_container_does_not_take_the_addresses_of_another_one(hub: Hub) -> None:
    route(hub, identity="2", prefix="q", direction="out", connection="greedy")
    greedy, container = Container(hub, "greedy", "greedy"), Container(hub)
    greedy.made = "b2.orders"
    source = Terminus("source", dynamic=True, dynamic_node_properties={Symbol("x-opt-qd.address"): "q"})
    client(hub).send(frames.attach_receiver(source=source))
    client(hub).send(frames.attach_sender(address="b2.orders"))
    assert (len(greedy.links), len(container.links)) == (1, 1)


def test_a_node_does_not_include_addresses_below(hub: Hub) -> None:
    core_of(hub).linkroutes.remove("1")
    route(hub, prefix="q", direction="out")
    container = Container(hub)
    source = Terminus("source", dynamic=True, dynamic_node_properties={Symbol("x-opt-qd.address"): "q"})
    client(hub).send(frames.attach_receiver(source=source))
    client(hub).send(frames.attach_sender(address="made.by.others"))
    assert len(container.links) == 1
    client(hub).send(frames.attach_sender(address="made"))
    assert len(container.links) == 2


def test_a_node_is_forgotten_with_its_link(hub: Hub) -> None:
    container, peer = dynamic(hub)
    other = Container(hub)
    peer.send(frames.detach())
    sender = client(hub)
    sender.send(frames.attach_sender("a", 0, address="made"), frames.attach_sender("b", 1, address="made"))
    assert (len(container.active()), len(other.active())) == (1, 1), "balanced again"


def test_a_session_that_manages_gets_its_dynamic_source_from_the_router(hub: Hub) -> None:
    core_of(hub).linkroutes.remove("1")
    route(hub, prefix=None, pattern="#")
    container = Container(hub)
    peer = client(hub)
    core_of(hub).address_table.subscribe("M0$management", lambda *_: None)
    peer.send(frames.attach_sender(address="$management"))
    answers = peer.send(frames.attach_receiver(handle=1, source=Terminus("source", dynamic=True)))
    (answer,) = [a for a in answers if isinstance(a, Attach)]
    assert answer.source is not None
    assert str(answer.source.address).startswith("amqp:/_topo/0/R/temp.")
    assert container.links == []


# ---- transactions
def test_all_links_of_a_transaction_go_where_its_coordinator_is(hub: Hub) -> None:
    route(hub, identity="2", prefix="$coordinator", direction="in")
    containers = [Container(hub), Container(hub)]
    busy, plain = client(hub), client(hub)
    busy.send(frames.attach_sender("other", 0, address="b2.q"))
    busy.send(frames.attach_sender("txn", 1, target=Terminus("coordinator")))
    plain.send(frames.attach_sender("c", 0, address="b2.q"))
    counts = [len(container.links) for container in containers]
    chosen = next(i for i, c in enumerate(containers) for k in c.links if k.attach.target.kind == "coordinator")  # type: ignore[union-attr]
    for handle in range(2, 6):
        busy.send(frames.attach_sender(f"l{handle}", handle, address="b2.q"))
    counts[chosen] += 4
    assert [len(container.links) for container in containers] == counts
