"""Autolinks and link routes as in qdrouterd. The items of docs/compatibility-items.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import Broker
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.routes import BOTH, Scene
from waymesh_amqp.performatives import ErrorInfo, Open

LISTENER = (
    "listener {\nname: brokers\nhost: 0.0.0.0\nport: 30000\nrole: route-container\nsaslMechanisms: ANONYMOUS\n}\n"
)
LINKS = "".join(
    f"autoLink {{\nname: {way}\naddress: work\ndirection: {way}\n%s\n}}\n" for way in ("in", "out")
)


def rows(router: SimRouter) -> list[dict[str, Any]]:
    return list(router.router.agent.adapters["router.config.autoLink"].rows(router.world.now))


@pytest.mark.parametrize("place", ["connection: brokers", "containerId: twin"])
def test_compat_15_each_connection_of_a_container_gets_the_autolinks_links(place: str) -> None:
    """Two connections to one named listener, or of one container id; one of them goes and comes back."""
    network = Network()
    router = network.router("A", LISTENER + LINKS.replace("%s", place))
    network.start()
    brokers = [Broker(network, "twin") for _ in range(2)]
    for broker in brokers:
        broker.dial(router, 30000)
    network.run(0.5)
    assert [len(broker.of("work")) for broker in brokers] == [2, 2]
    names = [party.link.name for broker in brokers for party in broker.links]
    assert len(set(names)) == 4
    assert [row["operStatus"] for row in rows(router)] == ["active", "active"]
    brokers[0].drop()
    network.run(0.5)
    assert len(brokers[1].of("work")) == 2
    assert [row["operStatus"] for row in rows(router)] == ["active", "active"]
    assert len(router.core.addresses["M0work"].consumers) == 1
    brokers[0].dial(router, 30000)
    network.run(0.5)
    assert [len(broker.of("work")) for broker in brokers] == [2, 2]
    assert sorted(party.link.name for party in brokers[0].of("work")) == sorted(names[:2])  # as before
    for row in rows(router):
        router.router.agent.adapters["router.config.autoLink"].delete(row["identity"])
    router.wake()
    network.run(0.5)
    assert [len(broker.of("work")) for broker in brokers] == [0, 0]


def test_compat_16_routers_of_one_id_do_not_steal_each_others_autolinks() -> None:
    """Two meshes with equal names and router ids at one broker, which knows links by container and name."""
    names: list[set[str]] = []
    network = Network()
    broker = Broker(network)
    for number in (1, 2):
        router = network.router("A" if number == 1 else "B", LINKS.replace("%s", "connection: broker"))
        router.name = "A"
        broker.connector(router)
    network.start()
    network.run(0.5)
    for conn in broker.conns:
        assert conn.remote is not None
        assert conn.remote.container_id == "A"
        names.append({party.link.name for party in broker.of("work") if party.link.connection is conn})
    assert [len(found) for found in names] == [2, 2]
    assert not names[0] & names[1]
    broker.drop()
    network.run(5.0)
    again = {party.link.name for party in broker.of("work")}
    assert again == names[0] | names[1]  # a broker that still has the old link ends it for the new one


def test_compat_17_the_brokers_own_reason_is_shown() -> None:
    network = Network()
    router = network.router("A", LINKS.replace("%s", "connection: broker"))
    broker = Inactive(network)
    broker.connector(router)
    network.start()
    network.run(0.7)
    assert {row["lastError"] for row in rows(router)} == {Inactive.REASON}
    (connector,) = router.router.agent.adapters["connector"].rows(network.now)
    assert Inactive.REASON in connector["connectionMsg"]


class Inactive(Broker):
    """A broker that opens with one channel and closes at once."""

    REASON = "Virtual host is not active"

    def on_open(self, connection: Any, performative: Open) -> None:
        connection.settings.channel_max = 0
        Broker.on_open(self, connection, performative)
        connection.close_with(ErrorInfo("amqp:connection:forced", self.REASON))


def test_compat_08_a_container_is_routed_back_to_its_own_connection() -> None:
    """A container that attaches to an address of its own link route, which no other container serves."""
    scene = Scene("A")
    conn = scene.broker.conns[0]
    link = scene.broker.sender(conn.open_session(), "b2.queue")
    scene.network.run(0.5)
    assert link.link.attached
    (back,) = scene.broker.of("b2.queue", is_sender=False)
    assert back.link.connection is conn
    scene.broker.send(link, message(b"to itself"))
    scene.network.run(0.1)
    assert list(scene.broker.queues["b2.queue"]) == [message(b"to itself")]
    assert len(link.outcomes) == 1


def test_compat_08_another_container_goes_before_the_own_connection() -> None:
    network = Network()
    router = network.router("A", BOTH + LISTENER.replace("brokers", "broker"))
    network.start()
    one, other = Broker(network, "one"), Broker(network, "other")
    for broker in (one, other):
        broker.dial(router, 30000)
    network.run(0.3)
    one.sender(one.conns[0].open_session(), "b2.queue")
    network.run(0.3)
    assert not one.of("b2.queue", is_sender=False)
    assert len(other.of("b2.queue", is_sender=False)) == 1
