"""A link to another router is lost for which deliveries of message groups wait: at more addresses than are told at
once.

In random orders, with few addresses: test_many_lost_routers.py.
"""

from __future__ import annotations

from collections import defaultdict

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.groups import ALL_SLOTS, got, message
from tests.kit.pump import Peer
from tests.unit.core.test_many_lost_groups import MANY, WINDOW, Scene, order
from waymesh_router.core.forwarding.groups import Groups
from waymesh_router.core.forwarding.lost_links import FEW, LostLinks
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.portions import COST_A_TURN

ADDRESSES = 4 * COST_A_TURN
EACH = 3
"""Deliveries at each address: many altogether, which take more turns than to tell all addresses."""


class Places:
    """Addresses with message groups, and a sender for each; the messages of one are a group."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.sender = self.scene.peer(frames.attach_sender("s0", 0, address="q.0"))
        for number in range(1, ADDRESSES):
            self.sender.send(frames.attach_sender(f"s{number}", number, address=f"q.{number}"))
        self.sent = 0
        self.last: dict[int, int] = defaultdict(int)

    @property
    def lost_links(self) -> LostLinks:
        found: LostLinks = self.scene.core.streams.lost_links
        return found

    def groups(self, number: int) -> Groups:
        own: Groups = self.scene.core.addresses[f"M0q.{number}"].groups
        return own

    def router(self, router_id: str, credit: int = 0) -> Peer:
        """Another router with a consumer of each address."""
        peer = neighbour(self.scene.hub, router_id, credit=0)
        core = self.scene.core
        core.nodes[router_id].demand = True
        slots = (ALL_SLOTS >> 1).to_bytes(128, "big")
        for number in range(ADDRESSES):
            core.remote_routers.add_consumers(router_id, f"M0q.{number}", BALANCED)
            core.demand.arrived(router_id, {"address": f"M0q.{number}", "groups": 1, "slots": slots})
        while core.context.portions:
            self.scene.portion()
        if credit:
            peer.end.feed(frames.credit(credit, 2, incoming_window=WINDOW))
        self.scene.hub.turn()
        return peer

    def lose(self, router_id: str, peer: Peer) -> None:
        peer.kill()
        for number in range(ADDRESSES):
            self.scene.core.remote_routers.remove_consumers(router_id, f"M0q.{number}")
        self.scene.core.remote_routers.node_down(router_id)

    def send(self, number: int) -> None:
        """A message for the group of an address, which has the number of the address as its name."""
        data = message(f"g{number}", self.last[number])
        self.last[number] += 1
        self.sender.end.feed(frames.transfer(self.sent, data, handle=number))
        self.sent += 1

    def check(self, found: list[str]) -> None:
        """All messages have come, those of each group in order, and nothing is left of the move."""
        for number in range(ADDRESSES):
            assert order(found, f"g{number}") == list(range(self.last[number])), number
            assert (self.groups(number).lost, self.groups(number).moving) == ({}, 0)
        assert not self.lost_links.untold
        assert self.scene.core.budget.kept == 0


def waiting() -> tuple[Places, Peer]:
    """Deliveries at each address wait for router B."""
    places = Places()
    other = places.router("B")
    for _ in range(EACH):
        for number in range(ADDRESSES):
            places.send(number)
    places.scene.hub.turn()
    assert other.conn.data_out[0].undelivered() == EACH * ADDRESSES
    return places, other


def told(places: Places) -> int:
    """Addresses that know of a lost link."""
    return sum(bool(places.groups(number).lost) for number in range(ADDRESSES))


def test_addresses_are_told_in_portions() -> None:
    places, other = waiting()
    places.router("C", MANY)
    other.kill()
    before = told(places)
    assert before <= COST_A_TURN
    assert len(places.lost_links.untold) == 1
    while places.lost_links.untold:
        places.scene.portion()
        assert before <= told(places) <= before + COST_A_TURN
        before = told(places)
    assert before > 0


def test_what_arrives_at_an_address_that_was_not_told_waits_behind_the_others() -> None:
    places, other = waiting()
    third = places.router("C", 10 * MANY)
    places.lose("B", other)
    untold = [number for number in range(ADDRESSES) if not places.groups(number).lost]
    assert len(untold) > FEW
    for number in untold[-FEW:]:
        places.send(number)
    places.scene.hub.turn()
    assert all(places.groups(number).lost for number in untold[-FEW:])
    places.scene.rest()
    places.check(got(third))
    places.send(untold[-1])
    assert order(got(third), f"g{untold[-1]}") == [EACH + 1]


def test_two_links_are_lost_before_the_addresses_know_of_the_first() -> None:
    """What has moved to the second one is older than what has not."""
    places, other = waiting()
    second = places.router("C")
    places.lose("B", other)
    link = second.conn.data_out[0]
    while link.undelivered() <= ADDRESSES:
        places.scene.portion()
    for number in range(ADDRESSES):
        places.send(number)
    third = places.router("D", 10 * MANY)
    places.lose("C", second)
    for number in reversed(range(ADDRESSES)):
        places.send(number)
    places.scene.rest()
    places.check(got(third))


def test_a_local_consumer_is_lost_before_its_address_knows_of_a_link() -> None:
    places, other = waiting()
    third = places.router("C", 10 * MANY)
    places.lose("B", other)
    number = ADDRESSES - 1
    assert not places.groups(number).lost
    consumer = places.scene.peer(frames.attach_receiver(address=f"q.{number}"))
    assert not places.groups(number).lost
    consumer.kill()
    assert places.groups(number).lost
    places.send(number)
    places.scene.rest()
    places.check(got(third))
