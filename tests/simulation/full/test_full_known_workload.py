"""The counters of all entities after a known workload over three routers, in virtual time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, RELEASED, Broker, Party, PartyLink
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.states import OPENED

MODIFIED = b"\x00\x53\x27\x45"
ADDRESSES = """
address {
    prefix: news
    distribution: multicast
}
address {
    prefix: queue
    waypoint: yes
}
address {
    prefix: spare
    enableFallback: yes
}
"""
AUTO_LINKS = """
autoLink {
    address: queue
    direction: in
    connection: broker
}
autoLink {
    address: queue
    direction: out
    connection: broker
}
autoLink {
    address: spare
    direction: out
    connection: broker
    fallback: yes
}
"""
STATES = [ACCEPTED] * 5 + [REJECTED] * 4 + [RELEASED] * 3 + [MODIFIED] * 2


class Workload:
    """A – B – C with a broker at C. Each client has one connection and one session."""

    def __init__(self) -> None:
        network = self.network = Network()
        for name in "ABC":
            network.router(name, ADDRESSES + (AUTO_LINKS if name == "C" else ""))
        network.cable("A", "B")
        network.cable("B", "C")
        self.broker = Broker(network)
        self.broker.connector(network.routers["C"])
        network.start()
        network.until(lambda: not faults(network) and len(self.broker.links) == 3, 3.0)
        network.run(0.5)
        self.sessions = {name: self._connect(name) for name in "ABC"}

    def _connect(self, name: str) -> tuple[Party, Any]:
        party = Party(self.network, f"client-{name}")
        conn = party.dial(self.network.routers[name])
        self.network.until(lambda: conn.state == OPENED, 1.0)
        return party, conn.open_session()

    def receiver(self, router: str, address: str) -> PartyLink:
        party, session = self.sessions[router]
        link = party.receiver(session, address, 250, name=f"{address} to {router}")
        self.network.until(lambda: link.attach is not None, 1.0)
        self.network.run(0.3)
        return link

    def sender(self, router: str, address: str) -> PartyLink:
        party, session = self.sessions[router]
        link = party.sender(session, address, name=f"{address} from {router}")
        self.network.until(lambda: link.link.credit > 0, 1.0)
        return link

    def send(self, router: str, link: PartyLink, unsettled: int, settled: int = 0) -> None:
        party, _ = self.sessions[router]
        for number in range(unsettled + settled):
            party.send(link, message(), settled=number >= unsettled)
        self.network.run(0.2)

    def settle(self, router: str, link: PartyLink, states: list[bytes] | None = None) -> None:
        """Settle what came unsettled; all of it accepted unless told otherwise."""
        party, _ = self.sessions[router]
        unsettled = [got for got in link.got if not got.settled]
        for got, state in zip(unsettled, states or [ACCEPTED] * len(unsettled), strict=True):
            party.settle(got, state)
        self.network.run(0.2)

    def rows(self, router: str, kind: str) -> list[dict[str, Any]]:
        """All entities of a type, by a QUERY."""
        request = Message(reply_to="r", application_properties={"operation": "QUERY", "entityType": kind})
        reply = self.network.routers[router].router.agent.handle(request, self.network.now)
        body = decode_message(encode_message(reply)).body
        return [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]


@pytest.fixture(scope="module")
def done() -> Workload:
    """All of the workload, done."""
    work = Workload()
    # 14 deliveries with all outcomes and 6 pre-settled ones over all three routers.
    orders = work.receiver("C", "orders")
    work.send("A", work.sender("A", "orders"), 14, 6)
    work.settle("C", orders, STATES)
    # 4 messages to two consumers each.
    news = {name: work.receiver(name, "news") for name in "AC"}
    work.send("A", work.sender("A", "news"), 4)
    for name, link in news.items():
        work.settle(name, link)
    # 5 messages within one router.
    near = work.receiver("B", "near")
    work.send("B", work.sender("B", "near"), 5)
    work.settle("B", near)
    # 3 messages through a queue of the broker.
    queue = work.receiver("B", "queue")
    work.send("A", work.sender("A", "queue"), 3)
    work.settle("B", queue)
    # 2 messages that nobody wants, to the fallback destination.
    work.send("A", work.sender("A", "spare"), 2)
    # One management request of a client.
    work.receiver("A", "answers")
    party, _ = work.sessions["A"]
    request = Message(reply_to="answers", application_properties={"operation": "READ", "type": "router"})
    party.send(work.sender("A", "$management"), encode_message(request))
    work.network.run(2.0)
    return work


COUNTS = (
    "Ingress",
    "Egress",
    "Transit",
    "ToContainer",
    "FromContainer",
    "IngressRouteContainer",
    "EgressRouteContainer",
    "RedirectedToFallback",
)
MESSAGES = {
    "A": {
        "M0orders": {"Ingress": 20, "Transit": 20},
        "M0news": {"Ingress": 4, "Egress": 4, "Transit": 4},
        "M0queue": {"Ingress": 3, "Transit": 3},
        "M0spare": {"Ingress": 2, "RedirectedToFallback": 2},
        "MFspare": {"Transit": 2},
        "M0$management": {"Ingress": 1, "ToContainer": 1},
        "M0answers": {"Egress": 1, "FromContainer": 1},
    },
    "B": {
        "M0orders": {"Transit": 20},
        "M0news": {"Transit": 4},
        "M0near": {"Ingress": 5, "Egress": 5},
        "M0queue": {"Transit": 3},
        "M1queue": {"Egress": 3},
        "MFspare": {"Transit": 2},
    },
    "C": {
        "M0orders": {"Egress": 20},
        "M0news": {"Egress": 4},
        "M0queue": {"Egress": 3, "EgressRouteContainer": 3},
        "M1queue": {"Ingress": 3, "Transit": 3, "IngressRouteContainer": 3},
        "MFspare": {"Egress": 2, "EgressRouteContainer": 2},
    },
}
CONSUMERS = {
    "A": {"M0news": (1, ["C"]), "M0answers": (1, []), "M0orders": (0, ["C"]), "M0near": (0, ["B"])},
    "B": {"M0news": (0, ["A", "C"]), "M0near": (1, []), "M1queue": (1, []), "M0queue": (0, ["C"])},
    "C": {"M0news": (1, ["A"]), "M0orders": (1, []), "M0queue": (1, []), "M1queue": (0, ["B"]), "MFspare": (1, [])},
}
OUTCOMES = ("accepted", "rejected", "released", "modified", "presettled", "droppedPresettled")
CLIENT_LINKS: dict[str, dict[str, tuple[str, int, tuple[int, ...] | None]]] = {
    "A": {
        "M0orders": ("in", 20, (5, 4, 3, 2, 6, 0)),
        "M0queue": ("in", 3, (3, 0, 0, 0, 0, 0)),
        "M0spare": ("in", 2, (2, 0, 0, 0, 0, 0)),
        "M0$management": ("in", 1, (1, 0, 0, 0, 0, 0)),
        "M0answers": ("out", 1, None),
    },
    "B": {"M1queue": ("out", 3, None)},
    "C": {
        "M1queue": ("in", 3, (3, 0, 0, 0, 0, 0)),
        "M0queue": ("out", 3, None),
        "MFspare": ("out", 2, None),
        "M0orders": ("out", 20, None),
        "M0news": ("out", 4, None),
    },
}
BETWEEN_ROUTERS = {
    "A": ((0, (0, 0, 0, 0, 0, 0)), 29),
    "B": ((32, (17, 4, 3, 2, 6, 0)), 29),
    "C": ((29, (14, 4, 3, 2, 6, 0)), 3),
}
"""Deliveries and outcomes of the incoming data links of each router, and deliveries of its outgoing ones."""


@pytest.mark.parametrize("router", MESSAGES)
def test_addresses_count_each_message(done: Workload, router: str) -> None:
    rows = {row["key"]: row for row in done.rows(router, "router.address")}
    counts = {key: {name: row[f"deliveries{name}"] for name in COUNTS} for key, row in rows.items()}
    found = {key: {name: n for name, n in one.items() if n} for key, one in counts.items() if key.startswith("M")}
    assert {key: one for key, one in found.items() if one} == MESSAGES[router]
    for key in counts.keys() - found.keys():  # of routers: what they say to each other is no traffic
        assert not any(counts[key][name] for name in COUNTS if name not in ("ToContainer", "FromContainer"))
    for key, (local, remote) in CONSUMERS[router].items():
        assert (rows[key]["subscriberCount"], rows[key]["remoteHostRouters"]) == (local, remote)
        assert rows[key]["remoteCount"] == len(remote)
        assert rows[key]["trackedDeliveries"] == 0


@pytest.mark.parametrize("router", CLIENT_LINKS)
def test_links_count_each_delivery_and_its_outcome(done: Workload, router: str) -> None:
    rows = done.rows(router, "router.link")
    clients = {row["owningAddr"]: row for row in rows if row["linkType"] == "endpoint"}
    for key, (direction, deliveries, outcomes) in CLIENT_LINKS[router].items():
        row = clients[key]
        assert (row["linkDir"], row["deliveryCount"]) == (direction, deliveries), key
        if outcomes is not None:
            assert tuple(row[f"{name}Count"] for name in OUTCOMES) == outcomes, key
    assert all(row["undeliveredCount"] == row["unsettledCount"] == 0 for row in rows)
    assert all(row["deliveriesDelayed1Sec"] == row["deliveriesStuck"] == 0 for row in rows)


@pytest.mark.parametrize("router", BETWEEN_ROUTERS)
def test_links_between_routers_count_the_same(done: Workload, router: str) -> None:
    (deliveries, outcomes), sent = BETWEEN_ROUTERS[router]
    total: Counter[tuple[str, str]] = Counter()
    for row in done.rows(router, "router.link"):
        if row["linkType"] == "inter-router":
            for name in ("deliveryCount", *(f"{outcome}Count" for outcome in OUTCOMES)):
                total[row["linkDir"], name] += row[name]
    incoming = total["in", "deliveryCount"], tuple(total["in", f"{name}Count"] for name in OUTCOMES)
    assert incoming == (deliveries, outcomes)
    assert total["out", "deliveryCount"] == sent


@pytest.mark.parametrize("name", "ABC")
def test_the_counters_of_the_router_are_the_sums(done: Workload, name: str) -> None:
    (router,) = done.rows(name, "router")
    addresses, links = done.rows(name, "router.address"), done.rows(name, "router.link")
    sums = ("Ingress", "Egress", "Transit", "IngressRouteContainer", "EgressRouteContainer", "RedirectedToFallback")
    for count in sums:
        assert router[f"deliveries{count}"] == sum(row[f"deliveries{count}"] for row in addresses), count
    incoming = [row for row in links if row["linkDir"] == "in"]
    for outcome in OUTCOMES[:4]:
        assert router[f"{outcome}Deliveries"] == sum(row[f"{outcome}Count"] for row in incoming), outcome
    kinds = {"connection": "connection", "link": "router.link", "addr": "router.address", "autoLink": "autoLink"}
    for count, kind in kinds.items():
        assert router[f"{count}Count"] == len(done.rows(name, kind)), kind
    assert router["nodeCount"] == len(done.rows(name, "router.node")) - 1
    nothing = ("droppedPresettledDeliveries", "deliveriesDelayed1Sec", "deliveriesDelayed10Sec", "deliveriesStuck")
    assert not any(router[count] for count in (*nothing, "linksBlocked", "unsettledDeliveries", "bufferedBytes"))


def test_what_enters_the_mesh_leaves_it(done: Workload) -> None:
    total: Counter[str] = Counter()
    for name in "ABC":
        (router,) = done.rows(name, "router")
        total.update({count: router[f"deliveries{count}"] for count in ("Ingress", "Egress")})
    entered = 20 + 4 + 5 + 3 + 3 + 2 + 1  # those of the queue twice: from the client and from the broker
    left = 20 + 4 * 2 + 5 + 3 + 3 + 2 + 1
    assert total == {"Ingress": entered, "Egress": left}


@pytest.mark.parametrize("name", "ABC")
def test_connections_and_autolinks(done: Workload, name: str) -> None:
    rows = {row["container"]: row for row in done.rows(name, "connection")}
    neighbours = {"A": {"B"}, "B": {"A", "C"}, "C": {"B", "broker"}}[name]
    assert rows.keys() == {f"client-{name}", *neighbours}
    for row in rows.values():
        assert row["lastDlvSeconds"] <= row["uptimeSeconds"] <= done.network.now - 1000
    links = {row["identity"]: row for row in done.rows(name, "router.link")}
    for row in done.rows(name, "autoLink"):
        assert row["operStatus"] == "active"
        assert links[row["linkRef"]]["connectionId"] == rows["broker"]["identity"]


@pytest.mark.parametrize("router", "ABC")
def test_each_attribute_of_each_entity_has_a_source(done: Workload, router: str) -> None:
    missing: dict[str, set[str]] = {}
    for adapter in done.network.routers[router].router.agent.adapters.values():
        for row in adapter.rows(done.network.now):
            absent = set(adapter.entity_type.attributes) - set(row)
            if absent:
                missing.setdefault(adapter.entity_type.name, set()).update(absent)
    assert not missing
