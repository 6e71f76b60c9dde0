"""Clients of link routes work as if connected to the broker. Routing chapter "Configuring Link Routing"."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Broker, Party
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from tests.simulation.full.routes import BOTH, Scene
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.states import OPENED
from waymesh_amqp.types import Symbol, encode

PORT = 31000
LEADING = f"listener {{\nname: jms\nhost: 0.0.0.0\nport: {PORT}\nrouteAddress: b2.\nauthenticatePeer: no\n}}\n"
SHARED = [Symbol("topic"), Symbol("shared")]
GLOBAL = [*SHARED, Symbol("global")]
DURABLE: dict[str, Any] = {"durable": 2, "expiry_policy": "never"}
TEMPORARY = {
    "dynamic": True,
    "expiry_policy": "link-detach",
    "dynamic_node_properties": {Symbol("lifetime-policy"): "delete-on-close"},
    "capabilities": [Symbol("temporary-queue")],
}


class Leading(Scene):
    """A scene whose client is at a listener that leads to the broker."""

    def __init__(self, names: str) -> None:
        if len(names) == 1:
            super().__init__(names, BOTH + LEADING)
        else:
            super().__init__(names, BOTH, LEADING if len(names) == 2 else "")

    def jms(self) -> tuple[Party, Any]:
        client = Party(self.network, "jms")
        conn = client.dial(self.first, PORT)
        self.until(lambda: conn.state == OPENED)
        return client, conn.open_session()


@pytest.fixture(params=["A", "AB"])
def scene(request: pytest.FixtureRequest) -> Leading:
    return Leading(request.param)


def topic(**over: Any) -> Terminus:
    return Terminus("source", address="b2.topic", **over)


def named(broker: Broker) -> list[str]:
    return [party.link.name for party in broker.links if not party.gone and party.link.is_sender]


# ---- names


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("in", topic(), "client.in"),
        ("sub", topic(**DURABLE), "client.sub"),
        ("sub|2", topic(capabilities=SHARED, **DURABLE), "client.sub|2"),
        ("sub|global", topic(capabilities=GLOBAL, **DURABLE), "sub|global"),
        ("sub|global-volatile1", topic(capabilities=GLOBAL), "sub|global-volatile1"),
    ],
)
def test_names_of_subscriptions_at_the_container(name: str, source: Terminus, expected: str) -> None:
    scene = Scene("AB")
    scene.receiver(name=name, source=source)
    assert named(scene.broker) == [expected]


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("in", topic(), ["client.in@A", "client.in@B"]),
        ("sub", topic(**DURABLE), ["client.sub", "client.sub"]),
        ("sub|2", topic(capabilities=SHARED, **DURABLE), ["client.sub|2", "client.sub|2"]),
        ("sub|1", topic(capabilities=SHARED), ["client.sub|1@A", "client.sub|1@B"]),
        ("sub", topic(capabilities=SHARED), ["client.sub|A", "client.sub|B"]),
        ("sub|global", topic(capabilities=GLOBAL, **DURABLE), ["sub|A|global", "sub|B|global"]),
    ],
)
def test_routers_with_one_container_id_keep_names_of_durable_subscriptions(
    name: str, source: Terminus, expected: list[str]
) -> None:
    """A subscription is found again through another router; what is not durable does not collide there."""
    network = Network()
    broker = Broker(network)
    for router in (network.router("A", BOTH), network.router("B", BOTH)):
        broker.connector(router, extra="openContainerId: mesh\n")
    network.start()
    network.until(lambda: len(broker.conns) == 2 and all(conn.state == OPENED for conn in broker.conns), 2.0)
    network.run(0.2)
    assert [conn.remote.container_id for conn in broker.conns if conn.remote] == ["mesh", "mesh"]
    seen = []
    for router in network.routers.values():
        client = Party(network, "client")
        conn = client.dial(router)
        network.until(lambda conn=conn: conn.state == OPENED, 1.0)  # type: ignore[misc]
        link = client.receiver(conn.open_session(), "b2.topic", name=name, source=source)
        network.until(lambda link=link: link.attach is not None, 1.0)  # type: ignore[misc]
        seen += named(broker)
        client.drop()
        network.until(lambda: not named(broker), 1.0)
    assert seen == expected


def test_links_of_one_name_do_not_take_each_others_place() -> None:
    scene = Scene("A")
    for _ in range(2):
        client, session = scene.connect("client")
        link = client.receiver(session, "b2.queue")
        shared = client.receiver(session, "b2.topic", name="sub|global", source=topic(capabilities=GLOBAL, **DURABLE))
        own = client.receiver(session, "b2.topic", name="own", source=topic(capabilities=SHARED, **DURABLE))
        scene.until(lambda link=link, shared=shared, own=own: bool(link.attach and shared.attach and own.attach))
    names = ["client.in", "sub|global", "client.own", "client.in#2", "sub|global#2", "client.own|#2"]
    assert named(scene.broker) == names


def test_a_client_that_is_back_takes_its_durable_subscription_over() -> None:
    scene = Scene("A")
    before = scene.receiver(name="sub", source=topic(**DURABLE))
    client, session = scene.connect("client")
    after = client.receiver(session, "b2.topic", name="sub", source=topic(**DURABLE))
    scene.until(lambda: before.gone and after.attach is not None)
    assert named(scene.broker) == ["client.sub"]
    assert not scene.broker.links[0].link.closed


# ---- without an address


def test_temporary_queues_and_who_answers_to_them(scene: Leading) -> None:
    client, session = scene.jms()
    target = Terminus("target", **TEMPORARY)  # type: ignore[arg-type]
    made = client.sender(session, None, target=target)
    scene.until(lambda: made.attach is not None)
    assert made.attach is not None
    assert made.attach.target is not None
    assert made.attach.target.address == "temp-1"
    (seen,) = scene.broker.of("temp-1")
    assert seen.attach is not None
    assert seen.attach.properties is None
    assert seen.attach.target is not None
    assert seen.attach.target.dynamic_node_properties == TEMPORARY["dynamic_node_properties"]
    receiver = client.receiver(session, "temp-1", credit=5)
    other, theirs = scene.connect("other", scene.last)
    answering = other.sender(theirs, "temp-1")
    scene.until(lambda: receiver.attach is not None and answering.link.credit > 0)
    other.send(answering, message(b"answer"))
    scene.until(lambda: len(receiver.got) == 1)
    assert "Etemp-1" in scene.first.core.addresses
    made.link.detach()
    client.wake()
    scene.until(lambda: "Etemp-1" not in scene.first.core.addresses)
    assert not scene.last.core.routed_attaches._made


def test_a_temporary_queue_that_is_gone_is_the_containers_to_refuse(scene: Leading) -> None:
    scene.broker.refuse["temp-9"] = ("amqp:not-found", "no such queue")
    client, session = scene.jms()
    target = Terminus("target", address="temp-9", capabilities=[Symbol("temporary-queue")])
    sender = client.sender(session, "temp-9", target=target)
    scene.until(lambda: sender.gone)
    assert sender.condition == "amqp:not-found"


def test_dynamic_sources_go_to_the_container(scene: Leading) -> None:
    client, session = scene.jms()
    receiver = client.receiver(session, "", source=Terminus("source", **TEMPORARY))  # type: ignore[arg-type]
    scene.until(lambda: receiver.attach is not None)
    assert len(scene.broker.of("temp-1", is_sender=True)) == 1


def test_anonymous_producers_go_to_the_container(scene: Leading) -> None:
    client, session = scene.jms()
    sender = client.sender(session, None, properties={Symbol("a"): "b"})
    scene.until(lambda: sender.link.credit > 0)
    (seen,) = [party for party in scene.broker.links if not party.gone]
    assert seen.attach is not None
    assert seen.attach.target is not None
    assert seen.attach.target.address is None
    assert seen.attach.properties == {"a": "b"}


def test_a_subscription_is_looked_up_by_the_name_of_its_link(scene: Leading) -> None:
    client, session = scene.jms()
    asked = client.receiver(session, "", name="sub", source=None, desired_capabilities=[Symbol("topic")])
    scene.until(lambda: asked.gone)
    assert asked.condition == "amqp:not-found"
    assert scene.broker.links[0].link.name == "jms.sub"


def test_coordinators_and_what_belongs_to_their_transactions(scene: Leading) -> None:
    client, session = scene.jms()
    coordinator = client.sender(session, None, target=Terminus("coordinator"))
    anonymous = client.sender(session, None, name="any")
    scene.until(lambda: coordinator.attach is not None and anonymous.link.credit > 0)
    assert [party.link.name for party in scene.broker.links] == ["jms.out", "jms.any"]
    assert scene.broker.links[0].link.session is scene.broker.links[1].link.session


def test_without_a_way_for_it_an_anonymous_producer_follows_its_sessions_coordinator() -> None:
    scene = Scene("AB", BOTH + "linkRoute {\nprefix: $coordinator\ndirection: in\nconnection: broker\n}\n")
    coordinator = scene.sender(target=Terminus("coordinator"))
    scene.sender(None, name="any")
    assert not coordinator.gone
    scene.sender(None, name="other")
    assert [party.link.name for party in scene.broker.links] == ["client.out", "client.any", "client.other"]


# ---- what is offered


def test_offers_of_the_containers_are_passed_on() -> None:
    network = Network()
    router = network.router("A", BOTH + LEADING)
    broker = Broker(network)
    offers = [Symbol(name) for name in ("ANONYMOUS-RELAY", "SHARED-SUBS", "DELAYED_DELIVERY")]
    naming = {Symbol("queue-prefix"): "queue://", Symbol("product"): "broker"}
    broker.said = {"offered_capabilities": offers, "properties": naming}
    broker.connector(router)
    network.start()
    network.until(lambda: not faults(network) and bool(broker.conns), 2.0)
    network.run(0.2)
    for port, expected in ((PORT, offers[1:]), (None, [])):
        client = Party(network, "client")
        conn = client.dial(router, port)
        network.until(lambda conn=conn: conn.remote is not None, 1.0)  # type: ignore[misc]
        assert conn.remote is not None
        assert conn.remote.offered_capabilities == ["ANONYMOUS-RELAY", "qd.streaming-links", *expected]
        assert isinstance(conn.remote.properties, dict)
        assert conn.remote.properties["product"] == "waymesh-router"
        assert conn.remote.properties.get("queue-prefix") == ("queue://" if expected else None)


def test_offers_of_containers_at_other_routers_are_passed_on() -> None:
    network = Network()
    for name, extra in (("A", LEADING), ("B", ""), ("C", BOTH.replace("connection: broker", "containerId: broker"))):
        network.router(name, extra)
    for one, other in ("AB", "BC"):
        network.cable(one, other)
    brokers = [Broker(network, "broker"), Broker(network, "broker")]
    for broker, capabilities in zip(brokers, (["SHARED-SUBS", "X"], ["SHARED-SUBS"]), strict=True):
        broker.said = {
            "offered_capabilities": [Symbol(name) for name in capabilities],
            "properties": {Symbol("topic-prefix"): "topic://"},
        }
    brokers[0].connector(network.routers["C"], "way0")
    brokers[1].connector(network.routers["C"], "way1")
    brokers[1].alive = False
    network.start()
    network.until(lambda: not faults(network) and bool(brokers[0].conns), 2.0)
    network.run(0.5)

    def offered() -> list[str]:
        client = Party(network, "client")
        conn = client.dial(network.routers["A"], PORT)
        network.until(lambda: conn.remote is not None, 1.0)
        assert conn.remote is not None
        assert isinstance(conn.remote.properties, dict)
        assert conn.remote.properties["topic-prefix"] == "topic://"
        return [str(c) for c in conn.remote.offered_capabilities or ()][2:]

    assert offered() == ["SHARED-SUBS", "X"]
    brokers[1].alive = True
    network.until(lambda: bool(brokers[1].conns), 10.0)
    network.run(0.5)
    assert offered() == ["SHARED-SUBS"]
    brokers[1].alive = False
    brokers[1].drop()
    network.run(0.5)
    assert offered() == ["SHARED-SUBS", "X"]


def test_what_is_not_offered_by_all_containers_or_by_the_listener_is_not_offered() -> None:
    network = Network()
    extra = BOTH.replace("connection: broker", "containerId: twins")
    router = network.router("A", extra + LEADING.replace("routeAddress", "openCapabilities: MINE\nrouteAddress"))
    for number, offered in enumerate((["SHARED-SUBS", "X"], ["SHARED-SUBS", "Y"])):
        broker = Broker(network, "twins")
        broker.said = {"offered_capabilities": [Symbol(name) for name in offered]}
        broker.connector(router, f"way{number}")
    network.start()
    network.run(1.0)
    client = Party(network, "client")
    conn = client.dial(router, PORT)
    network.until(lambda: conn.remote is not None, 1.0)
    assert conn.remote is not None
    assert conn.remote.offered_capabilities == ["ANONYMOUS-RELAY", "qd.streaming-links", "MINE", "SHARED-SUBS"]


def test_annotations_of_clients_are_untouched(scene: Leading) -> None:
    annotations = encode({Symbol("x-opt-jms-dest"): 0, Symbol("x-opt-delivery-time"): 5})
    data = b"\x00\x53\x72" + annotations + message(b"x")
    client, session = scene.jms()
    sender = client.sender(session, "b2.queue")
    receiver = client.receiver(session, "b2.queue", credit=5)
    scene.until(lambda: sender.link.credit > 0)
    client.send(sender, data)
    scene.until(lambda: len(receiver.got) == 1 and sender.outcomes == [(True, ACCEPTED)])
    assert receiver.got[0].data == data
