"""Clients of two vhosts use the same addresses on two routers, and never see each other's messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.guarded import EVERYTHING, UNAUTHORIZED, Guarded, passes, refused
from tests.interop.shared import wait_consumers
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh, StartRouter
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

VHOSTS = ("a.example", "b.example")
EXTRA = section("address", name="inbox", prefix="a.example/inbox", waypoint=True) + "".join(
    section("address", name=f"{vhost} {distribution}", prefix=f"{vhost}/{distribution}", distribution=distribution)
    for vhost in VHOSTS
    for distribution in ("closest", "multicast")
)


class Tenants:
    """A mesh of two routers, each with an ordinary and a multi-tenant listener, and clients of them."""

    def __init__(self, mesh: Mesh, stack: ExitStack) -> None:
        self.mesh = mesh
        self._stack = stack
        self._ports: dict[str, int] = {}
        for router in mesh.routers:
            self.listen(router.name, router.name, multiTenant=True)

    def listen(self, router: str, name: str, **attrs: Any) -> None:
        """A further listener of a router."""
        port = self._ports[name] = free_port()
        with ManagementClient(self.mesh[router].url) as management:
            values = {"host": "127.0.0.1", "port": str(port), "saslMechanisms": "ANONYMOUS", **attrs}
            management.create("listener", values, name=f"tenants {name}")

    def client(self, vhost: str | None, listener: str = "A", **options: Any) -> Client:
        """A client of a vhost at the multi-tenant listener of a router; of none at the ordinary one."""
        if vhost is None:
            return self._stack.enter_context(Client(self.mesh[listener].url, **options))
        url = f"amqp://127.0.0.1:{self._ports[listener]}"
        return self._stack.enter_context(Client(url, virtual_host=vhost, **options))

    def at(self, router: RouterProcess) -> Client:
        return self._stack.enter_context(Client(router.url))

    def refused(self, vhost: str, listener: str = "A") -> str:
        """The error of a connection that is closed at its open."""
        return str(self.client(vhost, listener, wait=False).wait_ended())


@pytest.fixture
def tenants(start_mesh: StartMesh) -> Iterator[Tenants]:
    mesh = start_mesh(2, extra=EXTRA)
    with ExitStack() as stack:
        yield Tenants(mesh, stack)


@pytest.fixture
def broker(tenants: Tenants, start_router: StartRouter) -> RouterProcess:
    """A container of router B."""
    router = start_router("Z")
    with ManagementClient(tenants.mesh["B"].url) as management:
        values = {"host": "127.0.0.1", "port": str(router.port), "role": "route-container",
                  "saslMechanisms": "ANONYMOUS"}  # fmt: skip
        management.create("connector", values, name="broker")
    return router


def wait_address(router: RouterProcess, name: str, count: str) -> None:
    """Until a count of an address in the router's table is not 0."""
    with ManagementClient(router.url) as management:
        wait_until(
            lambda: any(row["name"] == name and row[count] for row in management.query("router.address")),
            30.0,
            f"{count} of {name}",
        )


def test_tenants_with_equal_addresses_do_not_meet(tenants: Tenants) -> None:
    addresses = [f"{kind}.x" for kind in ("closest", "balanced", "multicast")]
    receivers = {
        (vhost, address): tenants.client(vhost, "B").receiver(address, 20) for vhost in VHOSTS for address in addresses
    }
    sent = []
    for vhost in VHOSTS:
        client = tenants.client(vhost, "A")
        anonymous = client.sender(None)
        for address in addresses:
            wait_consumers(tenants.mesh["A"], f"{vhost}/{address}", 0, 1)
            named = client.sender(address)
            sent += [named.send(vhost), anonymous.send(proton.Message(address=f"/{address}", body=vhost))]
            sent += [named.send(vhost), anonymous.send(proton.Message(address=address, body=vhost))]
    for (vhost, address), receiver in receivers.items():
        taken = receiver.take(4)
        assert [r.body for r in taken] == [vhost] * 4
        assert {r.message.address for r in taken} <= {None, address, f"/{address}"}
    assert [s.outcome() for s in sent] == ["accepted"] * len(sent)
    for receiver in receivers.values():
        receiver.close()
    assert [r.arrived.qsize() for r in receivers.values()] == [0] * len(receivers)


