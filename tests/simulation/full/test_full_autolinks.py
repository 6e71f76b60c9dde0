"""Autolinks of whole routers to scripted brokers. Dispatch book "Indirect Waypoints and Auto-Links"."""

from __future__ import annotations

from typing import Any

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, RELEASED, Broker, Party, PartyLink
from tests.simulation.full.network import Network, SimRouter
from waymesh_amqp.outcomes import modified
from waymesh_amqp.states import OPENED
from waymesh_amqp.types import encode

WAYPOINT = "address {\nprefix: queue\nwaypoint: yes\n}\n"
BOTH = """autoLink {\naddress: queue.first\ndirection: in\nconnection: broker\n}
autoLink {\naddress: queue.first\ndirection: out\nconnection: broker\n}
"""


def one_router(extra: str, broker_name: str = "broker") -> tuple[Network, SimRouter, Broker]:
    network = Network()
    router = network.router("A", extra)
    broker = Broker(network, broker_name)
    broker.connector(router)
    network.start()
    return network, router, broker


def rows(router: SimRouter) -> list[dict[str, Any]]:
    adapter = router.router.agent.adapters["router.config.autoLink"]
    return list(adapter.rows(router.world.now))


def states(router: SimRouter) -> list[str]:
    return [row["operStatus"] for row in rows(router)]


def client_session(network: Network, router: SimRouter, name: str = "client") -> tuple[Party, Any]:
    client = Party(network, name)
    conn = client.dial(router)
    network.until(lambda: conn.state == OPENED, 1.0)
    return client, conn.open_session()


def test_queue_waypoint_example() -> None:
    """Dispatch book "Queue Waypoint Example"."""
    network, router, broker = one_router(WAYPOINT + BOTH)
    assert states(router) == ["inactive", "inactive"]
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    assert [row["phase"] for row in rows(router)] == [1, 0]
    client, session = client_session(network, router)
    sender = client.sender(session, "queue.first")
    network.until(lambda: sender.link.credit > 0, 1.0)
    for _ in range(3):
        client.send(sender, message())
    network.run(0.1)
    assert [state for _, state in sender.outcomes] == [ACCEPTED] * 3
    receiver = client.receiver(session, "queue.first", credit=10)
    network.until(lambda: len(receiver.got) == 3, 1.0)
    assert [got.data for got in receiver.got] == [message()] * 3
    for got in receiver.got:
        client.settle(got)
    network.run(0.1)
    assert broker.states == [ACCEPTED] * 3


def test_all_four_outcomes_are_offered_and_pass_exactly() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH)
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    (incoming,) = broker.of("queue.first", is_sender=True)
    source: Any = incoming.attach and incoming.attach.source
    assert [str(o)[5:-5] for o in source.outcomes] == ["accepted", "rejected", "released", "modified"]
    rare = encode(modified(True, True, {"x-opt-why": "tired"}))
    broker.outcome = rare
    client, session = client_session(network, router)
    sender = client.sender(session, "queue.first")
    network.until(lambda: sender.link.credit > 0, 1.0)
    client.send(sender, message())
    network.run(0.1)
    assert sender.outcomes == [(True, rare)]
    broker.queues["queue.first"].append(message())
    broker.pump()
    receiver = client.receiver(session, "queue.first", credit=1)
    network.until(lambda: len(receiver.got) == 1, 1.0)
    client.settle(receiver.got[0], rare)
    network.run(0.1)
    assert broker.states == [rare]


def test_a_failed_autolink_says_why_and_is_tried_again() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH)
    broker.refuse["queue.first"] = ("amqp:not-found", "Node not found: queue.first")
    network.until(lambda: states(router) == ["failed", "failed"], 1.0)
    assert {row["lastError"] for row in rows(router)} == {"Node not found: queue.first"}
    tries = len(broker.links)
    broker.refuse.clear()
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    assert len(broker.links) == tries + 2
    assert {row["lastError"] for row in rows(router)} == {None}


def test_tries_become_rare_and_rarer_where_the_broker_forbids() -> None:
    network, _router, broker = one_router(WAYPOINT + BOTH)
    broker.refuse["queue.first"] = ("amqp:not-found", "Node not found: queue.first")
    network.run(60.0)
    missing = len(broker.links)
    assert 10 <= missing <= 18
    broker.refuse["queue.first"] = ("amqp:unauthorized-access", "no")
    network.run(60.0)
    assert len(broker.links) - missing <= 10


def test_external_address_and_phase() -> None:
    """Dispatch book "Using a Different External Address on an Auto-Link"."""
    extra = "autoLink {\naddress: queue.first\nexternalAddr: broker_queue\ndirection: out\nphase: 3\n"
    extra += "connection: broker\n}\n"
    network, router, broker = one_router(extra)
    network.until(lambda: states(router) == ["active"], 1.0)
    assert len(broker.of("broker_queue", is_sender=False)) == 1
    assert router.core.addresses["M3queue.first"].consumers


