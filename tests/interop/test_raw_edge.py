"""Edge routers at interior routers, on sockets: an edge router in raw frames, clients of Proton at the same routers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import proton
import pytest

from tests.interop.raw_edge import PASSED_DOWN, STREAM, RawEdge
from tests.interop.shared import ADDRESSES, fresh, patient_port, wait_consumers
from tests.kit.clients import Client
from tests.kit.mesh import Mesh, address_counts
from tests.kit.waiting import wait_until
from waymesh_amqp.message import Message
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Terminus
from waymesh_client.management import ManagementClient
from waymesh_router.core.edge.messages import LookupRequest, encode_lookup

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

WAIT_S = 60.0
LARGE = b"x" * 300_000
"""The body of a message of many frames."""
PROXY = "org.apache.qpid.dispatch.router.connection.linkRoute"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """A – B; edge routers connect to A, clients to both."""
    made = Mesh(tmp_path_factory.mktemp("edge"), 2, extra=ADDRESSES)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def port(mesh: Mesh) -> int:
    return patient_port(mesh["A"], role="edge", saslMechanisms="ANONYMOUS")


@pytest.fixture
def edge(port: int) -> Iterator[RawEdge]:
    with RawEdge(port, fresh("edge").replace(".", "-")) as made:
        yield made.activate()


def known_at(mesh: Mesh, name: str, key: str) -> None:
    wait_until(lambda: address_counts(mesh[name], key)[1] == 1, WAIT_S, f"{key} at {name}")


def test_both_sides_show_that_they_are_routers(edge: RawEdge) -> None:
    assert edge.opened.container_id == "A"
    assert isinstance(edge.opened.properties, dict)
    assert edge.opened.properties["qd.annotations-version"] == 1
    assert "qd.streaming-links" in map(str, edge.opened.offered_capabilities or ())
    assert edge.reply_to("replies").startswith("amqp:/_topo/0/A/temp.")
    down = edge.attached["down"].source
    assert down is not None
    assert down.address == edge.id


@pytest.mark.parametrize("distribution", ["balanced", "closest", "multicast"])
def test_messages_to_consumers_at_the_edge(mesh: Mesh, edge: RawEdge, distribution: str) -> None:
    address = fresh(distribution)
    edge.receiver(address, address)
    known_at(mesh, "B", f"M0{address}")
    with Client(mesh["B"].url) as client:
        sent = client.sender(address).send("x")
        ((_, message, transfer),) = edge.on(address)
        assert message.body == "x"
        edge.accept(transfer)
        assert sent.outcome() == "accepted"


def test_messages_from_the_edge_once_it_was_told_of_consumers(mesh: Mesh, edge: RawEdge) -> None:
    address = fresh()
    edge.sender(address, address)
    with Client(mesh["B"].url) as client:
        receiver = client.receiver(address, 10)
        assert edge.tracked(f"M0{address}")
        edge.wait(lambda: edge.credit.get(address, 0) > 0)
        number = edge.send(address, Message(body="x"), settled=False)
        received = receiver.next()
        assert received.body == "x"
        received.accept()
        edge.wait(lambda: number in edge.outcomes)
        assert edge.outcomes[number] == ACCEPTED
    assert not edge.tracked(f"M0{address}")


def test_a_message_without_a_link_of_its_own(mesh: Mesh, edge: RawEdge) -> None:
    address = fresh()
    with Client(mesh["B"].url) as client:
        receiver = client.receiver(address, 10)
        wait_consumers(mesh["A"], address, remote=1)
        edge.send("up", Message(to="other", message_annotations={"x-opt-qd.to": address}, body="x"))
        assert receiver.next().body == "x"


def test_a_request_to_the_edge_and_its_reply(mesh: Mesh, edge: RawEdge) -> None:
    """As management of an edge router, through another interior router."""
    known_at(mesh, "B", f"H{edge.id}")
    with Client(mesh["B"].url) as client:
        replies = client.receiver(None, 1, dynamic=True)
        request = proton.Message(body="what", reply_to=replies.address)
        client.sender(f"_edge/{edge.id}/$management", presettled=True).send(request)
        ((_, message, _),) = edge.on("down")
        assert (message.message_annotations or {})["x-opt-qd.to"] == f"_edge/{edge.id}/$management"
        own = {"x-opt-qd.ingress": f"0/{edge.id}", "x-opt-qd.trace": [f"0/{edge.id}"]}
        edge.send("up", Message(to=message.reply_to, message_annotations=own, body="that"))
        assert replies.next().body == "that"


def test_a_request_from_the_edge_to_another_router(mesh: Mesh, edge: RawEdge) -> None:
    properties = {"operation": "GET-MGMT-NODES", "type": "org.amqp.management", "name": "self"}
    request = Message(
        to="amqp:/_topo/0/B/$management",
        reply_to=edge.reply_to("replies"),
        correlation_id="1",
        application_properties=properties,
        body={},
    )
    edge.send("up", request)
    ((_, message, _),) = edge.on("replies")
    assert sorted(message.body) == ["amqp:/_topo/0/A/$management", "amqp:/_topo/0/B/$management"]


def test_what_management_shows(mesh: Mesh, edge: RawEdge) -> None:
    with ManagementClient(mesh["A"].url) as client:
        (row,) = [row for row in client.query("connection") if row["container"] == edge.id]
        assert (row["role"], row["active"], row["dir"]) == ("edge", True, "in")
        links = [row for row in client.query("router.link") if row["linkName"] == "down"]
        assert [(link["linkType"], link["owningAddr"]) for link in links] == [("edge-downlink", f"H{edge.id}")]
        assert edge.id not in str(client.nodes())


def test_large_messages_pass_in_both_directions(mesh: Mesh, edge: RawEdge) -> None:
    there, back = fresh(), fresh()
    edge.receiver(there, there)
    edge.sender(back, back)
    known_at(mesh, "B", f"M0{there}")
    with Client(mesh["B"].url) as client:
        client.sender(there, presettled=True).send(LARGE)
        ((_, message, _),) = edge.on(STREAM)
        assert message.body == LARGE
        assert (message.message_annotations or {})["x-opt-qd.to"] == there
        receiver = client.receiver(back, 1)
        assert edge.tracked(f"M0{back}")
        first, second = LARGE[:10_000], LARGE[10_000:16_000]
        edge.wait(lambda: edge.credit.get(back, 0) > 0)
        edge.send(back, Message(body=first, body_kind="data"))
        assert receiver.next().body == first
        receiver.flow(1)
        edge.send("up", Message(to=back, body=second, body_kind="data"))
        assert receiver.next().body == second


def test_a_link_route_to_a_container_at_the_edge(mesh: Mesh, edge: RawEdge) -> None:
    prefix = fresh("lr")
    for direction in ("in", "out"):
        name = f"{edge.id}/proxyLinkRoute/{direction}{prefix}"
        request = Message(
            reply_to=edge.reply_to("replies"),
            correlation_id=name,
            application_properties={"operation": "CREATE", "type": PROXY, "name": name},
            body={"type": PROXY, "pattern": f"{prefix}/#", "direction": direction, "name": name},
        )
        edge.send("management", request, settled=False)
        ((_, reply, _),) = edge.on("replies")
        assert (reply.application_properties or {})["statusCode"] == 201
        assert (reply.body["name"], reply.body["containerId"]) == (name, edge.id)
    question = LookupRequest(edge.reply_to("lookup-replies"), "client-1", f"{prefix}/a", True)
    edge.send("lookup", encode_lookup(question, edge.id))
    ((_, answer, transfer),) = edge.on("lookup-replies")
    assert answer.body == [True, False]  # no container but its own
    assert transfer.settled
    with ManagementClient(mesh["B"].url) as client:
        wait_until(
            lambda: {f"C{prefix}", f"D{prefix}"} <= {row["name"] for row in client.query("router.address")},
            WAIT_S,
            "the link route at B",
        )
    with Client(mesh["B"].url) as client:
        sender = client.sender(f"{prefix}/a", wait=False)
        edge.wait(lambda: any(name.endswith(sender.link.name) for name in edge.attached))
        (attach,) = [attach for name, attach in edge.attached.items() if name.endswith(sender.link.name)]
        assert attach.target is not None
        assert attach.target.address == f"{prefix}/a"
        edge.answer(attach, 10)
        sent = sender.send("routed")
        ((_, message, arrived),) = edge.on(attach.name)
        assert message.body == "routed"
        assert message.message_annotations is None
        edge.accept(arrived, PASSED_DOWN)
        assert sent.outcome() == "accepted"


def ask(edge: RawEdge, operation: str, kind: str, body: dict[str, Any], to: str | None = None, **ids: str) -> int:
    """Send a management request, to another router if `to` is given; the status of the reply."""
    request = Message(
        to=to,
        reply_to=edge.reply_to("replies"),
        correlation_id="1",
        application_properties={"operation": operation, "type": kind, **ids},
        body=body,
    )
    edge.send("management" if to is None else "up", request)
    ((_, reply, _),) = edge.on("replies")
    return int((reply.application_properties or {})["statusCode"])


@pytest.mark.parametrize("to", [None, "_topo/0/A/$management", "_topo/0/B/$management"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("listener", {"name": "taken", "host": "127.0.0.1", "port": "0"}),
        ("address", {"name": "taken", "prefix": "taken"}),
        ("router.config.linkRoute", {"name": "taken", "prefix": "taken", "direction": "in", "containerId": "x"}),
    ],
)
def test_an_edge_creates_no_entities(
    mesh: Mesh, edge: RawEdge, kind: str, body: dict[str, Any], to: str | None
) -> None:
    assert ask(edge, "CREATE", kind, body, to) == 403
    with ManagementClient(mesh["B" if to and "B" in to else "A"].url) as client:
        assert "taken" not in [row["name"] for row in client.query(kind)]


def test_an_edge_may_read(edge: RawEdge) -> None:
    assert ask(edge, "QUERY", "org.amqp.management", {"attributeNames": []}, entityType="router") == 200
    assert ask(edge, "READ", "org.amqp.management", {}, "_topo/0/B/$management", name="self") == 200


@pytest.mark.parametrize("pattern", ["#", "/#", "#.#"])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_an_edge_gets_no_link_route_for_everything(edge: RawEdge, pattern: str, direction: str) -> None:
    assert ask(edge, "CREATE", PROXY, {"pattern": pattern, "direction": direction}) == 403


def test_an_edge_deletes_its_own_link_routes_only(edge: RawEdge, port: int) -> None:
    name, pattern = fresh("own"), f"{fresh('lr')}/#"
    assert ask(edge, "CREATE", PROXY, {"name": name, "pattern": pattern, "direction": "in"}) == 201
    with RawEdge(port, fresh("edge").replace(".", "-")) as other:
        assert ask(other.activate(), "DELETE", PROXY, {}, name=name) == 404
    assert ask(edge, "DELETE", PROXY, {}, name=name) == 204


def test_an_edge_gets_no_messages_for_other_clients(mesh: Mesh, edge: RawEdge) -> None:
    with Client(mesh["A"].url) as client:
        replies = str(client.receiver(None, dynamic=True).link.remote_source.address)
        edge.receiver("stolen", replies)
        edge.wait(lambda: "stolen" in edge.detached)
    error = edge.detached["stolen"].error
    assert error is not None
    assert error.condition == "amqp:not-allowed"


def test_the_lookup_of_an_address_that_is_not_routed(edge: RawEdge) -> None:
    question = LookupRequest(edge.reply_to("lookup-replies"), "client-2", fresh(), False)
    edge.send("lookup", encode_lookup(question, edge.id))
    ((_, answer, _),) = edge.on("lookup-replies")
    assert (answer.correlation_id, answer.body) == ("client-2", [False, False])
    assert (answer.application_properties or {})["status"] == 3


def test_loss_of_an_edge(mesh: Mesh, port: int) -> None:
    address = fresh()
    with Client(mesh["A"].url) as client, RawEdge(port, "lost") as lost:
        lost.activate()
        lost.attach(address, True, Terminus("source", address=address), Terminus("target"), 1)
        known_at(mesh, "B", f"M0{address}")
        sender = client.sender(address)
        under_way, waiting = sender.send("1"), sender.send("2")
        lost.on(address)
        lost.client.__exit__()
        assert under_way.outcome() == "modified"
        assert waiting.outcome() == "released"
    wait_until(lambda: address_counts(mesh["B"], "Hlost") == (0, 0), WAIT_S, "the edge router to be forgotten")


def test_a_second_connection_with_the_id_of_an_edge_takes_its_place(mesh: Mesh, port: int) -> None:
    with RawEdge(port, "twice") as older, RawEdge(port, "twice") as newer:
        older.activate()
        newer.activate()
        older.client.read_to_end()
        with Client(mesh["A"].url) as client:
            client.sender("_edge/twice/x", presettled=True).send("x")
            assert newer.bodies("down") == ["x"]


def test_clients_of_the_listener_are_served_and_not_trusted(mesh: Mesh, port: int) -> None:
    address = fresh()
    with Client(f"amqp://127.0.0.1:{port}") as client:
        receiver = client.receiver(address, 1)
        forged = proton.Message(body="x", annotations={proton.symbol("x-opt-qd.to"): "elsewhere"})
        client.sender(address).send(forged)
        assert receiver.next().message.annotations in (None, {})
    with ManagementClient(mesh["A"].url) as management:
        roles = {row["role"] for row in management.query("connection") if not row["container"]}
        assert "edge" not in roles
