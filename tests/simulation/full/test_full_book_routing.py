"""Examples, figures and tables, one test a section: Dispatch book 3.4 and 3.5, routing chapter."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, RELEASED, Broker, Party, PartyLink
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from tests.simulation.full.routes import BOTH as LINK_ROUTES
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import modified
from waymesh_amqp.states import OPENED
from waymesh_amqp.types import encode

MODIFIED = encode(modified(True))
STATES = {"accepted": ACCEPTED, "rejected": REJECTED, "released": RELEASED, "modified": MODIFIED}
CODES = {state[2]: name for name, state in STATES.items()}


class Book:
    """Routers (pairs of names are cables), converged; `brokers`: router → names of its connectors to a broker each."""

    def __init__(self, routers: dict[str, str], cables: str = "", brokers: dict[str, str] | None = None) -> None:
        self.network = Network()
        self.brokers: dict[str, Broker] = {}
        for name, extra in routers.items():
            self.network.router(name, extra)
        for pair in cables.split():
            self.network.cable(*pair)
        for name, connectors in (brokers or {}).items():
            for connector in connectors.split():
                self.brokers[connector] = Broker(self.network, connector)
                self.brokers[connector].connector(self.network.routers[name], connector)
        self.network.start()
        self.until(lambda: not faults(self.network), 2.0)
        self.network.run(0.5)

    def __getitem__(self, router: str) -> SimRouter:
        return self.network.routers[router]

    def until(self, condition: Any, limit: float = 2.0) -> None:
        self.network.until(condition, limit)

    def client(self, router: str, name: str = "client") -> Client:
        return Client(self, router, name)

    def autolinks(self, router: str) -> list[tuple[str, str, int, str, str | None]]:
        """What `qdstat --autolinks` shows: address, direction, phase, status, last error."""
        rows = self[router].router.agent.adapters["router.config.autoLink"].rows(self.network.now)
        names = ("address", "direction", "phase", "operStatus", "lastError")
        return [tuple(row[name] for name in names) for row in rows]

    def address(self, router: str, key: str) -> tuple[int, int, int]:
        """What `qdstat -a` shows: local, in, out."""
        rows = self[router].router.agent.adapters["router.address"].rows(self.network.now)
        (row,) = [row for row in rows if row["key"] == key]
        return row["subscriberCount"], row["deliveriesIngress"], row["deliveriesEgress"]

    def create(self, router: str, kind: str, **attributes: Any) -> None:
        """As qdmanage does it, by the router's agent."""
        self[router].router.agent.configure(kind, attributes)
        self[router].wake()


class Client:
    """A client of one router with one session."""

    def __init__(self, book: Book, router: str, name: str) -> None:
        self.book = book
        self.party = Party(book.network, name)
        conn = self.party.dial(book[router])
        book.until(lambda: conn.state == OPENED)
        self.session = conn.open_session()

    def sender(self, address: str, credit: bool = True, name: str = "out") -> PartyLink:
        link = self.party.sender(self.session, address, name=name)
        self.book.until(lambda: link.gone or (link.attach is not None and (link.link.credit > 0 or not credit)))
        return link

    def receiver(self, address: str, credit: int = 10, name: str = "in") -> PartyLink:
        link = self.party.receiver(self.session, address, credit, name=name)
        self.book.until(lambda: link.gone or link.attach is not None)
        self.book.network.run(0.05)
        return link

    def send(self, link: PartyLink, count: int, data: bytes | None = None) -> None:
        for number in range(count):
            self.book.until(link.link.ready)
            self.party.send(link, message(b"%d" % number) if data is None else data)
        self.book.network.run(0.1)

    def settle(self, link: PartyLink, state: bytes = ACCEPTED) -> None:
        for got in link.got:
            self.party.settle(got, state)
        self.book.network.run(0.1)


def queue(name: str, connection: str, **more: Any) -> str:
    """The two autolinks of a queue."""
    lines = "".join(f"{key}: {value}\n" for key, value in more.items())
    both = [f"address: {name}\ndirection: {way}\nconnection: {connection}\n{lines}" for way in ("in", "out")]
    return "".join(f"autoLink {{\n{terms}}}\n" for terms in both)


WAYPOINT = "address {\nprefix: queue\nwaypoint: yes\n}\n"
ACTIVE = ("active", None)


# ---- queues of brokers


