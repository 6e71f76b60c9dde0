"""The first consumer of an exclusive address gets all, here or at the router that tells the lowest number."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.demand import KEY, Told, got, later, record, remote, send, turn
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import UP, EdgePeer
from waymesh_amqp.message import Message
from waymesh_amqp.performatives import Detach
from waymesh_amqp.types import Symbol
from waymesh_router.core.forwarding.exclusive import ASKS, FIRST, FOLLOWS, LAST, Exclusive, update
from waymesh_router.core.forwarding.ranks import has_priorities
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, MULTICAST


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


def consumer(hub: Hub, credit: int = 10, exclusive: object = None, treatment: int = BALANCED) -> Peer:
    """A client with a consumer of `q`."""
    core_of(hub).address_table.get(KEY, treatment)
    peer = hub.peer().open().begin()
    properties = None if exclusive is None else {Symbol("exclusive"): exclusive}
    peer.send(frames.attach_receiver(properties=properties), frames.credit(credit))
    return peer


def tell(hub: Hub, router_id: str, place: int, room: int, exclusive: int = ASKS, highest: int = 9) -> None:
    """Another router tells the number of its first consumer."""
    body = {"address": KEY, "window": room, "ranks": [-place, room], "exclusive": exclusive, "highest": highest}
    core_of(hub).demand.arrived(router_id, body)
    turn(hub)


def last_told(told: Told, router_id: str) -> tuple[int, int, int]:
    """Number, `exclusive` and `highest` of the last message to a router."""
    body: Any = [body for router, body in told.take() if router == router_id][-1]
    return -body["ranks"][0], body["exclusive"], body["highest"]


def test_the_first_of_this_router_gets_all_and_the_next_follows(hub: Hub) -> None:
    peers = [consumer(hub, exclusive=True) for _ in range(3)]
    send(hub, 4)
    assert [got(peer) for peer in peers] == [4, 0, 0]
    peers[0].kill()
    send(hub, 3)
    assert [got(peer) for peer in peers[1:]] == [3, 0]


def test_what_it_has_no_credit_for_waits(hub: Hub) -> None:
    peers = [consumer(hub, credit=2, exclusive=True), consumer(hub)]
    send(hub, 5)
    assert [got(peer) for peer in peers] == [2, 0]
    peers[0].kill()
    turn(hub)
    assert got(peers[1]) == 3, "what waited; what the first had not settled was given back"


def test_the_lowest_number_of_all_routers_gets_all_up_to_its_room(hub: Hub, told: Told) -> None:
    peers = [remote(hub, name) for name in "BC"]
    here = consumer(hub)
    tell(hub, "B", 5, 10)
    tell(hub, "C", FIRST, 3)
    send(hub, 7)
    assert [got(peer) for peer in peers] == [0, 3]
    assert got(here) == 0
    tell(hub, "C", 7, 3)
    assert [got(peer) for peer in peers] == [4, 0], "C's first has left, and its next one comes later"


def test_of_equal_numbers_the_lower_id_comes_first(hub: Hub, told: Told) -> None:
    peers = [remote(hub, name) for name in "CB"]
    tell(hub, "C", 4, 10)
    tell(hub, "B", 4, 10)
    send(hub, 2)
    assert [got(peer) for peer in peers] == [0, 2]


def test_a_consumer_gets_the_number_after_the_highest_that_is_known(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    tell(hub, "B", FIRST, 10, highest=6)
    consumer(hub)
    later(hub, 0.3)
    assert last_told(told, "B") == (7, FOLLOWS, 7)
    consumer(hub, exclusive=True)
    later(hub, 0.3)
    assert last_told(told, "B") == (7, ASKS, 8)


def test_who_leads_tells_1_and_who_hears_1_of_a_lower_id_does_not_any_more(hub: Hub, told: Told) -> None:
    remote(hub, "0")
    core_of(hub).nodes["0"].demand = True
    consumer(hub, exclusive=True)
    later(hub, 0.3)
    assert last_told(told, "0")[0] == 2, "the other one has not told yet"
    tell(hub, "0", 3, 10, FOLLOWS)
    later(hub, 0.3)
    assert last_told(told, "0")[0] == FIRST
    tell(hub, "0", FIRST, 10)
    later(hub, 0.3)
    assert last_told(told, "0")[0] == 2


def test_it_ends_with_its_reason(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    consumer(hub)
    tell(hub, "B", FIRST, 10)
    address = core_of(hub).addresses[KEY]
    assert address.exclusive
    assert address.prioritized
    tell(hub, "B", FIRST, 10, FOLLOWS)
    assert address.exclusive is None
    assert not address.prioritized


@pytest.mark.parametrize("treatment", [CLOSEST, MULTICAST])
def test_other_distributions_refuse_it(hub: Hub, treatment: int) -> None:
    condition, description = refusal(hub, True, treatment)
    assert condition == "amqp:precondition-failed"
    assert "distribution balanced" in description


def test_a_property_that_is_no_boolean_is_refused(hub: Hub) -> None:
    assert refusal(hub, "yes", BALANCED)[0] == "amqp:invalid-field"


def refusal(hub: Hub, exclusive: object, treatment: int) -> tuple[str, str]:
    """The error of a refused receiver."""
    core_of(hub).address_table.get(KEY, treatment)
    peer = hub.peer().open().begin()
    replies = peer.send(frames.attach_receiver(properties={Symbol("exclusive"): exclusive}))
    (detach,) = [one for one in replies if isinstance(one, Detach)]
    assert detach.error is not None
    return str(detach.error.condition), detach.error.description or ""


def test_a_configured_address_is_exclusive_until_the_entity_is_deleted(hub: Hub) -> None:
    table = core_of(hub).address_table
    attrs = {"prefix": "q", "pattern": None, "distribution": "balanced", "exclusive": True, "waypoint": False}
    attrs |= {"egressPhase": None, "ingressPhase": None}
    table.add_pattern(attrs)
    peers = [consumer(hub) for _ in range(2)]
    send(hub, 4)
    assert [got(peer) for peer in peers] == [4, 0]
    table.remove_pattern(attrs)
    turn(hub)
    send(hub, 4)
    assert got(peers[1]) == 4, "those with fewer unsettled ones"


def test_numbers_of_consumers() -> None:
    consumers: list[Any] = []
    own = Exclusive("A", consumers)
    one, two = (type("Link", (), {"unsettled": 3, "credit": 4})() for _ in range(2))
    assert (own.first(), own.number(), own.room()) == (None, LAST, {})
    for out in (one, two):
        consumers.append(out)
        own.join(out)
    own.join(one)
    assert (own.number(), own.highest, own.room()) == (2, 3, {-2: 7})
    consumers.remove(one)
    own.leave(one)
    own.leave(one)
    assert (own.first(), own.number()) == (two, 3)
    assert own.is_news()
    assert not own.is_news()


class Counted(list[Any]):
    """A list that counts what is taken from it one by one."""

    taken = 0

    def __iter__(self) -> Iterator[Any]:
        for one in list.__iter__(self):
            self.taken += 1
            yield one


def test_a_client_that_comes_and_goes_does_not_have_all_consumers_numbered() -> None:
    """It asks for exclusiveness by its link, at an address with 20,000 other consumers."""
    consumers = Counted(type("Link", (), {"unsettled": 0, "credit": 1})() for _ in range(20_000))
    address: Any = SimpleNamespace(
        key="M0q", treatment=BALANCED, config=None, targets={}, asking=0, preferred=0, consumers=consumers,
        exclusive=None,
    )
    eager = type("Link", (), {"unsettled": 0, "credit": 1})()
    for _ in range(3):
        consumers.append(eager)
        address.asking = 1
        assert update(address, "A")
        own = address.exclusive
        assert own.first() is consumers[0]
        assert own.agree(address)
        assert (own.number(), own.room()) == (FIRST, {-FIRST: 1})
        del consumers[-1]
        own.leave(eager)
        address.asking = 0
        assert update(address, "A")
        assert not has_priorities(address)
    assert consumers.taken == 0


def test_consumers_that_were_there_before_come_first_in_their_order() -> None:
    links = [type("Link", (), {"unsettled": 0, "credit": 1})() for _ in range(4)]
    consumers: list[Any] = links[:2]
    own = Exclusive("A", consumers, 7)
    assert (own.first(), own.number(), own.highest) == (links[0], 8, 8)
    for late in links[2:]:
        consumers.append(late)
        own.join(late)
    order = []
    while consumers:
        order.append(own.number())
        own.leave(consumers.pop(0))
    assert order == [8, 8, 9, 10]


def test_what_waits_for_the_only_other_router_keeps_no_credit_of_an_edge_router(hub: Hub, told: Told) -> None:
    """Its link is that of all its anonymous senders."""
    there, edge = remote(hub, "B"), EdgePeer(hub)
    tell(hub, "B", FIRST, 2)
    for _ in range(5):
        edge.send(UP, Message(to="q", body="x"), settled=False)
    assert got(there) == 2
    up = next(link for link in core_of(hub).links.values() if link.edge and link.anonymous)
    assert (up.outstanding, up.unsettled) == (0, 5)


def test_presettled_ones_pass_what_waits_for_the_only_other_router(hub: Hub, told: Told) -> None:
    there = remote(hub, "B")
    tell(hub, "B", FIRST, 2)
    send(hub, 5)
    assert got(there) == 2
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(), *[frames.transfer(number, settled=True) for number in range(3)])
    assert got(there) == 3
