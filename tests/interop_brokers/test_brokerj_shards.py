"""A queue in shards on two brokers. Dispatch book 3.5.2 and 3.5.3."""

from __future__ import annotations

from functools import partial

import pytest

from tests.brokers.behind import WAYPOINTS, auto_links, connected, connector, link_routes, wait_active
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.kit.clients import Client, Receiver
from tests.kit.fixtures import StartRouter
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

BROKERS = ("first", "second")
TOTAL = 40
CHAIN = section("address", prefix="chain", ingressPhase=0, egressPhase=2)


@pytest.fixture
def brokers(brokerj: BrokerJ, brokerj_durable: BrokerJ) -> dict[str, BrokerJ]:
    """By the names of their connectors."""
    return dict(zip(BROKERS, (brokerj, brokerj_durable)))


@pytest.fixture
def router(brokers: dict[str, BrokerJ], start_router: StartRouter) -> RouterProcess:
    """With both brokers behind it."""
    text = "".join(connector(broker, name) for name, broker in brokers.items())
    routes = "".join(link_routes("routed", connection=name) for name in brokers)
    made = start_router(extra=WAYPOINTS + CHAIN + text + routes)
    for name in brokers:
        wait_until(partial(connected, made, name))
    return made


def shard(router: RouterProcess, address: str, connection: str) -> None:
    """Autolinks of the address to one broker."""
    with ManagementClient(router.url) as client:
        for direction in ("in", "out"):
            given = {"address": address, "direction": direction, "connection": connection}
            client.create("autoLink", given, name=f"{address}.{connection}.{direction}")
    wait_active(router, address)


def unshard(router: RouterProcess, address: str, connection: str, *directions: str) -> None:
    with ManagementClient(router.url) as client:
        for direction in directions:
            client.delete("autoLink", name=f"{address}.{connection}.{direction}")


def send(client: Client, address: str) -> None:
    sender = client.sender(address)
    assert {sender.send(number).outcome() for number in range(TOTAL)} == {"accepted"}
    sender.close()


def take(receiver: Receiver) -> list[object]:
    return sorted(received.body for received in receiver.take(TOTAL))


def test_shards_are_added_and_removed(router: RouterProcess, brokers: dict[str, BrokerJ]) -> None:
    queue = fresh("queue")
    for broker in brokers.values():
        broker.create_queue(queue)
    first, second = brokers.values()
    shard(router, queue, "first")
    with Client(router.url) as client:
        send(client, queue)
        assert (first.depth(queue), second.depth(queue)) == (TOTAL, 0)
        shard(router, queue, "second")
        send(client, queue)
        assert first.depth(queue) > TOTAL
        assert second.depth(queue) > 0
        assert first.depth(queue) + second.depth(queue) == 2 * TOTAL
        unshard(router, queue, "first", "out")  # nothing new comes in there; what is there goes out
        receiver = client.receiver(queue, credit=2 * TOTAL)
        taken = [received.body for received in receiver.take(2 * TOTAL)]
        assert sorted(taken) == sorted([*range(TOTAL), *range(TOTAL)])
        wait_until(lambda: first.depth(queue) == second.depth(queue) == 0)
        unshard(router, queue, "first", "in")
        receiver.close()
        send(client, queue)
        assert (first.depth(queue), second.depth(queue)) == (0, TOTAL)
    assert len(auto_links(router, queue)) == 2


def test_routed_links_are_balanced(router: RouterProcess, brokers: dict[str, BrokerJ]) -> None:
    """Link routes to two brokers: of two links each broker has one."""
    queue = fresh("routed")
    for broker in brokers.values():
        broker.create_queue(queue)
    with Client(router.url) as one, Client(router.url) as other:
        receivers = [client.receiver(queue, credit=1) for client in (one, other)]
        wait_until(lambda: [broker.consumers(queue) for broker in brokers.values()] == [1, 1])
        for receiver in receivers:
            receiver.close()


def test_waypoints_in_a_chain(router: RouterProcess, brokers: dict[str, BrokerJ]) -> None:
    """Through a queue of the first broker, then through one of the second, then to the client."""
    address = fresh("chain")
    queues = {name: f"{address}.{name}" for name in brokers}
    with ManagementClient(router.url) as client:
        for phase, (connection, queue) in enumerate(queues.items()):
            brokers[connection].create_queue(queue)
            given = {"address": address, "connection": connection, "externalAddress": queue}
            for direction, at in (("out", phase), ("in", phase + 1)):
                client.create("autoLink", {**given, "direction": direction, "phase": at}, name=f"{queue}.{direction}")
    wait_active(router, address)
    with Client(router.url) as client:
        send(client, address)
        assert take(client.receiver(address, credit=TOTAL)) == list(range(TOTAL))
    assert [brokers[name].enqueued(queue) for name, queue in queues.items()] == [TOTAL, TOTAL]
