"""Clients that serve an address as its waypoint or its fallback destination, by capabilities of their termini."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, RELEASED, Party, PartyLink
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.errors import PRECONDITION_FAILED
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.states import OPENED
from waymesh_amqp.types import Symbol

ADDRESSES = (
    "address {\nprefix: stored\nenableFallback: yes\n}\n"
    "address {\nprefix: queue\nwaypoint: yes\n}\n"
    "address {\nprefix: chain\negressPhase: 2\n}\n"
)
NAMES = pytest.mark.parametrize("names", ["A", "AB"])


class Clients:
    """A mesh of one or two routers; clients attach to the last one, or to the first (`at=0`)."""

    def __init__(self, names: str) -> None:
        self.network = Network()
        self.parties: list[Party] = []
        self.routers = [self.network.router(name, ADDRESSES) for name in names]
        if len(names) > 1:
            self.network.cable(*names)
        self.network.start()
        self.network.until(lambda: not faults(self.network), 3.0)
        self.network.run(0.2)

    def party(self, at: int) -> tuple[Party, Any]:
        party = Party(self.network, f"client{len(self.parties)}")
        self.parties.append(party)
        conn = party.dial(self.routers[at])
        self.network.until(lambda: conn.state == OPENED, 1.0)
        return party, conn.open_session()

    def receiver(self, address: str, *capabilities: str, at: int = -1, credit: int = 10) -> tuple[Party, PartyLink]:
        party, session = self.party(at)
        source = Terminus("source", address=address, capabilities=[Symbol(c) for c in capabilities] or None)
        return self.attached(party, party.receiver(session, address, credit, source=source))

    def sender(self, address: str | None, *capabilities: str, at: int = -1) -> tuple[Party, PartyLink]:
        party, session = self.party(at)
        target = Terminus("target", address=address, capabilities=[Symbol(c) for c in capabilities] or None)
        return self.attached(party, party.sender(session, address, target=target))

    def attached(self, party: Party, link: PartyLink) -> tuple[Party, PartyLink]:
        self.network.until(lambda: link.attach is not None, 1.0)
        self.network.run(0.2)  # others are told
        return party, link

    def send(self, sender: tuple[Party, PartyLink], text: bytes) -> None:
        party, link = sender
        self.network.until(lambda: link.link.credit > 0, 1.0)
        party.send(link, message(text))
        self.network.run(0.1)

    def keys(self, at: int = -1) -> set[str]:
        return set(self.routers[at].router.core.addresses)


def texts(receiver: tuple[Party, PartyLink]) -> list[bytes]:
    return [got.data for got in receiver[1].got]


def settle(receiver: tuple[Party, PartyLink], number: int) -> None:
    receiver[0].settle(receiver[1].got[number])


@NAMES
def test_a_clients_fallback_gets_what_has_no_consumer_and_brings_it_back(names: str) -> None:
    made = Clients(names)
    keeper = made.receiver("stored.1", "qd.fallback")
    back = made.sender("stored.1", "qd.fallback")
    sender = made.sender("stored.1", at=0)
    made.send(sender, b"kept")
    assert texts(keeper) == [message(b"kept")]
    settle(keeper, 0)
    assert back[1].link.credit == 0, "nobody takes what it brings back"
    consumer = made.receiver("stored.1", at=0)
    made.send(back, b"kept")
    made.send(sender, b"direct")
    assert texts(consumer) == [message(b"kept"), message(b"direct")]
    for number in (0, 1):
        settle(consumer, number)
    made.network.run(0.1)
    assert sender[1].outcomes == [(True, ACCEPTED)] * 2
    assert back[1].outcomes == [(True, ACCEPTED)]
    assert len(texts(keeper)) == 1


@NAMES
def test_what_a_fallback_brings_back_does_not_return_to_it(names: str) -> None:
    made = Clients(names)
    keeper = made.receiver("stored.1", "qd.fallback")
    consumer = made.receiver("stored.1", credit=0)
    back = made.sender("stored.1", "qd.fallback")
    made.send(back, b"kept")
    consumer[1].link.detach()
    consumer[0].wake()
    made.network.run(0.2)
    assert back[1].outcomes == [(True, RELEASED)]
    assert texts(keeper) == []


@NAMES
@pytest.mark.parametrize("capability", ["qd.waypoint", "qd.waypoint_1"])
def test_a_client_is_the_waypoint_of_an_address(names: str, capability: str) -> None:
    made = Clients(names)
    taking = made.receiver("queue.1", capability)
    giving = made.sender("queue.1", capability)
    sender, consumer = made.sender("queue.1", at=0), made.receiver("queue.1", at=0)
    made.send(sender, b"in")
    assert (texts(taking), texts(consumer)) == ([message(b"in")], [])
    settle(taking, 0)
    made.send(giving, b"out")
    assert (len(texts(taking)), texts(consumer)) == (1, [message(b"out")])
    settle(consumer, 0)
    made.network.run(0.1)
    assert sender[1].outcomes == giving[1].outcomes == [(True, ACCEPTED)]


def test_clients_are_the_waypoints_of_a_chain() -> None:
    made = Clients("AB")
    sender, consumer = made.sender("chain.1", at=0), made.receiver("chain.1", at=0)
    first, second = "qd.waypoint_1", "qd.waypoint_2"
    takes = [made.receiver("chain.1", name) for name in (first, second)]
    gives = [made.sender("chain.1", name, at=0) for name in (first, second)]
    made.send(sender, b"0")
    made.send(gives[0], b"1")
    made.send(gives[1], b"2")
    assert [texts(takes[0]), texts(takes[1]), texts(consumer)] == [[message(b"0")], [message(b"1")], [message(b"2")]]


@pytest.mark.parametrize("receiver", [True, False])
@pytest.mark.parametrize(
    ("address", "capabilities"),
    [
        ("plain", ["qd.fallback"]),
        ("queue.1", ["qd.fallback"]),
        ("plain", ["qd.waypoint"]),
        ("stored.1", ["qd.waypoint_2"]),
        ("$management", ["qd.waypoint"]),
        ("queue.1", ["qd.waypoint", "qd.waypoint_2"]),
        ("queue.1", ["qd.waypoint", "qd.fallback"]),
    ],
)
def test_places_that_an_address_does_not_have_are_refused(
    receiver: bool, address: str, capabilities: list[str]
) -> None:
    made = Clients("A")
    before = made.keys()
    attach = made.receiver if receiver else made.sender
    assert attach(address, *capabilities)[1].condition == PRECONDITION_FAILED
    assert made.keys() == before


def test_an_anonymous_sender_has_no_place() -> None:
    assert Clients("A").sender(None, "qd.waypoint")[1].condition == PRECONDITION_FAILED


def test_the_fallback_ends_with_its_client() -> None:
    made = Clients("A")
    party, _ = made.receiver("stored.1", "qd.fallback")
    sender = made.sender("stored.1")
    made.send(sender, b"kept")
    party.drop()
    made.network.run(0.2)
    assert sender[1].link.credit == 0
