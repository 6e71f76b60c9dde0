"""Deliveries in progress, counted on request."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub
from waymesh_router.core import unsettled
from waymesh_router.core.core import Core
from waymesh_router.core.unsettled import (
    Unsettled,
    at_rest,
    client_senders,
    count_unsettled,
    is_expensive_to_count,
    mobile_traffic,
    only_manages,
)


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def pair(hub: Hub, credit: int) -> tuple[Peer, Peer]:
    """A consumer and a producer of one address."""
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender())
    return consumer, producer


def count(hub: Hub) -> Unsettled:
    core = hub.handler
    assert isinstance(core, Core)
    return count_unsettled(core.connections.values(), core.links.values(), core.addresses.values())


@pytest.mark.parametrize(
    ("credit", "settled", "left"),
    [(10, False, 3), (0, False, 3), (2, False, 3), (0, True, 3), (2, True, 1), (10, True, 0)],
    ids=["sent", "waiting", "sent and waiting", "settled, waiting", "settled, one waits", "settled, sent"],
)
def test_a_delivery_between_clients_counts_once(hub: Hub, credit: int, settled: bool, left: int) -> None:
    _, producer = pair(hub, credit)
    producer.send(*(frames.transfer(number, settled=settled) for number in range(3)))
    assert count(hub) == Unsettled(left, 0)


def test_nothing_is_left_after_the_outcomes(hub: Hub) -> None:
    consumer, producer = pair(hub, 10)
    producer.send(*(frames.transfer(number) for number in range(3)))
    assert not at_rest(consumer.conn)
    assert not at_rest(producer.conn)
    consumer.send(frames.disposition(0, last=2))
    assert not count(hub)
    assert at_rest(consumer.conn)
    assert at_rest(producer.conn)


def test_a_delivery_that_is_not_all_in_keeps_its_sender(hub: Hub) -> None:
    consumer, producer = pair(hub, 10)
    producer.send(frames.transfer(0, settled=True, more=True))
    assert count(hub).clients > 0
    assert not at_rest(producer.conn)
    producer.send(frames.transfer(0, settled=True))
    assert not count(hub)
    assert at_rest(consumer.conn)


def test_links_to_the_router_itself_are_no_traffic(hub: Hub) -> None:
    core = hub.handler
    assert isinstance(core, Core)
    _, producer = pair(hub, 10)
    producer.send(frames.transfer(0))
    assert [link.connection for link in client_senders(core.links.values())] == [producer.conn]
    assert mobile_traffic(core.addresses.values()) == 2, "one in and one out"
    assert not only_manages(producer.conn)


@pytest.mark.parametrize(("limit", "much"), [(0, True), (1000, False)])
def test_a_count_that_would_take_long_is_known_before(
    hub: Hub, limit: int, much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsettled, "MUCH", limit)
    pair(hub, 10)
    core = hub.handler
    assert isinstance(core, Core)
    assert is_expensive_to_count(core) == much
