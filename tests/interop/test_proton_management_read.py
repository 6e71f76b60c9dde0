"""A listener with `management: read`: its clients see this router and the others, and change none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import proton
import pytest

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh, StartRouter
from tests.kit.mesh import Mesh
from tests.kit.outcomes import Sent
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

UNAUTHORIZED = "amqp:unauthorized-access"
NODE = {"type": "org.amqp.management", "name": "self"}
QUERY = {"operation": "QUERY", "entityType": "router", **NODE}
OF_A = (
    "$management",
    "amqp:/$management",
    "//$management",
    "_local/$management",
    "amqps://x/_topo/0/A/$management",
    "_topo/all/A/$management",
)
OF_B = ("_topo/0/B/$management", "amqp:/_topo/0/B/$management", "_topo/all/B/$management")
OF_NOBODY = ("_topo/0/Z/$management", "_topo/0/all/$management", "_topo/all/all/$management", "_edge/E/$management")
READERS = {"host": "127.0.0.1", "management": "read", "stripAnnotations": "no", "maxFrameSize": 2048}


class Reader:
    """A client of a listener with `management: read`, and its requests."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = Client(url, **options)
        self.replies = self.client.receiver(None, 1000, dynamic=True)
        self.text = ""  # of the last reply
        self._asked = 0

    def message(self, properties: dict[Any, Any], body: Any = None, to: str | None = None) -> proton.Message:
        self._asked += 1
        message = proton.Message(properties=properties, body={} if body is None else body)
        message.reply_to, message.correlation_id = self.replies.address, self._asked
        if to is not None:
            message.address = to
        return message

    def reply(self) -> tuple[int, Any]:
        """Status and body of the reply to the last request."""
        received = self.replies.next()
        received.accept()
        assert received.message.correlation_id == self._asked
        self.text = str(received.properties["statusDescription"])
        return int(received.properties["statusCode"]), received.body

    def ask(self, place: str, properties: dict[Any, Any], body: Any = None) -> tuple[int, Any]:
        """A request on a link of its own; status and body of the reply."""
        sender = self.client.sender(place)
        sent = sender.send(self.message(properties, body, to="elsewhere"))
        assert sent.outcome() == "accepted"
        reply = self.reply()
        sender.close()
        return reply

    def anonymous(self, properties: dict[Any, Any], body: Any, to: str, noted: str | None = None) -> Sent:
        message = self.message(properties, body, to)
        if noted is not None:
            message.annotations = {proton.symbol("x-opt-qd.to"): noted}
        return self.client.sender(None).send(message)


def drain(router: str, operation: Any = "UPDATE") -> tuple[dict[Any, Any], dict[str, Any]]:
    """A request that would have the router drain."""
    return {"operation": operation, "type": "router", "name": f"router/{router}"}, {"draining": True}


def of_router(body: Any) -> str:
    return str(dict(zip(body["attributeNames"], body["results"][0]))["id"])


def readers_of(router: RouterProcess) -> Iterator[Reader]:
    listening = re.search(r"Listening on 127\.0\.0\.1:(\d+) \(normal\) as readers", router.log)
    assert listening is not None
    reader = Reader(f"amqp://127.0.0.1:{listening[1]}")
    yield reader
    reader.client.close()


@pytest.fixture
def mesh(start_mesh: StartMesh) -> Mesh:
    """Routers A and B."""
    return start_mesh(2, extra=section("listener", name="readers", port=0, **READERS))


@pytest.fixture
def reader(mesh: Mesh) -> Iterator[Reader]:
    yield from readers_of(mesh["A"])


def draining(mesh: Mesh) -> list[bool]:
    drains = []
    for name in "AB":
        with ManagementClient(mesh[name].url) as client:
            drains.append(bool(client.read("router")["draining"]))
    return drains


def test_both_routers_can_be_read_and_not_changed(mesh: Mesh, reader: Reader) -> None:
    for name, places in (("A", OF_A), ("B", OF_B)):
        for place in places:
            status, body = reader.ask(place, QUERY)
            assert (status, of_router(body)) == (200, name), place
            assert reader.ask(place, *drain(name))[0] == 403, place
    for place in OF_NOBODY:
        assert reader.ask(place, QUERY)[0] == 503, place
        assert reader.ask(place, *drain("A"))[0] == 403, place
    assert draining(mesh) == [False, False]
    assert "request refused: user=anonymous host=127.0.0.1:" in mesh["A"].log
    refused = "listener=readers operation='UPDATE' type='router' {'name': 'router/B'} of _topo/0/B/$management"
    assert refused in mesh["A"].log
    with ManagementClient(mesh["A"].url) as client:
        assert client.read("policy")["totalDenials"] == len(OF_A + OF_B + OF_NOBODY)
        assert client.update({"draining": True}, "router", name="router/A")["draining"]


FORGED = (
    "update",
    "Update",
    proton.symbol("UPDATE"),
    b"UPDATE",
    "UPDATE ",
    "CREATE",
    "DELETE",
    "GET-EVERYTHING",
    "",
    5,
    ["QUERY", "UPDATE"],
)