def test_3_5_1_queue_waypoint_example() -> None:
    """One broker with `queue.first` and without `queue.second`; the tables of qdstat."""
    book = Book({"A": WAYPOINT + queue("queue.first", "broker") + queue("queue.second", "broker")})
    assert {row[3] for row in book.autolinks("A")} == {"inactive"}
    broker = Broker(book.network)
    broker.refuse["queue.second"] = ("amqp:not-found", "Node not found: queue.second")
    broker.connector(book["A"])
    book.create("A", "connector", name="broker", host="b", port="1", role="route-container")
    book.until(lambda: "attaching" not in str(book.autolinks("A")) and "inactive" not in str(book.autolinks("A")), 10.0)
    failed = ("failed", "Node not found: queue.second")
    assert book.autolinks("A") == [
        ("queue.first", "in", 1, *ACTIVE),
        ("queue.first", "out", 0, *ACTIVE),
        ("queue.second", "in", 1, *failed),
        ("queue.second", "out", 0, *failed),
    ]
    client = book.client("A")
    sender = client.sender("queue.first")
    client.send(sender, 3)
    assert sender.outcomes == [(True, ACCEPTED)] * 3
    assert book.address("A", "M0queue.first") == (1, 3, 3)
    assert book.address("A", "M1queue.first") == (0, 0, 0)
    receiver = client.receiver("queue.first", 3)
    client.settle(receiver)
    assert [got.data for got in receiver.got] == [message(b"%d" % n) for n in range(3)]
    assert book.address("A", "M1queue.first") == (1, 3, 3)
    assert broker.states == [ACCEPTED] * 3


def test_3_5_1_all_deliveries_of_a_mesh_go_through_the_queue() -> None:
    book = Book(
        {"A": WAYPOINT, "B": WAYPOINT, "C": WAYPOINT + queue("queue.first", "broker")}, "AB BC", {"C": "broker"}
    )
    receivers = [book.client(name, f"r{name}") for name in "ABC"]
    links = [client.receiver("queue.first", 10) for client in receivers]
    for name in "ABC":
        client = book.client(name, f"s{name}")
        sender = client.sender("queue.first")
        client.send(sender, 4)
        assert sender.outcomes == [(True, ACCEPTED)] * 4
    assert sum(len(link.got) for link in links) == 12
    (tail,) = book.brokers["broker"].of("queue.first", is_sender=False)
    assert len(tail.got) == 12


def test_3_5_2_sharded_queue_example_and_3_5_3_dynamically_adding_shards() -> None:
    names = ("broker1", "broker2")
    extra = WAYPOINT + "".join(queue("queue.first", name) for name in names)
    book = Book({"A": extra, "B": WAYPOINT}, "AB", {"A": "broker1 broker2 broker3"})
    for broker in book.brokers.values():
        broker.outcome = None
    client = book.client("B")
    sender = client.sender("queue.first")
    client.send(sender, 20)
    assert [_stored(broker) for broker in book.brokers.values()] == [10, 10, 0]
    for way in ("in", "out"):
        book.create("A", "router.config.autoLink", addr="queue.first", dir=way, connection="broker3")
    book.network.run(0.2)
    client.send(sender, 31)
    assert [_stored(broker) for broker in book.brokers.values()] == [17, 17, 17]
    consumers = [book.client("A", f"c{n}").receiver("queue.first", 10) for n in range(3)]
    for broker in book.brokers.values():
        broker.queues["queue.first"].extend(message(broker.name.encode()) for _ in range(10))
        broker.pump()
    book.network.run(0.2)
    assert [len(link.got) for link in consumers] == [10, 10, 10]
    seen = Counter(got.data for link in consumers for got in link.got)
    assert seen == {message(name.encode()): 10 for name in book.brokers}


def _stored(broker: Broker) -> int:
    return sum(len(link.got) for link in broker.links)


def test_3_5_4_using_a_different_external_address_on_an_auto_link() -> None:
    extra = WAYPOINT + queue("queue.first", "broker", externalAddr="broker_queue")
    book = Book({"A": extra}, brokers={"A": "broker"})
    client = book.client("A")
    client.send(client.sender("queue.first"), 2)
    receiver = client.receiver("queue.first")
    assert len(receiver.got) == 2
    assert set(book.brokers["broker"].queues) == {"broker_queue"}