def test_ordinary_clients_use_the_address_with_the_vhost(tenants: Tenants) -> None:
    inside, outside = tenants.client("a.example", "A"), tenants.client(None, "B")
    orders, answers = inside.receiver("orders", 5), outside.receiver("a.example/answers", 5)
    assert orders.address == "orders"
    wait_consumers(tenants.mesh["B"], "a.example/orders", 0, 1)
    wait_consumers(tenants.mesh["A"], "a.example/answers", 0, 1)
    for sender in (outside.sender("a.example/orders"), outside.sender(None)):
        sender.send(proton.Message(address="a.example/orders", body="order"))
        assert orders.next().body == "order"
    for sender in (inside.sender("answers"), inside.sender(None)):
        sender.send(proton.Message(address="answers", body="answer"))
        assert answers.next().body == "answer"


@pytest.mark.parametrize("dynamic", [True, False])
def test_requests_are_answered_within_the_vhost(tenants: Tenants, dynamic: bool) -> None:
    server, asking = tenants.client("a.example", "B"), tenants.client("a.example", "A")
    requests, answers = server.receiver("service", 5), server.sender(None)
    replies = asking.receiver(None, 5, dynamic=True) if dynamic else asking.receiver("replies", 5)
    if not dynamic:
        wait_consumers(tenants.mesh["B"], "a.example/replies", 0, 1)
    asking.sender("service").send(proton.Message(reply_to=replies.address, body="question"))
    request = requests.next()
    request.accept()
    assert answers.send(proton.Message(address=request.message.reply_to, body="answer")) is not None
    assert replies.next().body == "answer"


def test_a_link_route_of_a_vhost_is_for_its_clients(tenants: Tenants, broker: RouterProcess) -> None:
    """The container is a router, where a client consumes what arrives."""
    with ManagementClient(tenants.mesh["B"].url) as management:
        for direction in ("in", "out"):
            values = {"prefix": "a.example/routed", "direction": direction, "connection": "broker",
                      "delExternalPrefix": "a.example/"}  # fmt: skip
            management.create("router.config.linkRoute", values, name=direction)
    wait_address(tenants.mesh["A"], "Ca.example/routed", "remoteCount")
    wait_address(tenants.mesh["B"], "Ca.example/routed", "containerCount")
    there = tenants.at(broker)
    consumer = there.receiver("routed.x", 5)
    inside, other = tenants.client("a.example"), tenants.client("b.example")
    named, anonymous = inside.sender("routed.x"), inside.sender(None)
    assert named.address == "routed.x"
    for sender in (named, anonymous):
        sent = sender.send(proton.Message(address="routed.x", body="in"))
        received = consumer.next()
        received.accept()
        assert (received.body, sent.outcome()) == ("in", "accepted")
    back = inside.receiver("routed.y", 5)
    there.sender("routed.y").send("out")
    assert back.next().body == "out"
    assert other.sender(None).send(proton.Message(address="routed.x", body="lost")).outcome() == "released"
    assert other.sender("routed.x").credit == 0, "an address of its own, without a consumer"


def test_an_autolink_brings_messages_of_a_broker_into_the_space(tenants: Tenants, broker: RouterProcess) -> None:
    """The broker is a router: its address `queue` stands for a queue."""
    with ManagementClient(tenants.mesh["B"].url) as management:
        link = {"address": "a.example/inbox", "externalAddress": "queue", "direction": "in", "connection": "broker"}
        management.create("router.config.autoLink", link, name="inbox")
    inbox, other = tenants.client("a.example").receiver("inbox", 5), tenants.client("b.example").receiver("inbox", 5)
    sender = tenants.at(broker).sender("queue")
    sent = [sender.send(str(number)) for number in range(3)]
    assert [received.body for received in inbox.take(3)] == ["0", "1", "2"]
    assert [s.outcome() for s in sent] == ["accepted"] * 3
    other.close()
    assert other.arrived.qsize() == 0


@pytest.mark.parametrize("vhost", ["a/b", "a.example/x", "_local", "_topo", "$management", "#", "h" * 254, "amqp:"])
def test_vhosts_that_could_mean_other_addresses_are_refused(tenants: Tenants, vhost: str) -> None:
    assert tenants.refused(vhost).startswith("amqp:not-allowed: no address space: ")


def test_a_client_without_a_host_name_is_refused(tenants: Tenants) -> None:
    assert tenants.refused("") == "amqp:not-allowed: no address space: the open has no host name"