def test_forged_operations_change_nothing(mesh: Mesh, reader: Reader) -> None:
    for place, name in (("$management", "A"), ("_topo/0/B/$management", "B")):
        for operation in FORGED:
            status, _ = reader.ask(place, *drain(name, operation))
            assert status == (403 if operation and isinstance(operation, (str, bytes)) else 400), operation
        properties, body = drain(name)
        del properties["operation"]
        assert reader.ask(place, properties, body)[0] == 400
        assert reader.ask(place, {**QUERY, "operation": "query"})[0] == 200
        assert reader.ask(place, {**QUERY, "operation": proton.symbol("QUERY")})[0] == 200
    assert draining(mesh) == [False, False]


def test_requests_of_many_frames(mesh: Mesh, reader: Reader) -> None:
    padding = "x" * 12_000
    for place, name in (("$management", "A"), ("_topo/0/B/$management", "B")):
        properties, body = drain(name)
        assert reader.ask(place, properties, {**body, "padding": padding})[0] == 403
        assert reader.ask(place, {"padding": padding, **properties}, body)[0] == 403
        status, answer = reader.ask(place, {"padding": padding, **QUERY})
        assert (status, of_router(answer)) == (200, name)
        larger = reader.message({"padding": padding * 2, **QUERY})
        assert reader.client.sender(place).send(larger).outcome() == "released"
    assert draining(mesh) == [False, False]


def test_anonymous_senders_reach_the_router_they_are_connected_to(mesh: Mesh, reader: Reader) -> None:
    for place in OF_A:
        if place.startswith("//"):
            continue  # for a message, another address
        assert reader.anonymous(QUERY, {}, place).outcome() == "accepted"
        status, body = reader.reply()
        assert (status, of_router(body)) == (200, "A")
        assert reader.anonymous(*drain("A"), place).outcome() == "accepted"
        assert reader.reply()[0] == 403
    for place in (*OF_B, *OF_NOBODY):
        for to, noted in ((place, None), (fresh(), place), ("$management", place)):
            sent = reader.anonymous(*drain("B"), to, noted)
            assert sent.outcome() == "rejected", (to, noted)
            assert str(sent.condition).startswith(UNAUTHORIZED)
    assert draining(mesh) == [False, False]


def test_an_annotation_does_not_lead_a_request_elsewhere(mesh: Mesh, reader: Reader) -> None:
    for place in ("$management", "_topo/0/B/$management", fresh()):
        sender = reader.client.sender(place, wait=place[0] in "$_")
        message = reader.message(*drain("B"))
        message.annotations = {proton.symbol("x-opt-qd.to"): "_topo/0/B/$management"}
        if place[0] in "$_":
            sender.send(message)
            assert reader.reply()[0] == 403
    assert draining(mesh) == [False, False]


def test_nobody_else_gets_the_requests_of_others(reader: Reader) -> None:
    for place in (*OF_A, *OF_B, *OF_NOBODY):
        assert UNAUTHORIZED in str(reader.client.receiver(place, wait=False).wait_detached()), place


def test_the_client_library_and_the_right_to_read(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router("A", section("listener", name="readers", port=port, **READERS))
    router.ports.append(port)
    router.wait_listening()
    with ManagementClient(f"amqp://127.0.0.1:{port}") as client:
        assert client.read("router")["id"] == "A"
        assert client.query("listener")
        with pytest.raises(ManagementError, match="CREATE is not allowed: listener readers has no management: write"):
            client.create("address", {"prefix": "p"}, name="mine")
        assert "mine" not in [row["name"] for row in client.query("address", ["name"])]


ADDRESSES = {"operation": "QUERY", "entityType": "router.address", **NODE}
LINKS = {"operation": "QUERY", "entityType": "router.link", **NODE}


def test_reply_addresses_of_other_clients_are_hidden(mesh: Mesh, reader: Reader) -> None:
    others = [Client(mesh[name].url) for name in "AB"]
    secrets = [str(client.receiver(None, 1, dynamic=True).address).rpartition("temp.")[2] for client in others]
    own = str(reader.replies.address).rpartition("temp.")[2]
    for place, secret in (("$management", secrets[0]), ("_topo/0/B/$management", secrets[1])):
        for query in (ADDRESSES, LINKS, {**ADDRESSES, "orderBy": "key"}):
            status, body = reader.ask(place, query)
            assert status == 200
            assert secret not in str(body), (place, query)
            assert "Ltemp.***" in str(body), (place, query)
        for name in (secret, f"Ltemp.{secret}"):
            status, body = reader.ask(place, {**ADDRESSES, "where": f"key like '%{name}%'"})
            assert status != 200 or not body["results"], "nor can it be searched for"
        status, body = reader.ask(place, {"operation": "GET-LOG", **NODE})
        assert status == 200
        assert secret not in str(body), (place, "the lines of links in the log")
        assert "address=Ltemp.***" in str(body), place
    assert own in str(reader.ask("$management", LINKS)[1]), "its own one is shown"
    with ManagementClient(mesh["A"].url) as manager:
        assert any(secrets[0] in str(row) for row in manager.query("router.address"))
    for client in others:
        client.close()
