"""Delivery counters of the router: by direction and by outcome. The counters are compiled: frames drive them."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import Container, neighbour
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.types import Symbol
from waymesh_router.core.counters import Counters
from waymesh_router.core.link_kinds import BALANCED, MULTICAST

DIRECTIONS = ("ingress", "egress", "transit", "from_containers", "to_containers")


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def counted(hub: Hub) -> dict[str, int]:
    """The counters of directions that are not 0."""
    counters: Counters = core_of(hub).counters
    values = {name: getattr(counters, name) for name in DIRECTIONS}
    return {name: value for name, value in values.items() if value}


def client(hub: Hub, *attach: bytes) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(*attach)
    return peer


def add_autolink(hub: Hub, direction: str) -> None:
    attrs = {"identity": "1", "direction": direction, "address": "q", "phase": 0, "connection": "broker"}
    core_of(hub).autolinks.add(attrs)


def test_a_router_counts_nothing_at_its_start() -> None:
    counters = Counters()
    names = (*DIRECTIONS, "presettled", "dropped_presettled", "accepted", "rejected", "released", "modified")
    assert [getattr(counters, name) for name in (*names, "redirected")] == [0] * (len(names) + 1)


def test_between_two_clients(hub: Hub) -> None:
    client(hub, frames.attach_receiver(), frames.credit(10))
    client(hub, frames.attach_sender()).send(frames.transfer(0), frames.transfer(1, settled=True))
    assert counted(hub) == {"ingress": 2, "egress": 2}
    address = core_of(hub).addresses["M0q"]
    assert (address.ingress, address.egress, address.transit) == (2, 2, 0)
    assert core_of(hub).counters.presettled == 1


def test_what_waits_has_come_in_and_not_gone_out(hub: Hub) -> None:
    client(hub, frames.attach_receiver())
    client(hub, frames.attach_sender()).send(frames.transfer(0))
    assert counted(hub) == {"ingress": 1}


def test_to_a_container(hub: Hub) -> None:
    add_autolink(hub, "out")
    Container(hub)
    client(hub, frames.attach_sender()).send(frames.transfer(0))
    assert counted(hub) == {"ingress": 1, "egress": 1, "to_containers": 1}


def test_from_a_container(hub: Hub) -> None:
    client(hub, frames.attach_receiver(), frames.credit(10))
    add_autolink(hub, "in")
    container = Container(hub)
    (link,) = container.active()
    container.send(frames.transfer(0, channel=link.channel, handle=link.handle))
    assert counted(hub) == {"ingress": 1, "egress": 1, "from_containers": 1}
    assert core_of(hub).addresses["M0q"].from_container == 1


def test_through_this_router_to_another_one(hub: Hub) -> None:
    before = neighbour(hub, "B")
    neighbour(hub, "C")
    core_of(hub).remote_routers.add_consumers("C", "M0q", BALANCED)
    message = Message(message_annotations={Symbol("x-opt-qd.to"): "q", Symbol("x-opt-qd.ingress"): "0/B"}, body="x")
    before.send(frames.transfer(0, encode_message(message), handle=3))
    assert counted(hub) == {"transit": 1}
    assert core_of(hub).addresses["M0q"].transit == 1


@pytest.mark.parametrize(("distribution", "settled"), [(BALANCED, False), (MULTICAST, False), (MULTICAST, True)])
def test_from_a_client_to_another_router(hub: Hub, distribution: int, settled: bool) -> None:
    neighbour(hub, "B")
    core_of(hub).remote_routers.add_consumers("B", "M0q", distribution)
    client(hub, frames.attach_sender()).send(frames.transfer(0, settled=settled))
    assert counted(hub) == {"ingress": 1, "transit": 1}
    assert core_of(hub).addresses["M0q"].transit == 1


@pytest.mark.parametrize("receiver", [True, False])
def test_on_a_link_route(hub: Hub, receiver: bool) -> None:
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "prefix": "lr", "connection": "broker"})
    container = Container(hub)
    if receiver:
        client(hub, frames.attach_receiver(address="lr.q"), frames.credit(10))
        (link,) = container.active()
        container.send(frames.transfer(0, channel=link.channel, handle=link.handle))
        assert counted(hub) == {"ingress": 1, "egress": 1, "from_containers": 1}
    else:
        client(hub, frames.attach_sender(address="lr.q")).send(frames.transfer(0))
        assert counted(hub) == {"ingress": 1, "egress": 1, "to_containers": 1}


def test_outcomes_are_counted_where_the_delivery_came_in_and_where_it_went_out(hub: Hub) -> None:
    consumer = client(hub, frames.attach_receiver(), frames.credit(10))
    producer = client(hub, frames.attach_sender())
    producer.send(frames.transfer(0), frames.transfer(1))
    consumer.send(frames.disposition(0, last=1))
    assert core_of(hub).counters.accepted == 2
    assert [link.accepted for link in core_of(hub).links.values()] == [2, 2]