def test_the_vhost_of_the_listener_replaces_the_host_name(tenants: Tenants) -> None:
    tenants.listen("A", "fixed", multiTenant=True, policyVhost="a.example")
    receiver = tenants.client("a.example", "A").receiver("x", 5)
    sent = tenants.client("b.example", "fixed").sender("x").send("message")
    received = receiver.next()
    received.accept()
    assert (received.body, sent.outcome()) == ("message", "accepted")


def test_management_shows_the_tenant_and_is_not_for_tenants_without_the_right(tenants: Tenants) -> None:
    client = tenants.client("a.example")
    client.receiver("x", 5)
    with ManagementClient(tenants.mesh["A"].url) as management:
        seen = [row["tenant"] for row in management.query("connection", ["tenant"])]
        assert sorted(filter(None, seen)) == ["a.example/"]
        assert None in seen
        assert "M0a.example/x" in {row["name"] for row in management.query("router.address", ["name"])}
        with pytest.raises(ManagementError, match="multiTenant"):
            management.create("listener", {"port": "0", "multiTenant": True, "management": "write"}, name="refused")
    refused = client.sender("$management", wait=False).wait_detached()
    assert str(refused).startswith("amqp:unauthorized-access")
    for address in ("_local/qdhello", "_topo/0/B/x", "_topo/all/all/x"):
        assert str(client.receiver(address, wait=False).wait_detached()).startswith("amqp:not-allowed")
        assert client.sender(None).send(proton.Message(address=address, body="x")).outcome() == "rejected"


def test_local_addresses_are_those_of_the_tenant(tenants: Tenants) -> None:
    receivers = [tenants.client(vhost).receiver("_local/x", 5) for vhost in VHOSTS]
    sent = tenants.client("a.example").sender("_local/x").send("m")
    received = receivers[0].next()
    received.accept()
    assert (received.body, sent.outcome()) == ("m", "accepted")
    receivers[0].close()
    assert receivers[1].arrived.empty()
    outside = tenants.at(tenants.mesh["A"]).receiver("_local/a.example/x", 1)
    tenants.client("a.example").sender(None).send(proton.Message(address="/_local/x", body="n"))
    assert {outside.next().body} == {"n"}


def test_aliases_of_a_vhost_share_its_space_and_others_do_not(tmp_path: Path) -> None:
    """Names that a pattern or the default vhost covers may be those of different tenants."""
    guarded = Guarded(tmp_path, multiTenant=True)
    try:
        everybody = {**EVERYTHING, "users": "alice, bob"}
        vhost = {"hostname": "a.example", "aliases": "a.alias", "groups": {"people": everybody}}
        guarded.set(vhost, {"hostname": "*.more", "groups": {"people": everybody}}, defaultVhost="a.example",
                    enableVhostNamePatterns=True)
        names = ("a.example", "a.alias", "x.more", "y.more", "of.default")
        receivers = {name: guarded.client("bob", virtual_host=name).receiver("x", 9) for name in names}
        for name in names[1:]:
            guarded.client("alice", virtual_host=name).sender("x").send(name)
        seen = {name: receivers[name].next().body for name in ("x.more", "y.more", "of.default")}
        assert seen == {name: name for name in seen}
        shared = [receivers[name] for name in ("a.example", "a.alias")]
        wait_until(lambda: sum(r.arrived.qsize() for r in shared) == 1, 30.0, "the message in the space of the vhost")
    finally:
        guarded.stop()


def test_policy_keeps_users_in_their_vhost_and_names_addresses_as_clients_do(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, multiTenant=True)
    try:
        alice = {**EVERYTHING, "users": "alice", "targets": "orders", "sources": "orders"}
        guarded.set({"hostname": "a.example", "groups": {"people": alice}}, defaultVhost="")
        client = guarded.client("alice", virtual_host="a.example")
        passes(client, "orders")
        for address in ("a.example/orders", "other", "_topo/0/A/temp.x"):
            assert refused(client.sender(address, wait=False)).startswith(UNAUTHORIZED)
        sent = client.sender(None).send(proton.Message(address="a.example/orders", body="x"))
        assert sent.outcome() == "rejected"
        for user, vhost in (("bob", "a.example"), ("alice", "b.example")):
            assert guarded.refused(user, virtual_host=vhost).startswith(UNAUTHORIZED)
        assert guarded.refused("alice", virtual_host="a/b").startswith("amqp:not-allowed")
    finally:
        guarded.stop()