def test_waypoints_in_a_chain() -> None:
    """Two services between producers, phase 0, and consumers, phase 2."""
    hop = "autoLink {{\naddress: work\nconnection: {0}\ndirection: {1}\nphase: {2}\n}}\n"
    chain = "".join(
        hop.format(*terms) for terms in [("one", "out", 0), ("one", "in", 1), ("two", "out", 1), ("two", "in", 2)]
    )
    address = "address {\nprefix: work\ningressPhase: 0\negressPhase: 2\n}\n"
    book = Book({"A": address, "B": address + chain}, "AB", {"B": "one two"})
    client = book.client("A")
    receiver = client.receiver("work")
    sender = client.sender("work")
    client.send(sender, 3)
    assert [got.data for got in receiver.got] == [message(b"%d" % n) for n in range(3)]
    for broker in book.brokers.values():
        assert len(broker.of("work", is_sender=False)[0].got) == 3
    assert [book.address("B", f"M{phase}work")[2] for phase in (0, 1)] == [3, 3]


# ---- link routes


def test_3_4_client_isolation_by_link_routes() -> None:
    """C1 at Rb, B1 at Rp, B2 at Ra: all of them have the same configuration."""
    routes = LINK_ROUTES + LINK_ROUTES.replace("b2", "b1").replace("broker", "public")
    book = Book(dict.fromkeys("apb", routes), "ap bp", {"a": "broker", "p": "public"})
    client = book.client("b", "C1")
    for address, broker in (("b2.event-queue", "broker"), ("b1.event-queue", "public")):
        book.brokers[broker].queues[address] = deque(message(b"%d" % number) for number in range(3))
        receiver = client.receiver(address, name=address)
        assert len(receiver.got) == 3
        assert len(book.brokers[broker].of(address)) == 1
    assert [conn.remote.container_id for conn in book.brokers["broker"].conns if conn.remote] == ["a"]
    book.brokers["broker"].alive = False
    book.brokers["broker"].drop()
    book.network.run(0.2)
    refused = client.receiver("b2.event-queue", name="again")
    assert refused.error is not None
    assert (refused.error.condition, refused.error.description) == (
        "qd:no-route-to-dest",
        "No route to the destination node",
    )


@pytest.mark.parametrize(
    ("address", "routed"),
    [("b2", True), ("b2.queues", True), ("b2.queues.app1", True), ("b2/x", True), ("b22", False), ("x.b2", False)],
)
def test_3_4_1_addresses_that_begin_with_b2(address: str, routed: bool) -> None:
    book = Book({"A": LINK_ROUTES}, brokers={"A": "broker"})
    book.client("A").receiver(address)
    assert len(book.brokers["broker"].of(address)) == routed


