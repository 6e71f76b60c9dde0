"""Choice of the link for a delivery where consumers are on other routers too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Flow, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, MULTICAST


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def remote(hub: Hub, router_id: str, treatment: int, cost: int = 1, **over: Any) -> Peer:
    """A neighbour with a consumer of `q`."""
    peer = neighbour(hub, router_id, **over)
    core = core_of(hub)
    core.nodes[router_id].cost = cost
    core.remote_routers.add_consumers(router_id, "M0q", treatment)
    return peer


def local(hub: Hub, credit: int = 10) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender())
    return peer


def send(peer: Peer, count: int, **over: Any) -> None:
    peer.send(*[frames.transfer(number, **over) for number in range(count)])


def handles(peer: Peer) -> list[int]:
    """The handles of the transfers that a peer was sent since the last look."""
    seen = [f.performative for f in peer.frames() if isinstance(f, Seen)]
    return [p.handle for p in seen if isinstance(p, Transfer)]


@pytest.mark.parametrize(
    ("costs", "counts"), [((1, 2), [6, 0]), ((2, 1), [0, 6]), ((1, 1), [3, 3])], ids=["B nearer", "C nearer", "equal"]
)
def test_closest_takes_turns_among_the_nearest_routers(hub: Hub, costs: tuple[int, int], counts: list[int]) -> None:
    peers = [remote(hub, router_id, CLOSEST, cost) for router_id, cost in zip("BC", costs, strict=True)]
    send(producer(hub), 6)
    assert [len(handles(peer)) for peer in peers] == counts


def test_closest_prefers_local_consumers_even_without_credit(hub: Hub) -> None:
    peer = remote(hub, "B", CLOSEST)
    consumer = local(hub, 2)
    send(producer(hub), 3)
    assert (len(handles(consumer)), len(handles(peer))) == (2, 0)


@pytest.mark.parametrize(("cost", "at_home"), [(1, 4), (2, 4), (3, 5), (50, 6)])
def test_balanced_counts_the_cost_of_a_router_as_deliveries_under_way(hub: Hub, cost: int, at_home: int) -> None:
    peer = remote(hub, "B", BALANCED, cost)
    consumer = local(hub, 100)
    send(producer(hub), 6)
    assert (len(handles(consumer)), len(handles(peer))) == (at_home, 6 - at_home)


def test_balanced_goes_to_another_router_when_nobody_here_has_credit(hub: Hub) -> None:
    peer = remote(hub, "B", BALANCED, 50)
    local(hub, 0)
    send(producer(hub), 3)
    assert len(handles(peer)) == 3


def test_balanced_forgets_what_was_settled(hub: Hub) -> None:
    near, far = remote(hub, "B", BALANCED, 1), remote(hub, "C", BALANCED, 5)
    sender = producer(hub)
    for number in range(10):
        sender.send(frames.transfer(number))
        assert len(handles(near)) == 1
        near.send(frames.disposition(number))
    assert handles(far) == []


def test_a_router_behind_a_neighbour_is_reached_through_it(hub: Hub) -> None:
    peer = neighbour(hub, "B")
    core = core_of(hub)
    core.remote_routers.node_up("C")
    core.nodes["C"].next_hop = core.nodes["B"]
    core.remote_routers.add_consumers("C", "M0q", CLOSEST)
    send(producer(hub), 2)
    assert len(handles(peer)) == 2


def test_a_router_without_a_path_is_no_consumer(hub: Hub) -> None:
    core = core_of(hub)
    core.remote_routers.node_up("C")
    core.remote_routers.add_consumers("C", "M0q", CLOSEST)
    assert not core.addresses["M0q"].reachable()
    answers = hub.peer().open().begin().send(frames.attach_sender())
    assert not any(isinstance(f, Flow) and f.link_credit for f in answers)


def test_multicast_sends_one_copy_to_each_neighbour(hub: Hub) -> None:
    near = [remote(hub, "B", MULTICAST), remote(hub, "C", MULTICAST)]
    core = core_of(hub)
    core.remote_routers.node_up("D")
    core.nodes["D"].next_hop = core.nodes["B"]
    core.remote_routers.add_consumers("D", "M0q", MULTICAST)
    consumer = local(hub)
    send(producer(hub), 2, settled=True)
    assert [len(handles(peer)) for peer in (*near, consumer)] == [2, 2, 2]


def from_mesh(address: str, ingress: str, trace: list[str]) -> bytes:
    """A message as another router sends it."""
    notes = {Symbol("x-opt-qd.ingress"): ingress, Symbol("x-opt-qd.trace"): trace, Symbol("x-opt-qd.to"): address}
    return encode_message(Message(message_annotations=notes, body="x"))


@pytest.mark.parametrize(
    ("ingress", "trace", "origins", "passed"),
    [
        ("B", ["0/B"], {"B"}, True),
        ("B", ["0/B"], set(), False),
        ("B", ["0/B", "0/C"], {"B"}, False),
        ("D", ["0/D", "0/B"], {"D"}, True),
        ("D", ["0/D", "0/B"], {"B"}, False),
    ],
)
@pytest.mark.parametrize("treatment", [CLOSEST, BALANCED, MULTICAST])
def test_a_delivery_follows_the_tree_of_the_router_where_it_entered(
    hub: Hub, treatment: int, ingress: str, trace: list[str], origins: set[str], passed: bool
) -> None:
    source, target = neighbour(hub, "B"), remote(hub, "C", treatment)
    core_of(hub).nodes["C"].valid_origins = origins
    source.send(frames.transfer(0, from_mesh("q", ingress, trace), handle=3, settled=True))
    assert len(handles(target)) == passed
    assert handles(source) == []


@pytest.mark.parametrize(("links", "priority", "handle"), [(1, 9, 2), (10, 0, 2), (10, 4, 10), (10, 9, 20), (3, 9, 6)])
def test_the_priority_selects_the_data_link(hub: Hub, links: int, priority: int, handle: int) -> None:
    peer = remote(hub, "B", CLOSEST, data_links=links)
    header = b"\x00\x53\x70\xc0\x04\x02\x40\x50" + bytes((priority,))
    producer(hub).send(frames.transfer(0, header + frames.message()))
    assert handles(peer) == [handle]
