"""Long and unfinished messages between routers go on links of their own, and delay nobody."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Party, PartyLink
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.delivery import Delivery
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import Transfer, encode_frame
from waymesh_amqp.session import Session
from waymesh_amqp.states import OPENED

HALF = bytes(20_000)
LARGE = message(bytes(3_000_000))
"""More than the window of a session between routers."""
FRAME = 16000
SOON_S = 0.5


class Pair:
    """Clients of two routers. Each link of `here` has a client of its own."""

    def __init__(self, network: Network, near: SimRouter, far: SimRouter) -> None:
        self.network = network
        self.near, self.far = near, far
        self.parties: list[Party] = []

    def session(self, router: SimRouter) -> tuple[Party, Session]:
        party = Party(self.network, f"client{len(self.parties)}")
        self.parties.append(party)
        conn = party.dial(router)
        self.network.until(lambda: conn.state == OPENED, 1.0)
        return party, conn.open_session()

    def consumer(self, address: str, credit: int = 100) -> tuple[Party, PartyLink]:
        party, session = self.session(self.far)
        return party, party.receiver(session, address, credit)

    def producer(self, address: str | None) -> tuple[Party, PartyLink]:
        party, session = self.session(self.near)
        link = party.sender(session, address)
        self.network.until(lambda: link.link.credit > 0, 5.0)
        return party, link


def mesh(kind: str, streaming: bool = True) -> Pair:
    """`line`: A – B – C; `up`: edge E – A – B; `down`: A – B – edge E."""
    network = Network()
    network.chunked = 0.01
    names = ["A", "B", "C"] if kind == "line" else ["A", "B"]
    for name in names:
        network.router(name)
    for one, other in itertools.pairwise(names):
        network.cable(other, one)
    if kind != "line":
        network.edge("E", ["A" if kind == "up" else "B"])
    network.start()
    network.routers["B"].core.context.streaming = streaming
    network.until(lambda: not faults(network), 5.0)
    if kind != "line":
        edge = network.edges["E"]
        network.until(lambda: edge.core.uplink.active is not None, 5.0)
    near = network.edges["E"] if kind == "up" else network.routers["A"]
    far = network.edges["E"] if kind == "down" else network.routers[names[-1]]
    return Pair(network, near, far)


def begin(party: Party, link: PartyLink, part: bytes, to: str | None = None) -> None:
    """The first half of a message."""
    data = encode_message(Message(to=to, body=part * 2))[: -len(part)]
    oid = send_first(link.link, False, True, data, 0, 0, b"", 0, len(data), 0)
    delivery = Delivery()
    delivery.out, delivery.oid = link.link, oid
    assert link.link.session.unsettled_out.put(delivery)
    party.wake()


def complete(party: Party, link: PartyLink, rest: bytes) -> None:
    """Send the rest of a message; the window of the session must have room for it."""
    session, conn = link.link.session, link.link.connection
    for at in range(0, len(rest), FRAME):
        terms = Transfer(link.link.handle, more=at + FRAME < len(rest))
        conn.put(encode_frame(session.channel, terms, rest[at : at + FRAME]))
        session.next_outgoing_id += 1
        session.remote_window -= 1
    assert session.remote_window >= 0
    link.link.busy = False
    conn.mark_dirty()
    party.wake()


def streams(router: SimRouter) -> dict[Any, Any]:
    """The links for single senders that a router has opened."""
    users: dict[Any, Any] = router.core.streams.links.users
    return users


KINDS = ["line", "up", "down"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [HALF, bytes(300_000)], ids=["short part", "long part"])
@pytest.mark.parametrize("addressed", [True, False], ids=["by link", "by message"])
def test_a_message_that_is_never_completed_delays_no_other(kind: str, part: bytes, addressed: bool) -> None:
    pair = mesh(kind)
    _, big = pair.consumer("big")
    taker, small = pair.consumer("small")
    slow, slow_link = pair.producer("big" if addressed else None)
    quick, quick_link = pair.producer("small" if addressed else None)
    pair.network.run(SOON_S)
    begin(slow, slow_link, part, "big")
    pair.network.run(SOON_S)
    assert big.parts.endswith(bytes(10_000)), "the consumer gets what has arrived"
    for _ in range(20):
        quick.send(quick_link, encode_message(Message(to="small", body=b"x")))
    pair.network.until(lambda: len(small.got) == 20, SOON_S)
    for got in small.got:
        taker.settle(got)
    pair.network.until(lambda: quick_link.outcomes == [(True, ACCEPTED)] * 20, SOON_S)
    complete(slow, slow_link, part)
    pair.network.until(lambda: len(big.got) == 1, SOON_S)
    assert decode_message(big.got[0].data).body == part * 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_message_for_a_consumer_without_credit_delays_no_other(kind: str) -> None:
    pair = mesh(kind)
    holder, big = pair.consumer("big", 0)
    _, small = pair.consumer("small")
    pair.network.run(SOON_S)
    loaded, loaded_link = pair.producer("big")
    quick, quick_link = pair.producer("small")
    loaded.send(loaded_link, LARGE)
    pair.network.run(SOON_S)
    for _ in range(20):
        quick.send(quick_link, message(b"x"))
    pair.network.until(lambda: len(small.got) == 20, SOON_S)
    big.link.capacity = 10
    big.link.grant()
    holder.wake()
    pair.network.until(lambda: len(big.got) == 1, 5.0)
    assert big.got[0].data == LARGE
    holder.settle(big.got[0])
    pair.network.until(lambda: loaded_link.outcomes == [(True, ACCEPTED)], SOON_S)


@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "pre-settled"])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_one_sender_arrive_in_order(kind: str, settled: bool) -> None:
    pair = mesh(kind)
    _, mixed = pair.consumer("mixed")
    pair.network.run(SOON_S)
    party, link = pair.producer("mixed")
    sent = [message(b"%d" % number + bytes(400_000 if number % 5 == 0 else 50)) for number in range(20)]
    for data in sent:
        pair.network.until(lambda: link.link.ready(), 5.0)
        party.send(link, data, settled)
    pair.network.until(lambda: len(mixed.got) == 20, 5.0)
    assert [got.data for got in mixed.got] == sent


@pytest.mark.parametrize("kind", KINDS)
def test_the_links_end_when_they_are_not_used(kind: str) -> None:
    pair = mesh(kind)
    taker, big = pair.consumer("big")
    pair.network.run(SOON_S)
    party, link = pair.producer("big")
    before = {name: len(router.core.links) for name, router in everybody(pair).items()}
    for number in range(3):
        pair.network.until(lambda: link.link.ready(), 5.0)
        party.send(link, message(bytes(300_000)))
        pair.network.until(lambda: len(big.got) == number + 1, 5.0)  # noqa: B023 (called at once)
        taker.settle(big.got[-1])
    assert len(streams(pair.near)) == 1
    pair.network.run(12.0)
    assert not any(streams(router) for router in everybody(pair).values())
    assert {name: len(router.core.links) for name, router in everybody(pair).items()} == before
    assert all(router.core.budget.kept == 0 for router in everybody(pair).values())


def everybody(pair: Pair) -> dict[str, SimRouter]:
    return {**pair.network.routers, **pair.network.edges}


@pytest.mark.parametrize("kind", KINDS)
def test_an_abort_frees_the_consumer(kind: str) -> None:
    pair = mesh(kind)
    _, big = pair.consumer("big")
    pair.network.run(SOON_S)
    slow, slow_link = pair.producer("big")
    begin(slow, slow_link, bytes(300_000))
    pair.network.run(SOON_S)
    slow.drop()
    pair.network.until(lambda: big.aborted == 1, SOON_S)
    other, link = pair.producer("big")
    other.send(link, message(b"next"))
    pair.network.until(lambda: len(big.got) == 1, SOON_S)
    pair.network.run(12.0)
    assert not any(streams(router) for router in everybody(pair).values())


@pytest.mark.parametrize("who", ["near", "middle", "far"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_router_that_is_lost_leaves_one_outcome_and_no_copy(kind: str, who: str) -> None:
    """Either the sender sees the loss itself, or it gets one outcome, and the message comes once at most."""
    pair = mesh(kind)
    _, big = pair.consumer("big")
    pair.network.run(SOON_S)
    senders = [pair.producer("big") for _ in range(2)]
    for party, link in senders:
        begin(party, link, bytes(300_000))
    pair.network.run(SOON_S)
    lost = {"near": pair.near, "far": pair.far, "middle": pair.network.routers["A" if kind == "up" else "B"]}[who]
    lost.crash()
    pair.network.run(1.0)
    for party, link in senders:
        if not link.gone:
            complete(party, link, bytes(300_000))
    pair.network.run(20.0)
    for _, link in senders:
        assert link.gone == (who == "near")
        assert [settled for settled, _ in link.outcomes] == ([] if link.gone else [True])
    assert len(big.got) == 0
    alive = [router for router in everybody(pair).values() if router is not lost]
    assert not any(streams(router) for router in alive)
    assert all(router.core.budget.kept == 0 for router in alive)


def test_a_router_without_the_capability_gets_no_such_links() -> None:
    pair = mesh("line", streaming=False)
    taker, big = pair.consumer("big")
    pair.network.run(SOON_S)
    party, link = pair.producer("big")
    party.send(link, LARGE)
    pair.network.until(lambda: len(big.got) == 1, 5.0)
    taker.settle(big.got[0])
    assert not any(streams(router) for router in everybody(pair).values())
    pair.network.until(lambda: link.outcomes == [(True, ACCEPTED)], SOON_S)
