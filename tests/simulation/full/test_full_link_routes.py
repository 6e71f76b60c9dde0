"""Link routes through whole routers to scripted brokers. Routing chapter "Configuring Link Routing"."""

from __future__ import annotations

from collections import deque

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, RELEASED, Broker, Party
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from tests.simulation.full.routes import BOTH, Scene, statuses, validated
from waymesh_amqp.outcomes import modified
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import ErrorInfo, Terminus, Transfer, encode_frame
from waymesh_amqp.states import OPENED
from waymesh_amqp.types import Raw, Symbol, encode


@pytest.fixture(params=["A", "ABC"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def test_client_isolation_by_link_routes(scene: Scene) -> None:
    """Routing chapter "Using a Link Route to Provide Client Isolation"."""
    assert statuses(scene.last) == ["active", "active"]
    sender = scene.sender()
    assert sender.link.credit == scene.broker.credit
    for number in range(5):
        scene.client.send(sender, message(b"%d" % number))
    scene.until(lambda: len(sender.outcomes) == 5)
    assert sender.outcomes == [(True, ACCEPTED)] * 5
    receiver = scene.receiver()
    scene.until(lambda: len(receiver.got) == 5)
    assert [got.data for got in receiver.got] == [message(b"%d" % number) for number in range(5)]
    state = encode(modified(True, True, {"x-opt-a": 1}))
    for got in receiver.got:
        scene.client.settle(got, state)
    scene.until(lambda: scene.broker.states == [state] * 5)


def test_termini_properties_and_capabilities_pass_as_bytes(scene: Scene) -> None:
    selector = Symbol("apache.org:selector-filter:string")
    source = Terminus(
        "source", address="b2.queue", durable=2, expiry_policy="never", distribution_mode="copy",
        filter={selector: "color = 'red'"}, capabilities=[Symbol("queue")],
    )  # fmt: skip
    properties = Raw(b"\xd1\x00\x00\x00\x15\x00\x00\x00\x02" + encode(Symbol("why")) + b"\xb1\x00\x00\x00\x07because")
    receiver = scene.receiver(
        source=source, properties=properties, desired_capabilities=[Symbol("SHARED-SUBS")],
        rcv_settle_mode=1, snd_settle_mode=0,
    )  # fmt: skip
    (seen,) = scene.broker.of("b2.queue")
    assert seen.attach is not None
    assert seen.attach.source is not None
    assert seen.attach.source.raw == source.encode()
    assert seen.attach.properties == {"why": "because"}
    assert seen.attach.raw["properties"] == properties
    assert seen.attach.desired_capabilities == ["SHARED-SUBS"]
    assert (seen.attach.snd_settle_mode, seen.attach.rcv_settle_mode) == (0, 1)
    assert receiver.attach is not None
    assert receiver.attach.source is not None
    assert receiver.attach.source.raw == source.encode()


def test_no_broker_is_no_route_and_a_later_one_needs_no_configuration() -> None:
    network = Network()
    router = network.router("A", BOTH + "listener {\nname: broker\nport: 30000\nrole: route-container\n}\n")
    network.start()
    network.run(0.1)
    assert statuses(router) == ["inactive", "inactive"]
    client = Party(network, "client")
    conn = client.dial(router)
    network.until(lambda: conn.state == OPENED, 1.0)
    session = conn.open_session()
    refused = client.sender(session, "b2.queue")
    network.until(lambda: refused.gone, 1.0)
    assert refused.error == ErrorInfo("qd:no-route-to-dest", "No route to the destination node")
    broker = Broker(network)
    broker.dial(router, 30000)
    network.until(lambda: statuses(router) == ["active", "active"], 1.0)
    taken = client.sender(session, "b2.queue")
    network.until(lambda: taken.link.credit > 0, 1.0)
    broker.drop()
    network.until(lambda: taken.gone, 1.0)
    assert taken.condition == "qd:routed-link-lost"
    assert statuses(router) == ["inactive", "inactive"]


def test_refusal_and_detach_errors_pass_both_ways(scene: Scene) -> None:
    scene.broker.refuse["b2.none"] = ("amqp:not-found", "there is no b2.none")
    refused = scene.client.receiver(scene.session, "b2.none")
    scene.until(lambda: refused.gone)
    assert refused.error == ErrorInfo("amqp:not-found", "there is no b2.none")
    assert refused.attach is not None
    assert refused.attach.source is None
    receiver = scene.receiver()
    (there,) = scene.broker.of("b2.queue")
    receiver.link.detach_with(ErrorInfo("my:error", "I go", {"k": 1}), False)
    scene.client.wake()
    scene.until(lambda: there.gone)
    assert there.error == ErrorInfo("my:error", "I go", {"k": 1})
    assert not there.link.closed
    sender = scene.sender()
    (there,) = scene.broker.of("b2.queue")
    there.link.detach("amqp:resource-deleted", "queue deleted")
    scene.broker.wake()
    scene.until(lambda: sender.gone)
    assert sender.error == ErrorInfo("amqp:resource-deleted", "queue deleted")
    assert sender.link.closed
    scene.network.run(1.0)
    sessions = [session for conn in scene.broker.conns for session in conn.sessions.values()]
    assert not any(link for session in sessions for link in session.links)


def test_a_lost_client_leaves_durable_subscriptions(scene: Scene) -> None:
    scene.receiver(credit=0)
    (there,) = scene.broker.of("b2.queue")
    scene.client.drop()
    scene.until(lambda: there.gone)
    assert not there.link.closed
    assert there.error is None


def test_credit_and_drain_are_those_of_the_receiver(scene: Scene) -> None:
    scene.broker.queues["b2.queue"] = deque([message()] * 3)
    receiver = scene.receiver(credit=0)
    (there,) = scene.broker.of("b2.queue")
    assert there.link.credit == 0
    receiver.link.capacity = 2
    receiver.link.grant()
    scene.client.wake()
    scene.until(lambda: len(receiver.got) == 2)
    scene.network.run(0.1)
    assert (there.link.credit, len(receiver.got)) == (0, 2)
    receiver.link.capacity = 12
    receiver.link.grant()
    scene.client.wake()
    scene.until(lambda: there.link.credit == 9)
    receiver.link.withdraw()
    scene.client.wake()
    scene.until(lambda: receiver.link.credit == 0)
    assert there.link.credit == 0
    assert receiver.link.delivery_count == there.link.delivery_count


def test_large_messages_pass_in_frames(scene: Scene) -> None:
    big = message(bytes(range(256)) * 1500)
    sender, receiver = scene.sender(), scene.receiver()
    for _ in range(3):
        scene.until(sender.link.ready)
        scene.client.send(sender, big)
    scene.until(lambda: len(receiver.got) == 3 and len(sender.outcomes) == 3, 10.0)
    assert all(got.data == big for got in receiver.got)
    assert sender.outcomes == [(True, ACCEPTED)] * 3


def test_two_clients_with_equal_link_names(scene: Scene) -> None:
    scene.sender(name="same")
    other, session = scene.connect("other")
    sender = other.sender(session, "b2.queue", name="same")
    scene.until(lambda: sender.link.credit > 0)
    names = [party.link.name for party in scene.broker.of("b2.queue", is_sender=False)]
    assert names == ["client.same", "other.same"]


def test_more_than_256_links(scene: Scene) -> None:
    links = [scene.client.receiver(scene.session, "b2.queue", name=f"r{n}") for n in range(300)]
    scene.until(lambda: all(link.attach is not None for link in links))
    assert len(scene.broker.of("b2.queue")) == 300
    assert not any(link.gone for link in links)


def test_the_coordinator_and_transactional_states(scene: Scene) -> None:
    network = scene.network
    adapter = scene.last.router.agent.adapters["router.config.linkRoute"]
    adapter.create(validated(prefix="$coordinator", direction="in", connection="broker"))
    scene.last.wake()
    network.run(0.2)
    coordinator = scene.sender(target=Terminus("coordinator", capabilities=[Symbol("amqp:local-transactions")]))
    assert not coordinator.gone
    sender = scene.sender(name="work")
    assert not sender.gone
    ours = [party.link.session for party in scene.broker.links]
    assert ours[0] is ours[1]
    declared = b"\x00\x53\x33\xc0\x06\x01\xa0\x03txn"
    scene.broker.outcome = declared
    scene.client.send(coordinator, b"\x00\x53\x77\x00\x53\x31\x45")
    scene.until(lambda: bool(coordinator.outcomes))
    assert coordinator.outcomes == [(True, declared)]


@pytest.mark.parametrize("prefix", ["x", "x."])
def test_add_and_del_external_prefix(scene: Scene, prefix: str) -> None:
    adapter = scene.last.router.agent.adapters["router.config.linkRoute"]
    adapter.create(validated(prefix=prefix, direction="both", connection="broker", delExternalPrefix="x.",
                             addExternalPrefix="y."))  # fmt: skip
    scene.last.wake()
    scene.network.run(0.2)
    receiver = scene.receiver("x.queue")
    assert len(scene.broker.of("y.queue")) == 1
    assert receiver.attach is not None
    assert receiver.attach.source is not None
    assert receiver.attach.source.address == "x.queue"
    scene.sender("x.queue")
    assert len(scene.broker.of("y.queue")) == 2


def test_patterns_and_the_directions_of_entities(scene: Scene) -> None:
    adapter = scene.last.router.agent.adapters["router.config.linkRoute"]
    identity = adapter.create(validated(pattern="news/*/sports", direction="out", connection="broker"))
    scene.last.wake()
    scene.network.run(0.2)
    scene.receiver("news/europe/sports")
    assert len(scene.broker.of("news/europe/sports")) == 1
    scene.receiver("news/europe/fr/sports", name="two")
    unrouted = scene.client.sender(scene.session, "news/usa/sports")
    scene.network.run(0.2)
    assert unrouted.attach is not None
    assert len(scene.broker.links) == 1
    adapter.delete(identity)
    scene.last.wake()
    scene.network.run(0.2)
    scene.receiver("news/usa/sports", name="three")
    assert len(scene.broker.links) == 1


def test_links_are_balanced_over_brokers_of_one_container_id() -> None:
    network = Network()
    router = network.router("A", BOTH.replace("connection: broker", "containerId: twins"))
    brokers = [Broker(network, "twins"), Broker(network, "twins")]
    for number, broker in enumerate(brokers):
        broker.connector(router, f"way{number}")
    network.start()
    client = Party(network, "client")
    conn = client.dial(router)
    network.run(0.2)
    session = conn.open_session()
    links = [client.receiver(session, "b2.queue", name=f"r{n}") for n in range(10)]
    network.until(lambda: all(link.attach is not None for link in links), 1.0)
    assert [len(broker.of("b2.queue")) for broker in brokers] == [5, 5]
    brokers[0].drop()
    network.until(lambda: sum(link.gone for link in links) == 5, 1.0)


def test_a_client_that_does_not_wait_for_answers(scene: Scene) -> None:
    receiver = scene.client.receiver(scene.session, "b2.queue")
    receiver.link.detach()
    scene.client.wake()
    scene.network.run(0.5)
    assert scene.client.conns
    assert not scene.broker.of("b2.queue")


def test_held_back_deliveries_are_released_when_the_broker_goes(scene: Scene) -> None:
    scene.broker.outcome = None
    sender = scene.sender()
    for _ in range(3):
        scene.client.send(sender, message())
    scene.until(lambda: len(scene.broker.links[0].got) == 3)
    scene.broker.drop()
    scene.until(lambda: sender.gone)
    assert [state[2] for _, state in sender.outcomes] == [0x27] * 3
    assert RELEASED not in [state for _, state in sender.outcomes]


def test_a_delivery_that_is_aborted_is_aborted_for_the_broker(scene: Scene) -> None:
    sender = scene.sender()
    data = message(bytes(100000))
    link = sender.link
    send_first(link, False, True, data, 0, 0, b"", 0, 50000, 0)
    scene.client.wake()
    (there,) = scene.broker.of("b2.queue")
    scene.until(lambda: len(there.parts) >= 40000)
    link.session.send_frame(Transfer(link.handle, aborted=True))
    link.busy = False
    scene.client.wake()
    scene.until(lambda: there.aborted == 1)
    scene.client.send(sender, message(b"next"))
    scene.until(lambda: len(sender.outcomes) == 1)
    assert there.got[-1].data == message(b"next")


def test_a_draining_router_withdraws_its_link_routes() -> None:
    scene = Scene("AB")
    scene.last.router.drain.start()
    scene.last.wake()
    scene.network.run(0.1)
    refused = scene.client.sender(scene.session, "b2.queue")
    scene.until(lambda: refused.attach is not None)
    assert "Cb2" not in scene.first.core.addresses
    scene.last.router.drain.cancel()
    scene.last.wake()
    scene.network.run(0.1)
    assert "Cb2" in scene.first.core.addresses


def test_links_end_when_a_router_between_goes_and_come_again() -> None:
    network = Network()
    for name in "ABCD":
        network.router(name, BOTH if name == "C" else "")
    for one, other in ("AB", "BC", "AD", "DC"):
        network.cable(one, other)
    broker = Broker(network)
    broker.connector(network.routers["C"])
    network.start()
    network.until(lambda: not faults(network) and bool(broker.conns), 2.0)
    network.run(0.2)
    client = Party(network, "client")
    conn = client.dial(network.routers["A"])
    network.until(lambda: conn.state == OPENED, 1.0)
    session = conn.open_session()
    sender = client.sender(session, "b2.queue")
    network.until(lambda: sender.link.credit > 0, 1.0)
    between = "B" if network.routers["B"].core.routed_attaches._loads else "D"
    network.routers[between].crash()
    network.until(lambda: sender.gone, 5.0)
    assert sender.condition == "qd:routed-link-lost"
    network.run(0.5)
    sender = client.sender(session, "b2.queue", name="again")
    network.until(lambda: sender.link.credit > 0, 1.0)
    client.send(sender, message())
    network.until(lambda: len(sender.outcomes) == 1, 1.0)


@pytest.mark.parametrize("lost", ["B", "C"], ids=["the router between", "the router of the broker"])
def test_links_of_three_routers_end_with_each_of_them_and_come_again(lost: str) -> None:
    scene = Scene("ABC")
    sender, receiver = scene.sender(), scene.receiver()
    router = scene.network.routers[lost]
    router.crash()
    scene.until(lambda: sender.gone and receiver.gone, 1.0)
    assert {sender.condition, receiver.condition} == {"qd:routed-link-lost"}
    router.start()
    scene.until(lambda: not faults(scene.network) and bool(scene.broker.conns), 10.0)
    scene.network.run(0.2)
    sender = scene.sender(name="again")
    scene.client.send(sender, message(b"again"))
    receiver = scene.receiver(name="too")
    scene.until(lambda: [got.data for got in receiver.got] == [message(b"again")])


def test_a_link_taken_back_by_credit_waits_for_it(scene: Scene) -> None:
    scene.broker.credit, scene.broker.outcome = 3, None
    sender = scene.sender()
    (there,) = scene.broker.of("b2.queue")
    for _ in range(3):
        scene.client.send(sender, message())
    scene.until(lambda: len(there.got) == 3)
    assert sender.link.credit == 0
    scene.broker.settle(there.got[0])
    scene.until(lambda: sender.link.credit == 1)
    scene.client.send(sender, message())
    scene.until(lambda: len(there.got) == 4)


def test_sessions_without_links_end(scene: Scene) -> None:
    sender = scene.sender()
    (conn,) = scene.broker.conns
    assert len(conn.sessions) == 1
    sender.link.detach()
    scene.client.wake()
    scene.network.run(1.0)
    assert not conn.sessions


def test_pre_settled_deliveries_stay_so(scene: Scene) -> None:
    sender = scene.sender()
    scene.client.send(sender, message(), settled=True)
    (there,) = scene.broker.of("b2.queue")
    scene.until(lambda: len(there.got) == 1)
    assert there.got[0].settled


def test_compat_09_a_tag_of_over_32_octets_is_rejected_alone(scene: Scene) -> None:
    """The link goes on, and the credit that the rejected delivery took comes back."""
    sender = scene.sender()
    link = sender.link
    for tag in (b"t" * 33, b"t" * 32):
        terms = Transfer(link.handle, link.session.next_delivery_id, tag, 0, False, False)
        link.session.next_delivery_id += 1
        link.session.next_outgoing_id += 1
        link.connection.put(encode_frame(link.session.channel, terms, message(tag)))
        link.credit -= 1
        link.delivery_count += 1
        link.connection.mark_dirty()
        scene.client.wake()
        scene.network.run(0.2)
    assert list(scene.broker.queues["b2.queue"]) == [message(b"t" * 32)]
    assert not sender.gone
    assert link.credit == scene.broker.credit - 1
