"""Management as scripts for qdrouterd expect it. The items of docs/compatibility-items.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, RELEASED, Broker, Party
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import modified
from waymesh_amqp.types import encode

ENTITIES = (
    "autoLink {\naddress: queue\ndirection: in\nconnection: broker\n}\n"
    "autoLink {\nname: named\naddress: queue\ndirection: out\nconnection: broker\n}\n"
    "linkRoute {\nprefix: routed\ndirection: in\nconnection: broker\n}\n"
    "linkRoute {\nprefix: routed\ndirection: out\nconnection: broker\n}\n"
)


class Mesh:
    """A – B – C; the broker is at C."""

    def __init__(self) -> None:
        self.network = Network()
        for name in "ABC":
            self.network.router(name, ENTITIES if name == "C" else "")
        for one, other in ("AB", "BC"):
            self.network.cable(one, other)
        self.broker = Broker(self.network)
        self.broker.connector(self["C"])
        self.network.start()
        self.network.until(lambda: not faults(self.network), 2.0)
        self.network.run(0.5)

    def __getitem__(self, name: str) -> SimRouter:
        return self.network.routers[name]

    def client(self, name: str) -> tuple[Party, Any]:
        party = Party(self.network, f"client-{name}")
        conn = party.dial(self[name])
        self.network.run(0.1)
        return party, conn.open_session()

    def ask(self, router: str, operation: str, body: Any = None, **properties: Any) -> tuple[int, Any]:
        """Status and body of the answer to a request."""
        request = Message(
            reply_to="r", application_properties={"operation": operation, **properties}, body=body or {}
        )
        answer = self[router].router.agent.handle(request, self.network.now)
        assert answer is not None
        told = decode_message(encode_message(answer))
        return int((told.application_properties or {})["statusCode"]), told.body

    def rows(self, router: str, kind: str, *names: str) -> list[dict[str, Any]]:
        status, body = self.ask(router, "QUERY", {"attributeNames": list(names)}, entityType=kind)
        assert status == 200
        return [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


def test_compat_18_links_have_their_names_and_routes_plain_numbers(mesh: Mesh) -> None:
    client, session = mesh.client("A")
    client.receiver(session, "orders", 10, name="my-own-name")
    mesh.network.run(0.1)
    (row,) = [row for row in mesh.rows("A", "router.link") if row["linkName"] == "my-own-name"]
    assert row["name"] == "my-own-name"
    assert row["identity"].isdigit()
    for row in mesh.rows("A", "connection", "name", "identity", "host"):
        assert row["name"] == f"connection/{row['host']}"
        assert row["identity"].isdigit()
    for kind in ("router.config.autoLink", "router.config.linkRoute"):
        found = mesh.rows("C", kind)
        assert len({row["identity"] for row in found}) == 2
        assert all(row["identity"].isdigit() for row in found)
        assert mesh.ask("C", "READ", type=kind, identity=found[0]["identity"])[0] == 200
    assert mesh.ask("C", "READ", type="router.config.autoLink", name="named")[0] == 200


STATES = [ACCEPTED] * 5 + [REJECTED] * 4 + [RELEASED] * 3 + [encode(modified(True))] * 2
COUNTS = {"acceptedCount": 5, "rejectedCount": 4, "releasedCount": 3, "modifiedCount": 2, "presettledCount": 6}


def test_compat_19_counts_are_equal_on_every_router_of_a_line(mesh: Mesh) -> None:
    """14 deliveries with all outcomes and 6 pre-settled ones from A to C."""
    taker, session = mesh.client("C")
    consumer = taker.receiver(session, "orders", 100)
    mesh.network.run(0.2)
    sender, session = mesh.client("A")
    producer = sender.sender(session, "orders")
    mesh.network.run(0.2)
    before = {name: mesh.rows(name, "router")[0] for name in "ABC"}
    for number in range(20):
        sender.send(producer, message(b"%d" % number), settled=number >= 14)
    mesh.network.run(0.2)
    for got, state in zip(consumer.got, STATES, strict=False):
        taker.settle(got, state)
    mesh.network.run(0.2)
    after = {name: mesh.rows(name, "router")[0] for name in "ABC"}
    gained = {
        name: tuple(after[name][key] - before[name][key] for key in after[name] if key.endswith("Deliveries"))
        for name in "ABC"
    }

    def more(name: str, key: str) -> int:
        return int(after[name][key] - before[name][key])

    for name, ingress, egress, transit in (("A", 20, 0, 20), ("B", 0, 0, 20), ("C", 0, 20, 0)):
        assert more(name, "deliveriesIngress") == ingress, gained
        assert more(name, "deliveriesEgress") == egress
        assert more(name, "deliveriesTransit") == transit
        assert [more(name, f"{state}Deliveries") for state in ("accepted", "rejected", "released", "modified")] == [
            5, 4, 3, 2,
        ]  # fmt: skip
    assert [more(name, "presettledDeliveries") for name in "ABC"] == [6, 0, 0]
    (incoming,) = [row for row in mesh.rows("A", "router.link") if row["owningAddr"] == "M0orders"]
    (outgoing,) = [row for row in mesh.rows("C", "router.link") if row["owningAddr"] == "M0orders"]
    for row in (incoming, outgoing):
        assert {key: row[key] for key in COUNTS} == COUNTS
        assert row["deliveryCount"] == 20
    for name, direction in (("A", "out"), ("B", "in"), ("B", "out"), ("C", "in")):
        rows = mesh.rows(name, "router.link")
        links = [row for row in rows if (row["linkType"], row["linkDir"]) == ("inter-router", direction)]
        assert {key: sum(row[key] for row in links) for key in COUNTS} == COUNTS, (name, direction)


def test_compat_19_dropped_presettled_deliveries_count_as_dropped_at_link_and_router(mesh: Mesh) -> None:
    taker, session = mesh.client("A")
    taker.receiver(session, "orders", 0)
    sender, session = mesh.client("A")
    producer = sender.sender(session, "orders")
    mesh.network.run(0.2)
    before = mesh.rows("A", "router")[0]
    for number in range(1050):
        if not producer.link.ready():
            mesh.network.run(0.1)
        sender.send(producer, message(b"%d" % number), settled=True)
    mesh.network.run(0.2)
    after = mesh.rows("A", "router")[0]
    assert after["droppedPresettledDeliveries"] - before["droppedPresettledDeliveries"] == 50
    rows = mesh.rows("A", "router.link")
    (row,) = [row for row in rows if (row["owningAddr"], row["linkDir"]) == ("M0orders", "in")]
    assert row["droppedPresettledCount"] == 50


def test_compat_19_link_routed_deliveries_count_where_they_come_in_and_go_out(mesh: Mesh) -> None:
    before = {name: mesh.rows(name, "router")[0] for name in "ABC"}
    sender, session = mesh.client("A")
    producer = sender.sender(session, "routed.q")
    mesh.network.run(0.2)
    for _ in range(7):
        sender.send(producer, message())
    mesh.network.run(0.2)
    keys = ("deliveriesIngress", "deliveriesEgress", "deliveriesTransit")
    after = {name: mesh.rows(name, "router")[0] for name in "ABC"}
    assert [[after[name][key] - before[name][key] for key in keys] for name in "ABC"] == [
        [7, 0, 7], [0, 0, 7], [0, 7, 0],
    ]  # fmt: skip


def test_compat_20_query_with_only_a_type(mesh: Mesh) -> None:
    by_type = mesh.ask("A", "QUERY", {"attributeNames": ["name", "port"]}, type="listener")
    assert by_type == mesh.ask("A", "QUERY", {"attributeNames": ["name", "port"]}, entityType="listener")
    assert len(by_type[1]["results"]) == 2


def test_compat_20_connections_between_routers_cannot_be_closed(mesh: Mesh) -> None:
    (row,) = [row for row in mesh.rows("A", "connection") if row["role"] == "inter-router"]
    status, _ = mesh.ask("A", "UPDATE", {"adminStatus": "deleted"}, type="connection", identity=row["identity"])
    assert status == 403
    _, _session = mesh.client("A")
    (row,) = [row for row in mesh.rows("A", "connection") if row["role"] == "normal"]
    status, _ = mesh.ask("A", "UPDATE", {"adminStatus": "deleted"}, type="connection", identity=row["identity"])
    assert status == 200


def test_compat_20_a_link_route_pattern_without_a_word_is_refused(mesh: Mesh) -> None:
    body = {"pattern": "///", "direction": "in", "connection": "x"}
    assert mesh.ask("A", "CREATE", body, type="router.config.linkRoute", name="empty")[0] == 400


def test_compat_20_connectors_show_their_connection_and_alternatives(mesh: Mesh) -> None:
    (row,) = mesh.rows("C", "connector")
    assert row["connectionMsg"].startswith(f"[C{row_id(mesh)}] Connection Opened: dir=out host=")
    assert " user= container_id=" in row["connectionMsg"], "no user: an empty value, as in the log line"
    assert "failoverUrls" in row


def row_id(mesh: Mesh) -> str:
    (row,) = [row for row in mesh.rows("C", "connection") if row["role"] == "route-container"]
    return str(row["identity"])


def test_compat_20_replies_know_the_old_names_too(mesh: Mesh) -> None:
    for row in mesh.rows("C", "router.config.autoLink"):
        assert (row["dir"], row["addr"]) == (row["direction"], row["address"])
    (first, *_) = mesh.rows("C", "router.config.linkRoute")
    assert first["dir"] == first["direction"]
    assert mesh.rows("C", "router.config.autoLink", "dir")[0] == {"dir": "in"}
    row = mesh.rows("C", "router.config.autoLink", "dir", "addr", "address")[0]
    assert row["addr"] == row["address"] == "queue"


def test_compat_21_policy_and_allocator_have_rows(mesh: Mesh) -> None:
    (row,) = mesh.rows("A", "policy")
    assert row["enableVhostPolicy"] is False
    found = mesh.rows("A", "allocator")
    assert found
    assert all(isinstance(row["typeSize"], int) and row["typeName"] for row in found)
