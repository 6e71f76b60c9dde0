"""Choice of the link for a delivery where consumers are on other routers too."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.kit.steps import lines
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Flow, Transfer
from waymesh_amqp.types import Byte, Symbol
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, MULTICAST

SLACK = 40
"""Lines by which two measurements may differ: longer numbers, which are encoded in other ways."""


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


# ---- waiting deliveries and consumers without credit
def receivers(hub: Hub, count: int, **over: Any) -> Peer:
    """A peer with so many consumers of `q`, by handle, none of which has issued credit."""
    peer = hub.peer().open().begin(incoming_window=10_000)
    peer.send(*(frames.attach_receiver(f"r{handle}", handle, **over) for handle in range(count)))
    return peer


def credit(handle: int, amount: int, seen: int = 0) -> bytes:
    return frames.credit(amount, handle, seen, incoming_window=10_000)


def lines_of_a_flow(count: int, **over: Any) -> int:
    """The lines of a flow for one of so many consumers, which gets a waiting delivery."""
    hub = core_hub()
    peer, last = receivers(hub, count, **over), count - 1
    send(producer(hub), 10)
    peer.send(credit(last, 1))
    flow = credit(last, 1, 1)
    found = lines(lambda: peer.end.feed(flow))
    assert handles(peer) == [last]
    assert len(core_of(hub).addresses["M0q"].pending or ()) == 8
    return found


@pytest.mark.parametrize("over", [{}, {"properties": {Symbol("priority"): Byte(3)}}], ids=["equal", "priorities"])
def test_a_flow_costs_the_same_however_many_consumers_have_no_credit(over: dict[str, Any]) -> None:
    assert lines_of_a_flow(1000, **over) <= lines_of_a_flow(3, **over) + SLACK


def test_credit_that_is_left_is_used_when_others_have_used_theirs_up(hub: Hub) -> None:
    peer, sender = receivers(hub, 3), producer(hub)
    sender.send(frames.transfer(0), frames.transfer(1))
    peer.end.feed(credit(0, 1) + credit(1, 3))
    assert handles(peer) == [0, 1]
    sender.send(*(frames.transfer(number) for number in range(2, 7)))
    assert handles(peer) == [1, 1], "three wait"
    peer.end.feed(credit(0, 1, 1) + credit(2, 1))
    assert handles(peer) == [0, 2]
    peer.end.feed(credit(1, 5, 3))
    assert handles(peer) == [1]


@pytest.mark.parametrize("seed", range(5))
def test_nobody_else_has_credit_if_a_consumer_is_the_only_one_that_may(hub: Hub, seed: int) -> None:
    """Whatever happens, and every delivery that waits is sent as soon as anybody can take it."""
    rng = random.Random(seed)
    peer, sender = receivers(hub, 4), producer(hub)
    address = core_of(hub).addresses["M0q"]
    known, sent, attached = 0, 0, dict.fromkeys(range(4), 0)
    for _ in range(300):
        action = rng.random()
        handle = rng.choice(list(attached))
        if action < 0.5:
            sender.end.feed(frames.transfer(sent))
            sent += 1
        elif action < 0.9:
            peer.end.feed(credit(handle, rng.choice((0, 1, 1, 2)), attached[handle]))
        elif action < 0.95 and len(attached) > 2:
            peer.end.feed(frames.detach(handle))
            del attached[handle]
        else:
            fresh = 10 + sent + len(attached) + known
            known += 1
            peer.end.feed(frames.attach_receiver(f"late{fresh}", fresh))
            attached[fresh] = 0
        for answer in peer.take():
            if isinstance(answer, Transfer):
                attached[answer.handle] = attached.get(answer.handle, 0) + 1
        if address.pending is not None:
            assert all(link.credit <= 0 for link in address.consumers)
            if address.lone is not None:
                assert address.lone in address.consumers


def test_a_consumer_that_has_left_is_not_kept(hub: Hub) -> None:
    peer = receivers(hub, 3)
    send(producer(hub), 3)
    peer.send(credit(0, 1))
    address: Any = core_of(hub).addresses["M0q"]
    assert address.lone is not None
    peer.send(frames.detach(0))
    assert address.lone is None
    peer.send(credit(2, 2))
    assert address.pending is None


# ---- many routers
def far(hub: Hub, count: int, treatment: int, credit: int = 100) -> list[Peer]:
    """Two neighbours, and so many routers with consumers of `q` behind them."""
    peers = [remote(hub, name, treatment, credit=credit) for name in ("B", "C")]
    core = core_of(hub)
    for number in range(count):
        core.remote_routers.node_up(f"far{number}")
        core.nodes[f"far{number}"].next_hop = core.nodes["BC"[number % 2]]
        core.remote_routers.add_consumers(f"far{number}", "M0q", treatment)
    return peers


def lines_of_a_waiting_message(routers: int, treatment: int) -> int:
    hub = core_hub()
    far(hub, routers, treatment, credit=0)
    sender = producer(hub)
    send(sender, 3)
    message = frames.transfer(3)
    found = lines(lambda: sender.end.feed(message))
    assert len(core_of(hub).addresses["M0q"].pending or ()) == 4
    return found


@pytest.mark.parametrize("treatment", [BALANCED, CLOSEST], ids=["balanced", "closest"])
def test_a_message_that_waits_costs_the_same_however_many_routers_have_consumers(treatment: int) -> None:
    assert lines_of_a_waiting_message(100, treatment) <= lines_of_a_waiting_message(2, treatment) + SLACK


def test_all_neighbours_serve_what_waits_for_them(hub: Hub) -> None:
    peers = far(hub, 10, BALANCED, credit=0)
    send(producer(hub), 6)
    for peer, count in zip(peers, (2, 4), strict=True):
        peer.end.feed(frames.credit(count, 2))
        assert len(handles(peer)) == count
    assert core_of(hub).addresses["M0q"].pending is None


def lines_of_a_multicast(routers: int) -> int:
    hub = core_hub()
    peers = far(hub, routers, MULTICAST)
    sender = producer(hub)
    send(sender, 2, settled=True)
    message = frames.transfer(2, settled=True)
    found = lines(lambda: sender.end.feed(message))
    assert [len(handles(peer)) for peer in peers] == [3, 3]
    return found


def test_a_multicast_costs_the_same_however_many_routers_are_behind_a_neighbour() -> None:
    assert lines_of_a_multicast(100) <= lines_of_a_multicast(2) + SLACK


def test_a_multicast_takes_new_paths_at_once(hub: Hub) -> None:
    near, other = remote(hub, "B", MULTICAST), neighbour(hub, "C")
    core = core_of(hub)
    sender = producer(hub)
    sender.send(frames.transfer(0, settled=True))
    assert [len(handles(peer)) for peer in (near, other)] == [1, 0]
    core.nodes["B"].next_hop = core.nodes["C"]
    core.remote_routers.update_paths()
    sender.send(frames.transfer(1, settled=True))
    assert [len(handles(peer)) for peer in (near, other)] == [0, 1]
    core.remote_routers.remove_consumers("B", "M0q")
    sender.send(frames.transfer(2, settled=True))
    assert [len(handles(peer)) for peer in (near, other)] == [0, 0]


def outstanding(consumers: list[Peer]) -> list[int]:
    """How many deliveries each consumer was sent since the last look."""
    return [len(handles(peer)) for peer in consumers]


@pytest.mark.parametrize("each", [1, 10, 60])
def test_few_deliveries_are_spread_evenly(hub: Hub, each: int) -> None:
    consumers = [local(hub, 100) for _ in range(4)]
    sender = producer(hub)
    for number in range(4 * each):
        sender.send(frames.transfer(number))
        if number % 4 == 3:
            assert outstanding(consumers) == [1, 1, 1, 1]


def test_many_deliveries_are_spread_evenly_except_for_short_runs(hub: Hub) -> None:
    consumers = [local(hub, 400) for _ in range(2)]
    sent = [0, 0]
    for sender in [producer(hub) for _ in range(3)]:
        for number in range(200):
            sender.send(frames.transfer(number))
            sent = [a + b for a, b in zip(sent, outstanding(consumers), strict=True)]
            assert max(sent) - min(sent) <= 1 + min(max(sent) // 64, 4)
    assert sum(sent) == 600


def test_a_consumer_that_has_settled_all_gets_the_next_delivery_before_others_get_more(hub: Hub) -> None:
    consumers = [local(hub, 200) for _ in range(2)]
    sender = producer(hub)
    address = core_of(hub).addresses["M0q"]
    count = 0
    while address.run == 0 or count < 150:
        sender.send(frames.transfer(count))
        count += 1
    sent = outstanding(consumers)
    idle = 1 - address.turn  # the other one would get more
    consumers[idle].send(frames.disposition(0, last=sent[idle] - 1))
    sender.send(frames.transfer(count))
    assert outstanding(consumers)[idle] == 1


def test_a_run_ends_with_the_credit_of_its_consumer(hub: Hub) -> None:
    consumers = [local(hub, 70), local(hub, 100)]
    send(producer(hub), 170)
    assert outstanding(consumers) == [70, 100]