PATTERNS = [
    ("news/*", ["news/europe", "news/usa"], ["news", "news/usa/sports"]),
    ("news/#", ["news", "news/europe", "news/usa/sports"], ["europe", "usa"]),
    ("news/europe/#", ["news/europe", "news/europe/sports", "news/europe/politics/fr"], ["news/usa", "europe"]),
    ("news/*/sports", ["news/europe/sports", "news/usa/sports"], ["news", "news/europe/fr/sports"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), PATTERNS, ids=[pattern for pattern, _, _ in PATTERNS])
def test_pattern_matching_for_addresses(pattern: str, yes: list[str], no: list[str]) -> None:
    """The table, for link routes and for addresses."""
    route = f"linkRoute {{\npattern: {pattern}\ndirection: out\nconnection: broker\n}}\n"
    book = Book({"A": route, "B": ""}, "AB", {"A": "broker"})
    client = book.client("B")
    for address in (*yes, *no):
        client.receiver(address, name=address)
        assert len(book.brokers["broker"].of(address)) == (address in yes)
    book = Book({"A": f"address {{\npattern: {pattern}\ndistribution: multicast\n}}\n"})
    for address in (*yes, *no):
        book.client("A", address).receiver(address)
        assert (book["A"].core.addresses["M0" + address].treatment == 1) == (address in yes)


@pytest.mark.parametrize("prefix", ["my_address", "/my_address."])
@pytest.mark.parametrize("address", ["my_address", "my_address.1", "my_address/1"])
def test_prefix_matching_for_addresses(address: str, prefix: str) -> None:
    book = Book({"A": f"address {{\nprefix: {prefix}\ndistribution: multicast\n}}\n"})
    for text in (address, "my_address1"):
        book.client("A", text).receiver(text)
    assert book["A"].core.addresses["M0" + address].treatment == 1
    assert book["A"].core.addresses["M0my_address1"].treatment != 1


# ---- settlement, distribution, priority

MULTICAST = [
    ("accepted accepted", "accepted"),
    ("accepted released", "accepted"),
    ("accepted modified", "accepted"),
    ("accepted rejected", "rejected"),
    ("rejected released", "rejected"),
    ("rejected modified", "rejected"),
    ("released released", "released"),
    ("released modified", "modified"),
    ("modified modified", "modified"),
]


@pytest.mark.parametrize("places", ["AA", "AB", "BC"])
@pytest.mark.parametrize(("given", "final"), MULTICAST)
def test_message_settlement_and_reliability_multicast(given: str, final: str, places: str) -> None:
    """The table's column, with both consumers at the sender's router, one or both of them elsewhere."""
    everywhere = "address {\nprefix: news\ndistribution: multicast\n}\n"
    book = Book(dict.fromkeys("ABC", everywhere), "AB BC")
    consumers = [(book.client(place, f"c{n}"), n) for n, place in enumerate(places)]
    links = [client.receiver("news") for client, _ in consumers]
    producer = book.client("A", "producer")
    sender = producer.sender("news")
    book.network.run(0.2)
    producer.send(sender, 1)
    assert [len(link.got) for link in links] == [1, 1]
    for (client, n), state in zip(consumers, given.split(), strict=True):
        assert not sender.outcomes
        client.settle(links[n], STATES[state])
    book.until(lambda: bool(sender.outcomes))
    assert [(settled, CODES[state[2]]) for settled, state in sender.outcomes] == [(True, final)]


@pytest.mark.parametrize("place", "AC")
@pytest.mark.parametrize("state", STATES)
def test_message_settlement_and_reliability_anycast(state: str, place: str) -> None:
    book = Book(dict.fromkeys("ABC", ""), "AB BC")
    consumer = book.client(place, "consumer")
    link = consumer.receiver("orders")
    producer = book.client("A", "producer")
    sender = producer.sender("orders")
    producer.send(sender, 1)
    consumer.settle(link, STATES[state])
    book.until(lambda: bool(sender.outcomes))
    assert sender.outcomes == [(True, STATES[state])]


def test_a_consumer_that_goes_leaves_its_delivery_in_doubt() -> None:
    book = Book({"A": ""})
    consumer = book.client("A", "consumer")
    link = consumer.receiver("orders")
    producer = book.client("A", "producer")
    sender = producer.sender("orders")
    producer.send(sender, 1)
    assert len(link.got) == 1
    consumer.party.drop()
    book.until(lambda: bool(sender.outcomes))
    assert CODES[sender.outcomes[0][1][2]] == "modified"


@pytest.mark.parametrize(("address", "header", "lane"), [("urgent", 2, 9), ("plain", 2, 2), ("plain", None, 4)])
def test_configuring_addresses_for_prioritized_message_delivery(address: str, header: int | None, lane: int) -> None:
    """The address's priority comes before the message's; each of the ten has a link of its own between routers."""
    urgent = "address {\nprefix: urgent\npriority: 9\n}\n"
    book = Book(dict.fromkeys("AB", urgent), "AB")
    consumer = book.client("B", "consumer")
    link = consumer.receiver(address)
    producer = book.client("A", "producer")
    producer.send(producer.sender(address), 1, encode_message(Message(priority=header, body=b"x", body_kind="data")))
    assert len(link.got) == 1
    (mesh,) = [conn for conn in book["A"].core.connections.values() if conn.role == "inter-router"]
    assert [out.priority for out in mesh.data_out if out.delivery_count] == [lane]
    assert len(mesh.data_out) == 10


@pytest.mark.parametrize(
    ("distribution", "least"), [("balanced", [5, 4, 3]), ("closest", [15, 0, 0]), ("multicast", [15, 15, 15])]
)
def test_routing_patterns(distribution: str, least: list[int]) -> None:
    """Three consumers, one to three hops away; what they have not settled counts against them, as does each hop."""
    extra = f"address {{\nprefix: news\ndistribution: {distribution}\n}}\n"
    book = Book(dict.fromkeys("ABCD", extra), "AB BC CD")
    links = [book.client(place, f"c{place}").receiver("news", 100) for place in "BCD"]
    producer = book.client("A", "producer")
    sender = producer.sender("news")
    book.network.run(0.2)
    producer.send(sender, 15)
    book.network.run(1.0)  # balanced: each router gets four, and more when they tell how many they can take
    got = [len(link.got) for link in links]
    assert sum(got) == (45 if distribution == "multicast" else 15)
    assert all(count >= expected for count, expected in zip(got, least, strict=True))
    assert got == sorted(got, reverse=True)
