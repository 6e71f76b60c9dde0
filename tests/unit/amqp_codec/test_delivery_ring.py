"""Deliveries of ended links: each is visited once, however many links end with their session."""

from __future__ import annotations

import gc

import pytest

from waymesh_amqp.connection import Connection
from waymesh_amqp.delivery import Delivery, DeliveryRing
from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings

LINKS = 20
DELIVERIES = 200


def filled(outgoing: bool) -> tuple[DeliveryRing, list[Link], list[Delivery]]:
    """A ring with deliveries of several links in turn."""
    session = Session(Connection(ConnectionSettings("engine"), Handler(), 0.0), 0, 100)
    links = [Link(session) for _ in range(LINKS)]
    ring = DeliveryRing(outgoing)
    deliveries = []
    for i in range(DELIVERIES):
        d = Delivery()
        d.did = d.oid = i
        d.link = d.out = links[i % LINKS]
        assert ring.put(d)
        deliveries.append(d)
    return ring, links, deliveries


@pytest.mark.parametrize("outgoing", [False, True])
def test_all_links_of_a_session_look_at_each_delivery_once(outgoing: bool) -> None:
    ring, links, deliveries = filled(outgoing)
    visits = 0
    for i, link in enumerate(links):
        for d in list(ring.of(link)):
            visits += 1
            assert d is deliveries[d.did]
            assert d.did % LINKS == i
            ring.drop(d)
    assert visits == DELIVERIES
    assert ring.count == 0


def test_what_was_sorted_by_link_serves_all_links_until_another_delivery_comes() -> None:
    ring, links, deliveries = filled(True)
    ring.of(links[0])
    ring.drop(deliveries[1])
    assert deliveries[1] in ring.of(links[1]), "sorted once"
    late = Delivery()
    late.oid, late.out = DELIVERIES, links[0]
    ring.put(late)
    assert late in ring.of(links[0])


@pytest.mark.parametrize("outgoing", [False, True])
def test_links_that_have_ended_are_forgotten(outgoing: bool) -> None:
    """Else a link, its session and these deliveries would keep each other."""
    ring, links, _ = filled(outgoing)
    for link in links:
        for d in ring.of(link):
            ring.drop(d)
            d.link = d.out = None
    assert not set(map(id, links)) & _reached(ring)


def _reached(ring: DeliveryRing) -> set[int]:
    """Ids of what the ring and its tables refer to."""
    tables = gc.get_referents(ring)
    return {id(one) for one in (*tables, *gc.get_referents(*tables))}


def test_a_link_without_deliveries_and_one_of_nobody() -> None:
    ring, links, deliveries = filled(False)
    stranger = Link(links[0].session)
    assert ring.of(stranger) == []
    gone = deliveries[0]
    ring.drop(gone)
    gone.link = None
    ring.put(gone)
    assert gone not in ring.of(links[0])
    assert ring.count == DELIVERIES