def test_a_broker_that_connects_in_is_known_by_container_id() -> None:
    listener = "listener {\nname: brokers\nhost: 0.0.0.0\nport: 30000\nrole: route-container\n"
    listener += "saslMechanisms: ANONYMOUS\n}\n"
    network = Network()
    router = network.router("A", WAYPOINT + listener + BOTH.replace("connection: broker", "containerId: b1"))
    network.start()
    other, broker = Broker(network, "b0"), Broker(network, "b1")
    other.dial(router, 30000)
    network.run(0.5)
    assert states(router) == ["inactive", "inactive"]
    broker.dial(router, 30000)
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    broker.drop()
    network.until(lambda: states(router) == ["inactive", "inactive"], 1.0)
    assert not router.core.addresses.get("M0queue.first")
    assert not other.links


def test_active_again_when_the_broker_is_back() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH)
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    broker.drop()
    network.until(lambda: states(router) == ["inactive", "inactive"], 1.0)
    assert network.until(lambda: states(router) == ["active", "active"], 5.0) < 1.0


def test_credit_taken_back_by_the_broker_holds_up_senders() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH)
    broker.credit, broker.outcome = 5, None
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    client, session = client_session(network, router)
    sender = client.sender(session, "queue.first")
    network.until(lambda: sender.link.credit > 0, 1.0)
    sent = 0
    while sender.link.credit > 0:
        client.send(sender, message())
        sent += 1
    network.run(1.0)
    (queue,) = broker.of("queue.first", is_sender=False)
    assert sender.link.credit == 0
    assert len(queue.got) == 5
    assert not sender.outcomes
    broker.outcome = ACCEPTED
    for got in list(queue.got):
        broker.settle(got)
    network.until(lambda: len(sender.outcomes) == sent, 5.0)


def test_sharded_queue_example_with_a_shard_more_and_less() -> None:
    """Dispatch book "Sharded Queue Example", "Dynamically Adding Shards"."""
    network = Network()
    router = network.router("A", WAYPOINT + BOTH.replace("broker", "broker1") + BOTH.replace("broker", "broker2"))
    brokers = [Broker(network, f"b{number}") for number in (1, 2, 3)]
    for number, broker in enumerate(brokers, 1):
        broker.outcome = None
        broker.connector(router, f"broker{number}")
    network.start()
    network.until(lambda: states(router) == ["active"] * 4, 1.0)
    client, session = client_session(network, router)
    sender = client.sender(session, "queue.first")
    network.until(lambda: sender.link.credit > 100, 1.0)
    for _ in range(20):
        client.send(sender, message())
    network.run(0.1)
    assert [sum(len(p.got) for p in b.links) for b in brokers] == [10, 10, 0]
    adapter = router.router.agent.adapters["router.config.autoLink"]
    identity = adapter.create(
        {"name": "more", "address": "queue.first", "direction": "out", "connection": "broker3", "phase": None}
    )
    router.wake()
    network.until(lambda: states(router) == ["active"] * 5, 1.0)
    for _ in range(30):
        client.send(sender, message())
    network.run(0.1)
    assert [sum(len(p.got) for p in b.links) for b in brokers] == [17, 17, 16]
    adapter.delete(identity)
    router.wake()
    network.run(0.1)
    assert not brokers[2].of("queue.first")
    assert states(router) == ["active"] * 4


def test_waypoints_across_routers() -> None:
    network = Network()
    one, other = network.router("A", WAYPOINT), network.router("B", WAYPOINT + BOTH)
    network.cable("A", "B")
    broker = Broker(network)
    broker.connector(other)
    network.start()
    network.until(lambda: states(other) == ["active", "active"], 1.0)
    client, session = client_session(network, one)
    sender = client.sender(session, "queue.first")
    receiver = client.receiver(session, "queue.first", credit=10)
    network.until(lambda: sender.link.credit > 0, 1.0)
    client.send(sender, message(b"there and back"))
    network.until(lambda: len(receiver.got) == 1, 1.0)
    assert receiver.got[0].data == message(b"there and back")
    client.settle(receiver.got[0], REJECTED)
    network.run(0.1)
    assert sender.outcomes == [(True, ACCEPTED)]
    assert broker.states == [REJECTED]


def set_quiescing(router: SimRouter, on: bool) -> None:
    adapter = router.router.agent.adapters["router.config.autoLink"]
    for row in rows(router):
        if row["quiescing"] != on:
            adapter.update(row["identity"], {"quiescing": on})
    router.wake()


def test_a_quiescing_autolink_takes_no_more_and_goes_when_all_is_settled() -> None:
    incoming, _ = BOTH.split("}\n", 1)
    network, router, broker = one_router(WAYPOINT + incoming + "}\n")
    network.until(lambda: states(router) == ["active"], 1.0)
    client, session = client_session(network, router)
    receiver = client.receiver(session, "queue.first", credit=10)
    network.run(0.1)
    broker.queues["queue.first"].extend([message(b"one"), message(b"two")])
    broker.pump()
    network.until(lambda: len(receiver.got) == 2, 1.0)
    client.settle(receiver.got[0])
    set_quiescing(router, True)
    network.run(5.0)
    broker.queues["queue.first"].append(message(b"three"))
    broker.pump()
    client.receiver(session, "queue.first", credit=10, name="another")  # a consumer more brings no credit back
    network.run(5.0)
    assert states(router) == ["quiescing"]
    assert len(receiver.got) == 2
    assert broker.of("queue.first", is_sender=True)
    client.settle(receiver.got[1])
    network.until(lambda: not rows(router), 2.0)
    network.run(0.1)
    assert broker.states == [ACCEPTED] * 2
    assert not broker.of("queue.first", is_sender=True)
    assert list(broker.queues["queue.first"]) == [message(b"three")]
    assert not router.core.autolinks


