"""Records of the forwarding state: what an address, a remote router and a queue know of themselves."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import Address, Node, Queued, RouterLink, Target


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def link(hub: Hub) -> RouterLink:
    """The link of a consumer of another address."""
    hub.peer().open().begin().send(frames.attach_receiver(address="other"))
    (link,) = core_of(hub).links.values()
    return link


def q() -> Address:
    return Address("M0q", BALANCED)


def take(message: bytes, link: RouterLink) -> None:
    """A subscriber that ignores what it gets."""


# ---- remote routers
def test_a_router_is_reached_directly_or_over_its_next_hop(hub: Hub) -> None:
    near, far = Node("B"), Node("C")
    assert far.neighbour() is None
    far.next_hop = near
    assert far.neighbour() is None, "there is no connection to B"
    near.connection = neighbour(hub, "B").conn
    assert (near.neighbour(), far.neighbour()) == (near, near)


def test_a_cheaper_path_wins_over_the_direct_link(hub: Hub) -> None:
    near, other = Node("B"), Node("C")
    near.connection = neighbour(hub, "B").conn
    other.connection = neighbour(hub, "C").conn
    other.next_hop = near
    assert other.neighbour() is near


# ---- addresses
def test_an_address_that_nobody_uses() -> None:
    address = q()
    assert address.unused()
    assert not address.reachable()


def test_consumers_and_exchanges_are_what_other_routers_must_know(link: RouterLink) -> None:
    address = q()
    address.subscriber = take
    assert (address.served_here(), address.serves_router(), address.direct()) == (False, True, True)
    address.exchange = True
    assert (address.served_here(), address.serves_router()) == (True, False)
    address.subscriber, address.exchange = None, False
    address.consumers.append(link)
    assert (address.served_here(), address.direct(), address.unused()) == (True, True, False)


def test_a_remote_consumer_counts_while_a_path_leads_there(hub: Hub) -> None:
    address, node = q(), Node("B")
    address.targets["B"] = Target(node, address)
    assert (address.directed(), address.reachable()) == (False, False)
    assert not address.unused()
    node.connection = neighbour(hub, "B").conn
    assert (address.directed(), address.reachable()) == (True, True)


def test_a_consumer_of_the_fallback_makes_an_address_reachable_not_direct(link: RouterLink) -> None:
    address, fallback = q(), Address("MFq", BALANCED)
    address.fallback, fallback.primary = fallback, address
    assert not address.reachable()
    fallback.consumers.append(link)
    assert (address.reachable(), address.direct()) == (True, False)


def test_a_fallback_is_kept_as_long_as_its_address() -> None:
    address, fallback = q(), Address("MFq", BALANCED)
    fallback.primary = address
    assert not fallback.unused()
    address.dead = True
    assert fallback.unused()


# ---- deliveries
def test_a_delivery_has_the_bytes_of_all_its_frames(link: RouterLink) -> None:
    queued = Queued(link, None)
    assert queued.payload() == b""
    queued.data = b"first"
    queued.later = [b" and", b" more"]
    assert queued.payload() == b"first and more"


# ---- links
def test_a_link_counts_what_waits_for_its_credit_alone(hub: Hub, link: RouterLink) -> None:
    assert link.undelivered() == 0
    multicast = {"pattern": None, "prefix": "q", "distribution": "multicast", "waypoint": False}
    core_of(hub).address_table.add_pattern({**multicast, "ingressPhase": None, "egressPhase": None})
    hub.peer().open().begin().send(frames.attach_receiver())
    hub.peer().open().begin().send(frames.attach_sender(), frames.transfer(0), frames.transfer(1))
    (consumer,) = core_of(hub).addresses["M0q"].consumers
    assert consumer.undelivered() == 2


def test_a_waiting_record_has_no_dict() -> None:
    assert not hasattr(Queued(None, None), "__dict__"), "thousands wait, and a dict takes time"
