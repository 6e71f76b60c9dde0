"""The queue of an address: groups by the connection that bars deliveries, and the order across them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.kit.steps import steps
from tests.unit.core.edge_peer import UP, EdgePeer
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition
from waymesh_amqp.types import Symbol
from waymesh_router.core.forwarding.annotations import Annotations
from waymesh_router.core.forwarding.pending_queue import PendingQueue
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import Queued

SLACK = 40
"""Steps by which one event may differ from another: far fewer than one for each delivery that waits."""


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def consumer(hub: Hub, credit: int = 0) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    return peer


def waiting(hub: Hub) -> int:
    queue = core_of(hub).addresses["M0q"].pending
    return 0 if queue is None else len(queue)


def fill(edges: list[EdgePeer], each: int) -> None:
    """All edge routers send unsettled messages to q, in turns."""
    for number in range(each):
        for edge in edges:
            edge.send(UP, Message(to="q", body=f"{edge.id}{number}"), settled=False)


def bodies(peer: Peer) -> list[Any]:
    return [decode_message(f.payload).body for f in peer.frames() if isinstance(f, frames.Seen) and f.payload]


def from_router(hub: Hub, body: int, chosen: bool) -> bytes:
    """A message to q as router B sends it. `chosen`: B knew what the consumers of this router can take."""
    notes: dict[Any, Any] = {Symbol("x-opt-qd.ingress"): "0/B", Symbol("x-opt-qd.trace"): ["0/B"]}
    if chosen:
        notes |= {Symbol("x-opt-qd.to"): f"_topo/0/{core_of(hub).router_id}/q", Symbol("x-opt-qd.phase"): 39}
    return encode_message(Message(message_annotations=notes, to="q", body=body))


# ---- order
def test_a_queue_has_its_deliveries_in_order_of_arrival() -> None:
    first, second = Queued(None, Annotations("R")), Queued(None, Annotations("R"))
    queue = PendingQueue()
    queue.append(first)
    queue.append(second)
    assert len(queue) == 2
    assert list(queue) == [first, second]
    assert len(PendingQueue()) == 0


@pytest.mark.parametrize("settled", [False, True])
def test_what_a_router_sends_stays_in_order_whether_it_is_meant_for_this_router_or_not(
    hub: Hub, settled: bool
) -> None:
    """The ingress router names this router only while it knows what its consumers can take."""
    source, peer = neighbour(hub, "B"), consumer(hub)
    for number, chosen in enumerate([False, True, False, True, True, False]):
        source.send(frames.transfer(number, from_router(hub, number, chosen), handle=3, settled=settled))
    assert waiting(hub) == 6
    for done in range(6):
        peer.end.feed(frames.credit(1, delivery_count=done))
    assert bodies(peer) == list(range(6))


def test_what_came_from_other_routers_and_what_entered_here_take_turns(hub: Hub) -> None:
    source, peer = neighbour(hub, "B"), consumer(hub)
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender())
    for number in range(3):
        body = encode_message(Message(body=f"own {number}"))
        sender.send(frames.transfer(number, body, settled=False))
    for number in range(3):
        source.send(frames.transfer(number, from_router(hub, number, number > 0), handle=3, settled=False))
    assert waiting(hub) == 6
    peer.end.feed(frames.credit(6))
    got = bodies(peer)
    assert [body for body in got if isinstance(body, int)] == [0, 1, 2]
    assert [body for body in got if isinstance(body, str)] == ["own 0", "own 1", "own 2"]
    assert len({type(body) for body in got[:2]}) == 2


def test_a_queue_is_compacted_and_loses_nothing(hub: Hub) -> None:
    """So many wait that the places of those that have left are freed several times."""
    reader, producer = consumer(hub), hub.peer().open().begin()
    producer.send(frames.attach_sender())
    producer.send(*(frames.transfer(number, frames.message(b"%d" % number), settled=True) for number in range(200)))
    queue = core_of(hub).addresses["M0q"].pending
    assert queue is not None
    found: list[bytes] = []
    for sent in range(0, 200, 20):
        reader.end.feed(frames.credit(20, delivery_count=sent))
        found += [frame.payload for frame in reader.frames() if isinstance(frame, frames.Seen) and frame.payload]
        assert len(queue) == 180 - sent
    assert found == [frames.message(b"%d" % number) for number in range(200)]
    assert core_of(hub).addresses["M0q"].pending is None


def test_deliveries_that_leave_from_among_others_free_their_places(hub: Hub) -> None:
    """Many links abort an incomplete delivery each: those before and behind them stay in order."""
    reader, whole = consumer(hub), hub.peer().open().begin()
    whole.send(frames.attach_sender())
    aborting = hub.peer().open().begin()
    aborting.send(*(frames.attach_sender(f"a{n}", n) for n in range(200)))
    for n in range(200):
        aborting.send(frames.transfer(n, frames.message(b"gone"), handle=n, more=True))
        if n % 50 == 0:
            whole.send(frames.transfer(n // 50, frames.message(b"%d" % n)))
    assert waiting(hub) == 204
    aborting.send(*(frames.transfer(None, handle=n, aborted=True) for n in range(199, -1, -1)))
    assert waiting(hub) == 4
    reader.end.feed(frames.credit(10))
    found = [frame.payload for frame in reader.frames() if isinstance(frame, frames.Seen) and frame.payload]
    assert found == [frames.message(b"%d" % n) for n in (0, 50, 100, 150)]


def test_deliveries_of_several_edge_routers_go_out_in_order_of_arrival(hub: Hub) -> None:
    reader, edges = consumer(hub), [EdgePeer(hub, name) for name in "EFG"]
    fill(edges, 3)
    assert waiting(hub) == 9
    reader.end.feed(frames.credit(4))
    reader.end.feed(frames.credit(6, delivery_count=4))
    assert bodies(reader) == [f"{name}{number}" for number in range(3) for name in "EFG"]
    assert core_of(hub).addresses["M0q"].pending is None


def test_what_one_connection_bars_does_not_stop_others(hub: Hub) -> None:
    """Edge E has the only ready consumer: it gets what came from elsewhere, in order, and keeps what is its own."""
    stalled, sender = consumer(hub), hub.peer().open().begin()
    sender.send(frames.attach_sender())
    one, other = EdgePeer(hub, "E"), EdgePeer(hub, "F")
    fill([one, other], 2)
    sender.send(frames.transfer(0, frames.message(b"c")))
    ready = one.receiver("q", 10)
    assert one.on(ready) == ["F0", "F1", b"c"]
    fill([other], 1)
    assert one.on(ready) == ["F0"]
    assert waiting(hub) == 2
    stalled.end.feed(frames.credit(10))
    assert bodies(stalled) == ["E0", "E1"]


def test_what_has_only_its_own_edge_router_left_is_released(hub: Hub) -> None:
    stalled, one, other = consumer(hub), EdgePeer(hub, "E"), EdgePeer(hub, "F")
    one.receiver("q", 0)
    fill([other, one], 2)
    stalled.send(frames.detach())
    assert (one.outcomes(), other.outcomes()) == ([RELEASED, RELEASED], [])
    assert waiting(hub) == 2


def test_what_has_no_path_is_released_while_others_wait_for_a_consumer(hub: Hub) -> None:
    """The only consumer that is left, at router C, has no credit: what a client here sends waits for it. Router B does
    not send over this router to C."""
    stalled, sender, edge = consumer(hub), hub.peer().open().begin(), EdgePeer(hub, "E")
    source, _ = neighbour(hub, "B"), neighbour(hub, "C", credit=0)
    core_of(hub).remote_routers.add_consumers("C", "M0q", BALANCED)
    sender.send(frames.attach_sender())
    sender.send(*(frames.transfer(number, frames.message()) for number in range(3)))
    for number in range(4):
        source.send(frames.transfer(number, from_router(hub, number, False), handle=3, settled=False))
    fill([edge], 2)
    assert waiting(hub) == 9
    source.frames()
    stalled.send(frames.detach())
    told = [f.performative for f in source.frames() if isinstance(f, frames.Seen)]
    ended = [one for one in told if isinstance(one, Disposition)]
    assert all(one.state == RELEASED for one in ended)
    assert sum((one.first if one.last is None else one.last) - one.first + 1 for one in ended) == 4
    assert edge.outcomes() == []
    assert waiting(hub) == 5


def test_what_only_its_own_edge_router_could_get_is_released_while_others_wait_for_it(hub: Hub) -> None:
    stalled, sender, edge = consumer(hub), hub.peer().open().begin(), EdgePeer(hub, "E")
    sender.send(frames.attach_sender())
    sender.send(*(frames.transfer(number, frames.message()) for number in range(3)))
    edge.receiver("q", 0)
    fill([edge], 2)
    stalled.send(frames.detach())
    assert edge.outcomes() == [RELEASED, RELEASED]
    assert waiting(hub) == 3


def test_an_edge_router_that_reconnects_begins_a_new_group(hub: Hub) -> None:
    reader, edge = consumer(hub), EdgePeer(hub, "E")
    fill([edge], 2)
    edge.peer.kill()
    again = EdgePeer(hub, "E")
    fill([again], 1)
    reader.end.feed(frames.credit(10))
    assert bodies(reader) == ["E0", "E1", "E0"]
    reader.send(frames.disposition(0, last=2))
    assert again.outcomes() == [ACCEPTED]


# ---- steps
def steps_of_messages(edges: int, each: int) -> list[int]:
    """The steps of a further message from an edge router and from a client, while so many wait for one consumer."""
    hub = core_hub()
    consumer(hub)
    peers = [EdgePeer(hub, f"E{number}") for number in range(edges)]
    fill(peers, each)
    last, sender = peers[-1], hub.peer().open().begin()
    sender.send(frames.attach_sender())
    message = encode_message(Message(to="q", body="x"))
    from_edge = frames.transfer(last.deliveries, message, handle=UP, settled=False)
    from_client = frames.transfer(0, frames.message())
    found = [steps(lambda: last.peer.end.feed(from_edge)), steps(lambda: sender.end.feed(from_client))]
    assert waiting(hub) == edges * each + 2
    return found


def steps_of_a_flow(edges: int, each: int) -> int:
    """The steps of a flow of an edge router from which the oldest deliveries came."""
    hub = core_hub()
    consumer(hub)
    peers = [EdgePeer(hub, f"E{number}") for number in range(edges)]
    fill(peers[:1], each)
    fill(peers, each)
    handle = peers[0].receiver("q", 0)
    flow = frames.credit(1, handle)
    found = steps(lambda: peers[0].peer.end.feed(flow))
    assert waiting(hub) == (edges + 1) * each - 1
    assert peers[0].on(handle) == ["E10"]
    return found


def steps_of_an_abort(waiting_before: int) -> int:
    hub = core_hub()
    consumer(hub)
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender("a", 0), frames.attach_sender("b", 1))
    sender.send(frames.transfer(0, frames.message(), handle=1, more=True))
    sender.send(*(frames.transfer(n, frames.message(), settled=True) for n in range(1, waiting_before + 1)))
    abort = frames.transfer(None, handle=1, aborted=True)
    found = steps(lambda: sender.end.feed(abort))
    assert waiting(hub) == waiting_before
    return found


def test_a_message_takes_no_more_steps_however_many_of_edge_routers_wait() -> None:
    few, many = steps_of_messages(2, 2), steps_of_messages(40, 20)
    assert max(many) <= max(few) + SLACK


def test_a_flow_takes_no_more_steps_however_many_of_edge_routers_wait() -> None:
    assert steps_of_a_flow(40, 20) <= steps_of_a_flow(2, 2) + SLACK


def steps_while_messages_of_a_router_wait(count: int) -> list[int]:
    """The steps of a further message of another router, of one of a client, and of a flow for one message, while as
    many of each wait."""
    hub = core_hub()
    source, peer, sender = neighbour(hub, "B"), consumer(hub), hub.peer().open().begin()
    sender.send(frames.attach_sender())
    for number in range(count):
        source.send(frames.transfer(number, from_router(hub, number, number % 2 > 0), handle=3, settled=False))
        sender.send(frames.transfer(number, frames.message(), settled=False))
    from_router_b = frames.transfer(count, from_router(hub, 0, True), handle=3, settled=False)
    from_client = frames.transfer(count, frames.message(), settled=False)
    found = [
        steps(lambda: source.end.feed(from_router_b)),
        steps(lambda: sender.end.feed(from_client)),
        steps(lambda: peer.end.feed(frames.credit(1))),
    ]
    assert waiting(hub) == 2 * count + 1
    return found


def test_no_event_takes_more_steps_however_many_messages_of_other_routers_wait() -> None:
    few, many = steps_while_messages_of_a_router_wait(2), steps_while_messages_of_a_router_wait(100)
    assert all(more <= less + SLACK for less, more in zip(few, many, strict=True))


def test_an_abort_takes_no_more_steps_however_many_wait() -> None:
    assert steps_of_an_abort(200) <= steps_of_an_abort(2) + SLACK
