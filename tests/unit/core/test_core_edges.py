"""The interior's side of edge mode, in memory: links, addresses and their tracking, no echo."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, core_of
from tests.unit.core.edge_peer import (
    DOWN,
    TRACKING,
    UP,
    EdgePeer,
    announced,
    announcing_hub,
    condition,
    configure,
    consumer,
    count,
    downlink,
    edge_connection,
    producer,
)
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import RELEASED
from waymesh_amqp.performatives import Attach, Transfer
from waymesh_router.core.edge import edges
from waymesh_router.core.edge.messages import (
    HEARTBEAT_ADDRESS,
    LOOKUP_ADDRESS,
    TRACKING_ADDRESS,
)
from waymesh_router.core.portions import COST_A_TURN

A_PORTION = COST_A_TURN // edges.TELL_COST
"""Senders that are told in one turn."""


@pytest.fixture
def hub() -> Hub:
    return announcing_hub()


# ---- links of the uplink
def test_an_edge_router_refers_to_no_link_that_has_ended(hub: Hub) -> None:
    """Else its connection and all its deliveries would stay until the collector examines all objects."""
    edge = EdgePeer(hub)
    router: Any = edge.peer.conn.edge_router
    edge.send(edge.sender("nobody"))
    assert None not in (router.uplink, router.downlink, router.tracking)
    edge.peer.send(frames.close())
    assert (router.uplink, router.downlink, router.tracking) == (None, None, None)


def test_the_links_of_an_uplink_are_accepted_and_the_edge_is_announced(hub: Hub) -> None:
    edge = EdgePeer(hub)
    assert not condition(edge.answers)
    assert len([a for a in edge.answers if isinstance(a, Attach)]) == 6
    assert edge.reply_to.startswith("amqp:/_topo/0/R/temp.")
    assert announced(hub) == ["+HE:3"]
    down = next(a for a in edge.answers if isinstance(a, Attach) and a.name == "down")
    assert down.source is not None
    assert (down.source.address, down.source.capabilities) == ("E", ["qd.router-edge-downlink"])
    edge.peer.kill()
    assert announced(hub) == ["+HE:3", "-HE"]
    assert core_of(hub).edges.connections == {}
    assert core_of(hub).addresses == {}


def test_a_client_of_the_listener_is_no_edge_router(hub: Hub) -> None:
    peer = hub.peer()
    peer.conn.role = "edge"
    peer.open(container_id="client").begin()
    assert peer.conn.role == "normal"
    assert peer.conn.strip_in
    for attach in (
        frames.attach_receiver("t", 0, address=TRACKING_ADDRESS),
        frames.attach_sender("l", 1, address=LOOKUP_ADDRESS),
        frames.attach_sender("h", 2, address=HEARTBEAT_ADDRESS),
    ):
        assert condition(peer.send(attach)) == "amqp:not-allowed"
    peer.send(frames.attach_receiver("d", 3, **downlink("client")))
    assert list(core_of(hub).addresses) == ["M0client"]  # an ordinary address


@pytest.mark.parametrize(
    "attach",
    [
        frames.attach_sender("t", 0, address=TRACKING_ADDRESS),
        frames.attach_receiver("l", 0, address=LOOKUP_ADDRESS),
        frames.attach_receiver("d", 0, **downlink("F")),
    ],
)
def test_links_of_the_wrong_direction_or_id_are_refused(hub: Hub, attach: bytes) -> None:
    assert condition(edge_connection(hub).send(attach)) == "amqp:not-allowed"
    assert core_of(hub).addresses == {}


def test_messages_for_an_edge_router_go_out_on_the_link_for_them(hub: Hub) -> None:
    edge = EdgePeer(hub)
    producer(hub, "_edge/E/$management").send(frames.transfer(0, encode_message(Message(body="a")), settled=True))
    sender = producer(hub, None)
    sender.send(frames.transfer(0, encode_message(Message(to="amqp:/_edge/E/temp.1", body="b")), settled=True))
    first, second = [m for at, m in edge.arrived() if at == DOWN]
    assert (first.body, first.message_annotations["x-opt-qd.to"]) == ("a", "_edge/E/$management")  # type: ignore[index]
    assert (second.body, second.to) == ("b", "amqp:/_edge/E/temp.1")


def test_nobody_but_the_edge_router_receives_its_messages(hub: Hub) -> None:
    EdgePeer(hub)
    assert condition(hub.peer().open().begin().send(frames.attach_receiver(address="_edge/E/x"))) == "amqp:not-allowed"


def test_a_message_without_a_link_of_its_own_arrives_on_the_anonymous_link(hub: Hub) -> None:
    edge = EdgePeer(hub)
    receiver = consumer(hub, "q")
    edge.send(UP, Message(to="q", body="x"))
    edge.send(UP, Message(to="elsewhere", message_annotations={"x-opt-qd.to": "q"}, body="y"))
    assert count(receiver) == 2


def test_a_newer_connection_of_an_edge_router_replaces_the_older_one(hub: Hub) -> None:
    older = EdgePeer(hub)
    newer = EdgePeer(hub)
    assert older.peer.conn.over
    producer(hub, "_edge/E/x").send(frames.transfer(0, settled=True))
    assert len(newer.on(DOWN)) == 1
    stranger = edge_connection(hub, "E", user="other")
    assert condition(stranger.send(frames.attach_receiver("d", 0, **downlink("E")))) == "amqp:not-allowed"
    assert not newer.peer.conn.over


# ---- addresses and tracking
def test_consumers_at_an_edge_are_announced_and_get_messages(hub: Hub) -> None:
    edge = EdgePeer(hub)
    handle = edge.receiver("q")
    assert announced(hub)[-1] == "+M0q:3"
    producer(hub).send(frames.transfer(0, encode_message(Message(body="x")), settled=True))
    assert edge.on(handle) == ["x"]
    edge.detach(handle)
    assert announced(hub)[-1] == "-M0q"


def test_an_edge_is_told_of_consumers_elsewhere_while_it_has_a_producer(hub: Hub) -> None:
    edge, other = EdgePeer(hub), EdgePeer(hub, "F")
    handle = edge.sender("q")
    assert edge.told() == []
    receiver = consumer(hub)
    assert edge.told() == [("M0q", True)]
    second = other.receiver("q")
    assert edge.told() == []
    receiver.send(frames.detach())
    assert edge.told() == []  # the one at the other edge is left
    other.detach(second)
    assert edge.told() == [("M0q", False)]
    edge.detach(handle)
    consumer(hub)
    assert edge.told() == []
    edge.sender("q")
    assert edge.told() == [("M0q", True)]  # known at the attach


def test_an_edge_is_not_told_of_its_own_consumers(hub: Hub) -> None:
    edge = EdgePeer(hub)
    handle = edge.receiver("q")
    edge.sender("q")
    assert edge.told() == []
    receiver = consumer(hub)
    assert edge.told() == [("M0q", True)]
    receiver.send(frames.detach())
    assert edge.told() == [("M0q", False)]
    edge.detach(handle)
    assert edge.told() == []


def test_an_edge_is_told_of_consumers_at_other_routers(hub: Hub) -> None:
    core = core_of(hub)
    edge = EdgePeer(hub)
    edge.sender("q")
    core.remote_routers.node_up("B")
    core.nodes["B"].connection = hub.peer().open().conn
    core.remote_routers.add_consumers("B", "M0q", 3)
    assert edge.told() == [("M0q", True)]
    core.remote_routers.remove_consumers("B", "M0q")
    assert edge.told() == [("M0q", False)]


def test_a_new_tracking_link_tells_everything_anew(hub: Hub) -> None:
    edge = EdgePeer(hub, tracking=False)
    edge.sender("q")
    consumer(hub)
    edge.peer.send(frames.attach_receiver("late", 2, address=TRACKING_ADDRESS))
    edge.peer.end.feed(frames.credit(32, 2))
    assert edge.told() == [("M0q", True)]


def portions_told(hub: Hub, edge: EdgePeer) -> list[list[tuple[str, bool]]]:
    """What is told at once, and in each turn after."""
    told = [edge.told()]
    while core_of(hub).context.portions:
        core_of(hub).context.portions.run()
        hub.turn()
        told.append(edge.told())
    return told


def test_an_edge_with_many_senders_is_told_anew_in_portions(hub: Hub) -> None:
    edge = EdgePeer(hub, tracking=False)
    count = 3 * A_PORTION
    for number in range(count):
        edge.sender(f"q.{number}")
        consumer(hub, f"q.{number}")
    edge.peer.end.feed(frames.attach_receiver("late", 2, address=TRACKING_ADDRESS))
    edge.peer.end.feed(frames.credit(count, 2))
    parts = portions_told(hub, edge)
    assert sorted(chain(*parts)) == sorted((f"M0q.{number}", True) for number in range(count))
    assert max(map(len, parts)) <= A_PORTION
    receiver = consumer(hub, "q.other")
    receiver.send(frames.detach())
    assert portions_told(hub, edge) == [[]]


def test_many_senders_to_one_address_are_told_in_portions(hub: Hub) -> None:
    """Each has its own message, as each link may be that of another edge router."""
    edge = EdgePeer(hub)
    count = 3 * A_PORTION
    for _ in range(count):
        edge.sender("q")
    edge.peer.end.feed(frames.credit(2 * count, TRACKING))
    receiver = consumer(hub)
    parts = portions_told(hub, edge)
    assert list(chain(*parts)) == [("M0q", True)] * count
    assert max(map(len, parts)) <= A_PORTION
    receiver.send(frames.detach())
    consumer(hub)
    parts = portions_told(hub, edge)
    told = list(chain(*parts))  # who has heard that it is gone hears that it is back
    assert len(told) == 2 * sum(not there for _, there in told)
    assert max(map(len, parts)) <= 2 * A_PORTION


def test_an_edge_that_takes_no_tracking_messages_is_lost(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "MAX_WAITING_TRACKING", 3)
    edge = EdgePeer(hub, tracking=False)
    edge.peer.send(frames.attach_receiver("late", 2, address=TRACKING_ADDRESS))
    edge.sender("q")
    receiver = consumer(hub)
    assert not edge.peer.conn.over
    for _ in range(2):
        receiver.send(frames.detach())
        receiver.send(frames.attach_receiver(address="q"))
    assert edge.peer.conn.over


@pytest.mark.parametrize(
    ("capability", "sends", "key"),
    [
        ("qd.fallback", True, "MFq"),
        ("qd.fallback", False, "MFq"),
        ("qd.waypoint.1", True, "M1q"),
        ("qd.waypoint.1", False, "M0q"),
        ("qd.waypoint", True, "M1q"),
        ("qd.waypoint.3", False, "M2q"),
    ],
)
def test_phases_and_fallback_of_an_edge_need_no_configuration_here(
    hub: Hub, capability: str, sends: bool, key: str
) -> None:
    edge = EdgePeer(hub)
    (edge.sender if sends else edge.receiver)("q", capability=capability)
    address = core_of(hub).addresses[key]
    assert (len(address.producers), len(address.consumers)) == ((1, 0) if sends else (0, 1))


def test_a_redirected_message_goes_to_the_fallback_consumer(hub: Hub) -> None:
    configure(hub, "q", enableFallback=True)
    edge = EdgePeer(hub)
    handle = edge.receiver("q", capability="qd.fallback")
    producer(hub).send(frames.transfer(0, encode_message(Message(body="x")), settled=True))
    (message,) = [m for at, m in edge.arrived() if at == handle]
    annotations = message.message_annotations or {}
    assert (annotations["x-opt-qd.to"], annotations["x-opt-qd.phase"]) == ("q", 22)


# ---- no echo
@pytest.mark.parametrize("distribution", ["closest", "balanced", "multicast"])
@pytest.mark.parametrize("settled", [True, False])
def test_what_an_edge_sends_never_comes_back(hub: Hub, distribution: str, settled: bool) -> None:
    configure(hub, "q", distribution=distribution)
    edge, other = EdgePeer(hub), EdgePeer(hub, "F")
    mine, theirs = edge.receiver("q"), other.receiver("q")
    handle = edge.sender("q")
    for _ in range(6):
        edge.send(handle, settled=settled)
        edge.send(UP, Message(to="q"), settled=settled)
    assert (len(edge.on(mine)), len(other.on(theirs))) == (0, 12)


@pytest.mark.parametrize("distribution", ["closest", "balanced", "multicast"])
def test_what_only_its_own_consumers_could_take_is_released(hub: Hub, distribution: str) -> None:
    configure(hub, "q", distribution=distribution)
    edge = EdgePeer(hub)
    mine = edge.receiver("q")
    handle = edge.sender("q")
    edge.send(handle, settled=False)
    edge.send(UP, Message(to="q"), settled=False)
    assert edge.outcomes() == [RELEASED, RELEASED]
    assert edge.on(mine) == []


def test_a_delivery_that_may_not_go_back_does_not_stop_the_others(hub: Hub) -> None:
    edge = EdgePeer(hub)
    mine = edge.receiver("q")
    slow = consumer(hub, credit=0)
    handle = edge.sender("q")
    edge.send(handle, Message(body="from the edge"))
    sender = producer(hub)
    for number in range(3):
        sender.send(frames.transfer(number, encode_message(Message(body=number)), settled=True))
    assert edge.on(mine) == [0, 1, 2]
    edge.send(handle, Message(body="again"))
    slow.end.feed(frames.credit(10))
    seen = [f for f in slow.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    bodies = [decode_message(f.payload).body for f in seen]
    assert bodies == ["from the edge", "again"]


def test_what_waits_for_others_is_released_when_only_the_edge_itself_is_left(hub: Hub) -> None:
    edge = EdgePeer(hub)
    mine = edge.receiver("q", credit=0)
    slow = consumer(hub, credit=0)
    handle = edge.sender("q")
    edge.send(handle, settled=False)
    assert edge.told() == [("M0q", True)]
    slow.send(frames.detach())
    assert edge.outcomes() == [RELEASED]
    edge.peer.end.feed(frames.credit(1, mine))
    assert edge.on(mine) == []


@pytest.mark.parametrize("distribution", ["closest", "balanced"])
def test_consumers_beside_those_of_the_edge_take_turns(hub: Hub, distribution: str) -> None:
    configure(hub, "q", distribution=distribution)
    first, edge = consumer(hub), EdgePeer(hub)
    mine = [edge.receiver("q") for _ in range(3)]
    second = consumer(hub)
    handle = edge.sender("q")
    for _ in range(8):
        edge.send(handle)
    assert (count(first), count(second)) == (4, 4)
    assert not [body for link in mine for body in edge.on(link)]


@pytest.mark.parametrize("distribution", ["closest", "balanced"])
@pytest.mark.parametrize("priority", [0, 5])
def test_with_consumers_at_the_edge_only_another_router_gets_the_message(
    hub: Hub, distribution: str, priority: int
) -> None:
    """Whatever priority the edge gave its own consumer, which may not have the message."""
    configure(hub, "q", distribution=distribution)
    edge, remote = EdgePeer(hub), neighbour(hub, "X")
    edge.receiver("q")
    core_of(hub).addresses["M0q"].consumers[0].consumer_priority = priority
    core_of(hub).addresses["M0q"].prioritized = priority > 0
    core_of(hub).remote_routers.add_consumers("X", "M0q", 1)
    remote.frames()
    handle = edge.sender("q")
    for _ in range(3):
        edge.send(handle)
    assert count(remote) == 3


# ---- the end of many links
def test_producers_that_leave_change_nothing_for_the_others(hub: Hub) -> None:
    """Else the end of thousands of links of one address costs the square of their number."""
    edge = EdgePeer(hub)
    handles = [edge.sender("q") for _ in range(20)]
    consumer(hub)
    address = core_of(hub).addresses["M0q"]
    looked: list[str] = []
    tell = core_of(hub).address_table.on_tracked
    core_of(hub).address_table.on_tracked = lambda at: (looked.append(at.key), tell(at))  # type: ignore[assignment, func-returns-value]
    for left, handle in reversed(list(enumerate(handles))):
        edge.detach(handle)
        assert len(address.tracked or ()) == left
    assert not looked
    assert address.tracked is None
