"""Edge routers behind interior routers, on real sockets: E0 – A – B – E1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import proton
import pytest

from tests.interop.shared import fresh
from tests.interop.test_proton_client_places import Capability
from tests.kit.clients import Client, Receiver
from tests.kit.edges import EdgeMesh
from tests.kit.mesh import wait_address
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

At = Callable[[str], Client]
ADDRESSES = (
    section("address", prefix="all", distribution="multicast")
    + section("address", prefix="safe", enableFallback=True)
    + section("address", prefix="way", waypoint=True)
)
PAIRS = [("E0", "A"), ("A", "E0"), ("E0", "E1"), ("E1", "E0"), ("E0", "E0"), ("B", "E0")]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RouterProcess]]:
    """A plain router stands for the containers of E0, with link route `near`, and of B, with link route `far`.
    E0 also has link routes `far`, to a container that never comes."""
    folder, port = tmp_path_factory.mktemp("edges"), free_port()
    container = section("router", id="BR") + section("listener", host="127.0.0.1", port=port)
    inactive = "".join(section("linkRoute", prefix="far", containerId="nobody", direction=way) for way in ("in", "out"))
    own = {"E0": _container(port, "near") + inactive, "B": _container(port, "far")}
    with ExitStack() as stack:
        broker = RouterProcess(folder, "BR", container, [port]).start()
        stack.callback(broker.kill)
        mesh = stack.enter_context(EdgeMesh(folder, 2, [[0], [1]], ADDRESSES, own))
        yield {router.name: router for router in (*mesh.interiors, *mesh.edges)}


def _container(port: int, prefix: str) -> str:
    text = section("connector", name="broker", host="127.0.0.1", port=port, role="route-container")
    for direction in ("in", "out"):
        text += section("linkRoute", prefix=prefix, containerId="BR", direction=direction)
    return text


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def at(mesh: dict[str, RouterProcess], stack: ExitStack) -> At:
    """A new client at a router, by its name."""
    return lambda name: stack.enter_context(Client(mesh[name].url))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_messages_arrive_in_order_and_are_accepted(at: At, source: str, target: str) -> None:
    address = fresh()
    receiver = at(target).receiver(address, 20)
    sent = at(source).sender(address).send_all(list(range(20)))
    assert [got.message.body for got in receiver.take(20)] == list(range(20))
    assert {one.outcome() for one in sent} == {"accepted"}


@pytest.mark.parametrize(("source", "target"), [("E0", "A"), ("E1", "E0"), ("A", "E1")])
def test_a_request_gets_its_reply(at: At, source: str, target: str) -> None:
    """Both by anonymous senders; the reply goes to a dynamic address."""
    address = fresh()
    service, client = at(target), at(source)
    requests = service.receiver(address, 5)
    replies = client.receiver(None, 5, dynamic=True)
    wait_until(lambda: client.sender(address).wait_credit())
    client.sender(None).send(proton.Message(address=address, body="question", reply_to=replies.address))
    request = requests.take(1)[0].message
    service.sender(None).send(proton.Message(address=request.reply_to, body="answer"))
    assert replies.take(1)[0].message.body == "answer"


@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("source", ["E0", "A"])
def test_multicast_brings_one_copy_to_each_consumer(
    mesh: dict[str, RouterProcess], at: At, source: str, anonymous: bool
) -> None:
    """A second one, that came up to the interior router and down again, would arrive before the last message."""
    address = f"all.{fresh()}"
    receivers = [at(name).receiver(address, 20) for name in ("E0", "E0", "A", "B", "E1")]
    for name in ("A", "B"):
        wait_address(mesh[name], address, local=2, remote=1)
    sender = at(source).sender(None if anonymous else address)
    if source == "E0" and not anonymous:  # its own consumers are reason enough for credit
        wait_address(mesh["E0"], address, local=2, remote=1)
    for number in range(5):
        sender.send(proton.Message(address=address, body=number))
    for receiver in receivers:
        assert [got.message.body for got in receiver.take(5)] == list(range(5))


def test_undeliverable_messages_go_to_a_fallback_at_another_edge(at: At) -> None:
    address = f"safe.{fresh()}"
    fallback = at("E1").receiver(address, 10, options=[Capability("qd.fallback")])
    at("E0").sender(address).send(proton.Message(body="lost?"))
    assert fallback.take(1)[0].message.body == "lost?"


@pytest.mark.parametrize(("source", "target"), [("E0", "A"), ("A", "E0"), ("E0", "E1")])
def test_large_messages_pass(at: At, source: str, target: str) -> None:
    address = fresh()
    receiver = at(target).receiver(address, 5)
    at(source).sender(address).send(proton.Message(body=b"x" * 3_000_000))
    assert len(receiver.take(1)[0].body) == 3_000_000


@pytest.mark.parametrize(("name", "prefix"), [("E1", "near"), ("A", "near"), ("E0", "far"), ("E0", "near")])
def test_links_are_routed_from_and_to_edges(
    mesh: dict[str, RouterProcess], stack: ExitStack, name: str, prefix: str
) -> None:
    """To a container of E0, and from a client of E0 to a container of B."""
    client = stack.enter_context(Client(mesh[name].url))
    address = f"{prefix}.{fresh()}"
    wait_until(lambda: all(_route_known(mesh[router], prefix) for router in "AB"))
    receiver = client.receiver(address, 5)
    sent = client.sender(address).send(proton.Message(body="routed"))
    got = receiver.next()
    got.accept()
    assert (got.message.body, sent.outcome()) == ("routed", "accepted")
    with ManagementClient(mesh[name].url) as management:
        types = [row["owningAddr"] for row in management.query("router.link", ["owningAddr"])]
    assert f"M0{address}" not in types, "message-routed"


def test_prefixes_of_an_edge_are_prefixes_at_the_interiors(mesh: dict[str, RouterProcess]) -> None:
    wait_until(lambda: all(_route_known(mesh[router], "near") for router in "AB"))
    for router in "AB":
        with ManagementClient(mesh[router].url) as management:
            names = {row["name"] for row in management.query("router.address", ["name"])}
        assert {"Cnear", "Dnear"} <= names
        assert not {name for name in names if name.startswith(("E", "F"))}


def _route_known(router: RouterProcess, prefix: str) -> bool:
    with ManagementClient(router.url) as client:
        names = {str(row["name"]) for row in client.query("router.address", ["name"])}
    return all(names & {prefix_key + prefix, f"{pattern_key}{prefix}/#"} for prefix_key, pattern_key in ("CE", "DF"))


def test_credit_follows_the_consumers_beyond(at: At) -> None:
    address = fresh()
    sender = at("E0").sender(address)
    assert sender.credit == 0
    receiver = at("E1").receiver(address, 5)
    assert sender.wait_credit()
    receiver.close()
    wait_until(lambda: sender.credit == 0)


@pytest.mark.parametrize("credit", [0, 1000], ids=["no credit", "no settlement"])
def test_a_consumer_that_takes_or_settles_nothing_stops_no_anonymous_sender(at: At, credit: int) -> None:
    """All anonymous senders of an edge router share one link to its interior router, with a credit of 250."""
    address = fresh()
    at("A").receiver(address, credit)
    for _ in range(2):
        sender = at("E0").sender(None)
        for number in range(250):
            sender.send(proton.Message(address=address, body=number))
    other = at("A").receiver(fresh(), 1)
    sent = at("E0").sender(None).send(proton.Message(address=other.address, body="passes"))
    assert other.take(1)[0].body == "passes"
    assert sent.outcome() == "accepted"


def test_an_edge_is_managed_through_any_interior_router(mesh: dict[str, RouterProcess]) -> None:
    with ManagementClient(mesh["B"].url, edge_router="E0") as client:
        assert [row["mode"] for row in client.query("router", ["mode"])] == ["edge"]
        rows = client.query("connection", ["role", "active", "container"])
        assert [(row["active"], row["container"]) for row in rows if row["role"] == "edge"] == [(True, "A")]
        types = [row["linkType"] for row in client.query("router.link", ["linkType"])]
        assert types.count("edge-downlink") == 1


def test_another_router_is_managed_from_an_edge(mesh: dict[str, RouterProcess]) -> None:
    with ManagementClient(mesh["E0"].url, router="B") as client:
        assert [row["id"] for row in client.query("router", ["id"])] == ["B"]


def test_another_uplink_takes_over(tmp_path: Path, stack: ExitStack) -> None:
    """Consumers and producers stay attached. Without any uplink, local traffic goes on."""
    mesh = stack.enter_context(EdgeMesh(tmp_path, 2, [[0, 1]]))
    edge = mesh.edges[0]
    first = mesh.active(edge)
    one, other = sorted(mesh.interiors, key=lambda router: router.name != first)
    client = stack.enter_context(Client(edge.url))
    inbox, outbox = client.receiver("down", 50), client.sender("up", wait=False)
    stack.enter_context(Client(one.url)).sender("down").send(proton.Message(body="from the first"))
    assert inbox.take(1)[0].message.body == "from the first"
    one.kill()
    mesh.wait_active(edge, other.name)
    peer = stack.enter_context(Client(other.url))
    peer.sender("down").send(proton.Message(body="from the second"))
    assert inbox.take(1)[0].message.body == "from the second"
    received = peer.receiver("up", 5)
    outbox.send(proton.Message(body="up"))
    assert received.take(1)[0].message.body == "up"
    other.kill()
    wait_until(lambda: not mesh.active(edge))
    client.sender("down").send(proton.Message(body="here"))
    assert inbox.take(1)[0].message.body == "here"


@pytest.mark.parametrize(
    ("producer", "waypoint", "consumer"),
    [("E0", "E0", "E0"), ("E0", "E1", "B"), ("B", "E0", "E1"), ("E1", "A", "E0"), ("E0", "E1", "E0")],
)
def test_messages_pass_a_waypoint(at: At, producer: str, waypoint: str, consumer: str) -> None:
    """They go to the consumer from the waypoint only, wherever these three are."""
    address = f"way.{fresh()}"
    receiver = at(consumer).receiver(address, 10)
    client = at(waypoint)
    taking = client.receiver(address, 10, options=[Capability("qd.waypoint")])
    giving = client.sender(address, options=[Capability("qd.waypoint")])
    sent = at(producer).sender(address).send_all([0, 1, 2])
    for got in taking.take(3):
        giving.send(f"passed {got.body}")
    assert [got.body for got in receiver.take(3)] == ["passed 0", "passed 1", "passed 2"]
    assert {one.outcome() for one in sent} == {"accepted"}


@pytest.mark.parametrize(("source", "consumer", "keeper"), [("E0", "E1", "E0"), ("A", "E0", "E1"), ("E1", "A", "E1")])
def test_messages_go_to_the_fallback_while_there_is_no_consumer(
    at: At, source: str, consumer: str, keeper: str
) -> None:
    address = f"safe.{fresh()}"
    fallback = at(keeper).receiver(address, 20, options=[Capability("qd.fallback")])
    sender = at(source).sender(address)
    sent = sender.send("stored")
    assert fallback.take(1)[0].body == "stored"
    assert sent.outcome() == "accepted"
    receiver = at(consumer).receiver(address, 20)

    def went_to(wanted: Receiver) -> bool:
        """Released if it went to a consumer that had left by then."""
        sent = sender.send("x")
        wait_until(lambda: sent.settled.is_set() or not (fallback.arrived.empty() and receiver.arrived.empty()))
        if sent.settled.is_set():
            assert sent.state == "released"
            return False
        taken = receiver if fallback.arrived.empty() else fallback
        taken.take(1)
        taken.flow(1)
        return taken is wanted

    wait_until(lambda: went_to(receiver))
    receiver.close()
    wait_until(lambda: went_to(fallback))
