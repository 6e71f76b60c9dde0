"""One exchange: where copies of a message go, what becomes of the message, and its counters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import EdgePeer, configure
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.exchanges.exchange import MAX_EXCHANGES, Exchange, NextHop
from waymesh_router.core.forwarding.annotations import Annotations
from waymesh_router.core.link_kinds import PRESETTLED_WAITING
from waymesh_router.events.event import Event


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def exchange(hub: Hub, *bindings: tuple[str, str], alternate: str | None = None) -> Exchange:
    """The exchange `news`. `bindings`: key and next hop."""
    exchanges = core_of(hub).exchanges
    attrs = {"name": "news", "address": "news", "phase": 0, "alternateAddress": alternate, "alternatePhase": 0}
    exchanges.add({**attrs, "matchMethod": "amqp"})
    for number, (key, hop) in enumerate(bindings):
        bound = {"exchangeName": "news", "bindingKey": key, "nextHopAddress": hop, "nextHopPhase": 0}
        exchanges.bind({**bound, "identity": str(number)})
    return exchanges.by_name["news"]


def consumer(hub: Hub, address: str, credit: int = 100) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address=address), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address="news"))
    return peer


def send(peer: Peer, subject: str | None, number: int = 0, **over: Any) -> list[Any]:
    """Send a message; the states that the sender is told."""
    answers = peer.send(frames.transfer(number, encode_message(Message(subject=subject, body="x")), **over))
    return [answer.state for answer in answers if isinstance(answer, Disposition)]


def got(peer: Peer) -> list[Message]:
    seen = [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    return [decode_message(f.payload) for f in seen]


def counts(one: Exchange) -> tuple[int, int, int, int]:
    return one.received, one.forwarded, one.diverted, one.dropped


def test_each_next_hop_gets_one_copy_however_many_keys_match(hub: Hub) -> None:
    one = exchange(hub, ("a.*", "x"), ("#", "x"), ("a.b", "y"), ("c", "z"))
    x, y, z = (consumer(hub, address) for address in "xyz")
    assert send(producer(hub), "a.b") == [ACCEPTED]
    assert [len(got(peer)) for peer in (x, y, z)] == [1, 1, 0]
    assert counts(one) == (1, 1, 0, 0)
    assert [binding.matched for binding in one.bindings.values()] == [1, 1, 1, 0]


def test_consumers_of_the_exchange_s_own_address_get_every_message(hub: Hub) -> None:
    one = exchange(hub, ("a", "x"))
    own = consumer(hub, "news")
    assert send(producer(hub), "other") == [ACCEPTED]
    assert [message.subject for message in got(own)] == ["other"]
    assert counts(one) == (1, 1, 0, 0)


def test_a_message_that_nobody_takes_is_released(hub: Hub) -> None:
    one = exchange(hub, ("a", "x"))
    sender = producer(hub)
    assert send(sender, "a") == [RELEASED], "x has no consumer"
    assert send(sender, "b", 1) == [RELEASED], "no key matches"
    assert counts(one) == (2, 0, 0, 2)


def test_the_alternate_address_gets_what_nobody_else_takes(hub: Hub) -> None:
    one = exchange(hub, ("a", "x"), alternate="spare")
    x, spare = consumer(hub, "x"), consumer(hub, "spare")
    sender = producer(hub)
    assert [send(sender, subject, number) for number, subject in enumerate(("a", None))] == [[ACCEPTED]] * 2
    assert (len(got(x)), len(got(spare))) == (1, 1)
    assert counts(one) == (2, 1, 1, 0)


def test_copies_are_settled(hub: Hub) -> None:
    exchange(hub, ("a", "x"))
    x = consumer(hub, "x")
    send(producer(hub), "a")
    (frame,) = [f.performative for f in x.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert frame.settled


def test_a_slow_consumer_of_a_multicast_next_hop_loses_copies_that_others_get(hub: Hub) -> None:
    configure(hub, "x", distribution="multicast")
    one = exchange(hub, ("a", "x"))
    fast = hub.peer().open().begin(incoming_window=2000)
    fast.send(frames.attach_receiver(address="x"), frames.credit(2000, incoming_window=2000))
    slow, sender = consumer(hub, "x", 0), producer(hub)
    limit = PRESETTLED_WAITING * 250
    for number in range(limit + 10):
        send(sender, "a", number, settled=True)
    assert len(got(fast)) == limit + 10
    (link,) = (k for k in core_of(hub).links.values() if k.connection is slow.conn)
    assert (link.undelivered(), link.dropped_presettled) == (limit, 10)
    assert counts(one) == (limit + 10, limit + 10, 0, 0)


def test_all_addresses_that_copies_go_to(hub: Hub) -> None:
    assert exchange(hub, ("a", "x"), ("b", "amqp:/y"), alternate="z").leads_to() == {"M0x", "M0y", "M0z"}


@pytest.mark.parametrize(
    ("passed", "taken"),
    [
        (["B"], True),
        (list("BCDEF")[: MAX_EXCHANGES - 1], True),
        (["B", "R"], False),
        (list("BCDEF")[:MAX_EXCHANGES], False),
    ],
    ids=["one", "fewer than the limit", "this one", "the limit"],
)
def test_a_copy_that_goes_in_circles_is_dropped_and_the_log_says_so_once(
    hub: Hub, passed: list[str], taken: bool
) -> None:
    lines: list[str] = []

    def log(module: str, level: str, text: str, event: Event | None = None, /) -> None:
        lines.append(text)

    core_of(hub).context.log = log
    one = exchange(hub, ("#", "x"))
    x = consumer(hub, "x")
    marks = {Symbol("x-opt-qd.to"): "news", Symbol("x-opt-qd.exchanges"): [f"0/{router}" for router in passed]}
    message = encode_message(Message(message_annotations=marks, subject="a", body="x"))
    other = neighbour(hub, "B")
    other.send(*(frames.transfer(number, message, handle=3, settled=True) for number in range(2)))
    assert len(got(x)) == (2 if taken else 0)
    assert counts(one) == ((2, 2, 0, 0) if taken else (2, 0, 0, 2))
    told = f"exchange news: dropped a message that has passed exchanges of {', '.join(passed)}"
    assert lines == ([] if taken else [f"{told}; further ones are counted only"])


def test_a_copy_names_its_next_hop_and_the_routers_whose_exchanges_made_it() -> None:
    hop = NextHop("amqp:/x", 1, context("A"))
    assert (hop.to, hop.phase, hop.key) == ("x", "1", "M1x")
    first = hop.annotations(Annotations("B"))
    assert (first.to, first.phase, first.exchanges) == ("x", "1", ("A",))
    second = NextHop("y", 0, context("C")).annotations(first)
    assert second.exchanges == ("A", "C")
    assert first.exchanges == ("A",)


def context(router_id: str) -> CoreContext:
    return CoreContext(router_id, 0.0, random.Random(1), lambda *line: None)


@pytest.mark.parametrize("distribution", ["balanced", "closest", "multicast"])
def test_copies_return_to_the_edge_router_of_the_message(hub: Hub, distribution: str) -> None:
    """The edge router does not know of them. Consumers of the exchange's own address got the message there."""
    for address in ("news", "x", "other"):
        configure(hub, address, distribution=distribution)
    one = exchange(hub, ("a", "x"), alternate="other")
    edge = EdgePeer(hub, tracking=False)
    edge.receiver("news")
    x, other, sender = edge.receiver("x", credit=0), edge.receiver("other"), edge.sender("news")
    edge.outcomes()
    for number, subject in enumerate(("a", "b")):
        edge.send(sender, Message(subject=subject, body=subject), settled=False)
        assert edge.outcomes() == [ACCEPTED], number
    edge.seen(edge.peer.exchange(frames.credit(10, x)))
    assert sorted((at, m.body) for at, m in edge.arrived()) == [(x, "a"), (other, "b")]
    assert counts(one) == (2, 1, 1, 0)


@pytest.mark.parametrize("distribution", ["balanced", "multicast"])
def test_consumers_at_the_edge_router_alone_do_not_make_the_exchange_accept(hub: Hub, distribution: str) -> None:
    configure(hub, "news", distribution=distribution)
    one = exchange(hub, ("a", "x"))
    edge = EdgePeer(hub, tracking=False)
    edge.receiver("news")
    edge.send(edge.sender("news"), Message(subject="b"), settled=False)
    assert edge.outcomes() == [RELEASED]
    assert edge.arrived() == []
    assert counts(one) == (1, 0, 0, 1)