def test_a_quiescing_autolink_hands_back_what_no_consumer_has_taken() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH.split("}\n", 1)[0] + "}\n")
    network.until(lambda: states(router) == ["active"], 1.0)
    client, session = client_session(network, router)
    receiver = client.receiver(session, "queue.first", credit=1)
    network.run(0.1)
    broker.queues["queue.first"].extend(message(body) for body in (b"one", b"two", b"three"))
    broker.pump()
    network.until(lambda: len(receiver.got) == 1, 1.0)
    network.run(0.1)
    assert not broker.states
    set_quiescing(router, True)
    network.run(0.1)
    assert broker.states == [RELEASED]
    assert len(broker.queues["queue.first"]) == 1, "the router takes one more than its consumer is ready for"
    client.settle(receiver.got[0])
    network.until(lambda: not rows(router), 2.0)
    assert broker.states == [RELEASED, ACCEPTED]


def one_delivery_at_the_broker() -> tuple[Network, SimRouter, Broker, PartyLink]:
    """An autolink out has passed on what a client's sender sent, and the broker has not settled it."""
    network, router, broker = one_router(WAYPOINT + BOTH.split("}\n", 1)[1])
    broker.outcome = None
    network.until(lambda: states(router) == ["active"], 1.0)
    client, session = client_session(network, router)
    sender = client.sender(session, "queue.first")
    network.until(lambda: sender.link.credit > 0, 1.0)
    client.send(sender, message())
    network.run(0.1)
    return network, router, broker, sender


def test_a_quiescing_autolink_towards_the_broker_waits_for_its_outcomes() -> None:
    network, router, broker, sender = one_delivery_at_the_broker()
    (queue,) = broker.of("queue.first", is_sender=False)
    set_quiescing(router, True)
    network.run(5.0)
    assert sender.link.credit == 0
    assert states(router) == ["quiescing"]
    broker.settle(queue.got[0])
    network.until(lambda: not rows(router), 2.0)
    assert sender.outcomes == [(True, ACCEPTED)]


def test_a_quiescing_autolink_that_is_wanted_again_goes_on() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH)
    network.until(lambda: states(router) == ["active", "active"], 1.0)
    broker.outcome = None
    client, session = client_session(network, router)
    sender = client.sender(session, "queue.first")
    receiver = client.receiver(session, "queue.first", credit=10)
    network.until(lambda: sender.link.credit > 0, 1.0)
    client.send(sender, message())
    broker.queues["queue.first"].append(message())
    broker.pump()
    network.until(lambda: len(receiver.got) == 1, 1.0)
    set_quiescing(router, True)
    network.run(3.0)
    assert states(router) == ["quiescing", "quiescing"]
    links = len(broker.links)
    set_quiescing(router, False)
    network.run(0.1)
    assert states(router) == ["active", "active"]
    assert len(broker.links) == links
    client.send(sender, message())
    broker.queues["queue.first"].append(message())
    broker.pump()
    network.run(0.1)
    assert len(receiver.got) == 2
    assert len(broker.of("queue.first", is_sender=False)[0].got) == 2


def test_a_quiescing_autolink_without_a_broker_goes_at_once() -> None:
    network, router, broker = one_router(WAYPOINT + BOTH)
    broker.refuse["queue.first"] = ("amqp:not-found", "Node not found: queue.first")
    network.until(lambda: states(router) == ["failed", "failed"], 1.0)
    set_quiescing(router, True)
    network.until(lambda: not rows(router), 1.0)
    tries = len(broker.links)
    network.run(30.0)
    assert len(broker.links) == tries


def test_a_quiescing_autolink_goes_with_the_broker_s_connection() -> None:
    network, router, broker, _sender = one_delivery_at_the_broker()
    set_quiescing(router, True)
    network.run(1.0)
    broker.drop()
    network.until(lambda: not rows(router), 2.0)
    network.run(2.0)
    assert not broker.of("queue.first")


def test_a_connector_that_is_deleted_waits_for_its_quiescing_autolinks() -> None:
    network, router, broker, sender = one_delivery_at_the_broker()
    set_quiescing(router, True)
    connectors = router.router.agent.adapters["connector"]
    (connector,) = connectors.rows(router.world.now)
    connectors.delete(connector["identity"])
    network.run(5.0)
    (queue,) = broker.of("queue.first", is_sender=False)
    broker.settle(queue.got[0])
    network.until(lambda: not rows(router), 2.0)
    network.run(1.0)
    assert sender.outcomes == [(True, ACCEPTED)]
    assert not router.router.connectors
