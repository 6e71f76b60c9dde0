"""Access policy, with clients on real listeners: each setting allowed, denied, at its limit and changed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proton
import pytest
from proton.reactor import SenderOption

from tests.interop.relay import relay
from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.process import section
from tests.kit.threaded import ThreadedRouter
from waymesh_amqp.sasl import make_line
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.settings import parse_policy
from waymesh_router.policy.statistics import Denials, VhostCounts

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

UNAUTHORIZED = "amqp:unauthorized-access"
LIMIT = "amqp:resource-limit-exceeded"
LINK_ROUTE = "router.connection.linkRoute"
EVERYTHING = {"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": True,
              "allowAnonymousSender": True, "allowUserIdProxy": True}  # fmt: skip


class Guarded:
    """A router with users alice and bob, whose policy tests set."""

    def __init__(self, folder: Path, extra: str = "", **listener: Any) -> None:
        lines = [make_line(user, "secret", "plain") for user in ("alice", "bob")]
        (folder / "mesh.users").write_text("\n".join(lines), encoding="utf-8")
        users = {"saslConfigDir": folder, "saslConfigName": "mesh"}
        self.router = ThreadedRouter(folder, extra, users, **listener)
        self.url = self.router.url
        self.enforcement = self.router.router.policy
        self._clients: list[Client] = []

    def set(self, *vhosts: dict[str, Any], **values: Any) -> None:
        """Replace the settings."""
        values = {"enableVhostPolicy": True, "defaultVhost": "$default", **values}
        policy = parse_policy(values, vhosts, PatternTree[str], lambda _: [])
        self.router.call(lambda: self.enforcement.replace(policy))

    def group(self, **settings: Any) -> None:
        """Everything allowed to everybody, but for these settings of the group."""
        self.set(vhost({**EVERYTHING, **settings}))

    def client(self, user: str | None = None, **options: Any) -> Client:
        if user is not None:
            options |= {"user": user, "password": "secret", "allow_insecure_mechs": True, "allowed_mechs": "PLAIN"}
        client = Client(self.url, **options)
        self._clients.append(client)
        return client

    def refused(self, user: str | None = None, **options: Any) -> str:
        """The error of a connection that is closed at its open."""
        client = self.client(user, wait=False, **options)
        return str(client.wait_ended())

    def denials(self) -> Denials:
        """Of the group that tests use."""
        counts = self.vhost_counts()
        assert counts.denials == counts.group_denials.get("$default", Denials())
        return counts.denials

    def vhost_counts(self) -> VhostCounts:
        return self.router.call(lambda: self.enforcement.counts.vhosts["$default"])

    def open(self) -> int:
        return self.router.call(lambda: self.enforcement.open.total)

    def wait_open(self, count: int) -> None:
        self.router.wait(lambda: self.enforcement.open.total == count, f"{count} open connections")

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self.router.stop()


def vhost(group: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {"hostname": "$default", "allowUnknownUser": True, "groups": {"$default": group}, **values}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    guarded.stop()


def passes(client: Client, address: str) -> None:
    """A message passes."""
    receiver = client.receiver(address, 1)
    sent = client.sender(address).send("x")
    receiver.next().accept()
    assert sent.outcome() == "accepted"
    receiver.close()


def refused(link: Any) -> str:
    """The condition and text of a refused link, whose attach had no terminus."""
    error = link.wait_detached()
    assert link._remote_terminus().address is None
    return str(error)


# ---- connections
def test_without_vhost_policy_everything_is_allowed_and_nothing_is_denied(guarded: Guarded) -> None:
    client = guarded.client()
    passes(client, fresh())
    assert client.receiver(None, dynamic=True).address
    assert client.sender(None).wait_credit()
    assert guarded.router.call(lambda: guarded.enforcement.counts.total_denials) == 0
    assert "POLICY" not in guarded.router.log_text()


def test_max_connections_applies_without_vhost_policy_and_a_closed_connection_makes_room(guarded: Guarded) -> None:
    guarded.set(enableVhostPolicy=False, maxConnections=2)
    first = guarded.client()
    guarded.client()
    assert guarded.refused() == f"{LIMIT}: connection disallowed by local policy"
    assert guarded.open() == 2
    first.close()
    guarded.wait_open(1)
    guarded.client()
    guarded.client(wait=False).wait_ended()
    counts = guarded.router.call(lambda: guarded.enforcement.counts)
    assert (counts.connections_processed, counts.connections_denied, counts.total_denials) == (5, 2, 2)


def test_a_lost_transport_makes_room_once(guarded: Guarded) -> None:
    guarded.group()
    client = guarded.client()
    guarded.wait_open(1)
    client.abort()
    guarded.wait_open(0)
    now_open = guarded.router.call(lambda: guarded.enforcement.open)
    assert (dict(now_open.vhosts), dict(now_open.users), dict(now_open.hosts)) == ({}, {}, {})


def test_a_denied_connection_is_counted_logged_and_told_nothing_of_the_settings(guarded: Guarded) -> None:
    guarded.group(remoteHosts="10.0.0.1")
    assert guarded.refused("alice") == f"{UNAUTHORIZED}: connection disallowed by local policy"
    assert guarded.vhost_counts().connections_denied == 1
    assert guarded.open() == 0
    assert "DENY connection: user='alice' host=127.0.0.1 vhost='127.0.0.1': vhost $default, group $default: host" in (
        guarded.router.log_text()
    )
    guarded.group(remoteHosts="127.0.0.1")
    passes(guarded.client("alice"), fresh())
    assert guarded.vhost_counts().connections_approved == 1
    assert "ALLOW connection: user='alice' host=127.0.0.1" in guarded.router.log_text()


def test_only_listed_users_connect_unless_unknown_ones_are_allowed(guarded: Guarded) -> None:
    guarded.set(vhost({}, allowUnknownUser=False, groups={"team": {**EVERYTHING, "users": "alice"}}))
    guarded.client("alice")
    assert guarded.refused("bob").startswith(UNAUTHORIZED)
    assert guarded.refused().startswith(UNAUTHORIZED)
    guarded.set(vhost({}, allowUnknownUser=False, groups={"team": {**EVERYTHING, "users": "anonymous"}}))
    guarded.client()


def test_limits_of_user_and_vhost_hold(guarded: Guarded) -> None:
    guarded.set(vhost(EVERYTHING, maxConnectionsPerUser=1, maxConnections=2))
    alice = guarded.client("alice")
    assert guarded.refused("alice").startswith(LIMIT)
    guarded.client("bob")
    assert guarded.refused().startswith(LIMIT)
    alice.close()
    guarded.wait_open(1)
    guarded.client("alice")


def test_the_vhost_is_chosen_by_the_host_name_of_the_open(guarded: Guarded) -> None:
    guarded.set({**vhost(EVERYTHING), "hostname": "example.com"})
    guarded.client(virtual_host="example.com")
    assert guarded.refused(virtual_host="example.org").startswith(UNAUTHORIZED)


def test_the_listener_may_name_the_vhost(guarded: Guarded) -> None:
    guarded.set({**vhost(EVERYTHING), "hostname": "internal"})
    assert guarded.refused().startswith(UNAUTHORIZED)
    listeners = guarded.router.router.listeners
    guarded.router.call(lambda: listeners.update(clients={**listeners["clients"], "policyVhost": "internal"}))
    guarded.client()


def test_limits_of_the_group_go_into_open_and_begin(guarded: Guarded) -> None:
    guarded.group(maxFrameSize=2048, maxSessions=3, maxSessionWindow=20480)
    client = guarded.client()
    transport = client.call(lambda: client.connection.transport)
    assert client.call(lambda: transport.remote_max_frame_size) == 2048
    assert client.call(lambda: transport.remote_channel_max) == 2
    client.receiver(fresh())
    session = guarded.router.call(
        lambda: next(iter(next(iter(guarded.router.router.core.connections.values())).sessions.values()))
    )
    assert guarded.router.call(lambda: session.window) == 10


# ---- links
def test_links_over_their_number_are_refused_until_one_is_closed(guarded: Guarded) -> None:
    guarded.group(maxSenders=1, maxReceivers=2)
    client = guarded.client()
    sender = client.sender(fresh())
    assert refused(client.sender(fresh(), wait=False)) == f"{LIMIT}: link disallowed by local policy: too many senders"
    for _ in range(2):
        client.receiver(fresh())
    assert refused(client.receiver(fresh(), wait=False)).startswith(LIMIT)
    sender.close()
    client.sender(fresh())
    assert guarded.denials() == Denials(senders=1, receivers=1, links=2)
    assert guarded.router.call(lambda: guarded.enforcement.counts.links_denied) == 2


def test_sources_and_targets_are_those_of_the_user(guarded: Guarded) -> None:
    guarded.group(sources="in, own.${user}.*", targets="out, own.${user}.*")
    alice = guarded.client("alice")
    alice.receiver("in")
    alice.receiver("/in")
    alice.sender("amqp:/out")
    passes(alice, "own.alice.x")
    for address in ("out", "own.bob.x", "own.alice", "//in", "$management", "_topo/0/A/in"):
        assert refused(alice.receiver(address, wait=False)).startswith(UNAUTHORIZED), address
    for address in ("in", "amqp:/amqp:/out", "$management", "_local/$management"):
        assert refused(alice.sender(address, wait=False)).startswith(UNAUTHORIZED), address
    assert guarded.denials() == Denials(senders=4, receivers=6, links=10)
    assert "sources do not have the address" in guarded.router.log_text()


def test_dynamic_sources_and_anonymous_senders_need_their_settings(guarded: Guarded) -> None:
    guarded.group()
    client = guarded.client()
    assert client.receiver(None, dynamic=True).address
    client.sender(None).wait_credit()
    guarded.group(allowDynamicSource=False, allowAnonymousSender=False)
    assert refused(client.receiver(None, dynamic=True, wait=False)).startswith(UNAUTHORIZED)
    assert refused(client.sender(None, wait=False)).startswith(UNAUTHORIZED)
    assert guarded.denials() == Denials(dynamic_sources=1, anonymous_senders=1, links=2)


class Capable(SenderOption):  # type: ignore[misc]
    """A target with a capability."""

    def __init__(self, name: str) -> None:
        self._name = name

    def apply(self, link: proton.Link) -> None:
        link.target.capabilities.put_object(proton.symbol(self._name))


@pytest.mark.parametrize(
    ("capability", "setting"), [("qd.waypoint_1", "allowWaypointLinks"), ("qd.fallback", "allowFallbackLinks")]
)
def test_waypoint_and_fallback_links_need_their_settings(tmp_path: Path, capability: str, setting: str) -> None:
    extra = "address {\n prefix: w\n waypoint: yes\n}\naddress {\n prefix: f\n enableFallback: yes\n}\n"
    guarded = Guarded(tmp_path, extra)
    try:
        guarded.group()
        client = guarded.client()
        address = "w.1" if "waypoint" in capability else "f.1"
        client.sender(address, options=[Capable(capability)])
        guarded.group(**{setting: False})
        assert refused(client.sender(address, options=[Capable(capability)], wait=False)).startswith(UNAUTHORIZED)
        client.sender(address)
    finally:
        guarded.stop()


def test_new_settings_hold_for_the_next_link_and_open_links_stay(guarded: Guarded) -> None:
    guarded.group()
    client = guarded.client()
    receiver = client.receiver("a", 5)
    sender = client.sender("a")
    guarded.group(sources="b", targets="b")
    sender.send("x")
    receiver.next().accept()
    assert refused(client.receiver("a", name="other", wait=False)).startswith(UNAUTHORIZED)
    client.receiver("b")
    guarded.set(vhost({}, groups={"$default": {}, "other": {**EVERYTHING, "users": "alice"}}))
    assert refused(client.receiver("b", name="other", wait=False)).startswith(UNAUTHORIZED)
    guarded.set(vhost({}, allowUnknownUser=False, groups={"other": {**EVERYTHING, "users": "alice"}}))
    assert refused(client.receiver("b", name="other", wait=False)).startswith(UNAUTHORIZED)
    guarded.set()
    assert refused(client.sender("b", wait=False)).startswith(UNAUTHORIZED)
    guarded.set(enableVhostPolicy=False)
    passes(client, "a.b")


def test_a_connection_from_before_vhost_policy_stays_unlimited(guarded: Guarded) -> None:
    client = guarded.client()
    guarded.set()
    passes(client, fresh())
    assert guarded.refused().startswith(UNAUTHORIZED)


# ---- messages
def message(to: str | None = None, user: str | None = None) -> proton.Message:
    found = proton.Message(body="x", address=to)
    if user is not None:
        found.user_id = user.encode()
    return found


def test_messages_of_an_anonymous_sender_go_to_targets_only(guarded: Guarded) -> None:
    guarded.group(targets="a, b*")
    client = guarded.client()
    receivers = {address: client.receiver(address, 10) for address in ("a", "b1", "c")}
    sender = client.sender(None)
    for address in ("a", "b1", "/a", "a"):
        sent = sender.send(message(address))
        receivers[address.removeprefix("/")].next().accept()
        assert sent.outcome() == "accepted"
    for address in ("c", "c", "$management", "//a/../c"):
        assert sender.send(message(address)).outcome() == "rejected", address
    assert receivers["c"].arrived.empty()
    assert guarded.denials() == Denials(messages=4)


def test_a_user_id_is_the_clients_own_unless_it_may_be_a_proxy(guarded: Guarded) -> None:
    guarded.group()
    client = guarded.client("alice")
    receiver = client.receiver("a", 20)
    free = client.sender("a", name="free")
    guarded.group(allowUserIdProxy=False)
    bound = client.sender("a")
    big = "alice" * 100
    for sender, user in ((free, "bob"), (bound, "alice"), (bound, None), (bound, "")):
        sent = sender.send(message(user=user))
        receiver.next().accept()
        assert sent.outcome() == "accepted", user
    for user in ("bob", "alic", "alicee", "Alice", big):
        assert bound.send(message(user=user)).outcome() == "rejected", user
    assert receiver.arrived.empty()
    assert guarded.denials() == Denials(messages=5)


@pytest.mark.parametrize("vhost_policy", [False, True])
def test_a_message_over_max_message_size_ends_the_link(guarded: Guarded, vhost_policy: bool) -> None:
    limit = 40000
    guarded.set(vhost(EVERYTHING, maxMessageSize=limit), maxMessageSize=limit + 5 * vhost_policy,
                enableVhostPolicy=vhost_policy)  # fmt: skip
    client = guarded.client()
    receiver = client.receiver("a", 10)
    sender = client.sender("a")
    assert client.call(lambda: sender.link.remote_max_message_size) == limit
    empty = len(message_of(0).encode())
    sent = sender.send(message_of(limit - empty - 6))
    receiver.next().accept()
    assert sent.outcome() == "accepted"
    sender.send(message_of(limit * 3))
    assert str(sender.wait_detached()).startswith("amqp:link:message-size-exceeded")
    assert receiver.arrived.empty()
    client.sender("a").send(message_of(1))
    assert receiver.next().body == b"x"
    assert guarded.router.call(lambda: guarded.enforcement.counts.total_denials) == 1
    if vhost_policy:
        assert guarded.denials() == Denials(message_sizes=1)


def message_of(size: int) -> proton.Message:
    return proton.Message(body=b"x" * size)


# ---- management
def test_admin_status_is_refused_where_policy_forbids_it(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, management="write")
    try:
        guarded.group(allowAdminStatusUpdate=False)
        other = guarded.client()
        with ManagementClient(guarded.url, timeout_s=10.0) as manager:
            rows = manager.query("connection", ["identity", "container"])
            identity = next(str(row["identity"]) for row in rows if row["container"] == other._container.container_id)
            with pytest.raises(ManagementError, match="policy"):
                manager.update({"adminStatus": "deleted"}, "connection", identity=identity)
            guarded.group()
            manager.update({"adminStatus": "deleted"}, "connection", identity=identity)
            other.wait_ended()
    finally:
        guarded.stop()


@pytest.mark.parametrize("allowed", [True, False])
def test_link_routes_of_a_container_need_their_setting(tmp_path: Path, allowed: bool) -> None:
    guarded = Guarded(tmp_path, role="route-container", management="write")
    try:
        guarded.group(allowDynamicLinkRoutes=allowed)
        with ManagementClient(guarded.url, timeout_s=10.0) as container:
            if allowed:
                container.create(LINK_ROUTE, {"pattern": "jobs.#", "direction": "in"})
            else:
                with pytest.raises(ManagementError, match="policy") as error:
                    container.create(LINK_ROUTE, {"pattern": "jobs.#", "direction": "in"})
                assert error.value.status == 403
    finally:
        guarded.stop()


# ---- link routes
@pytest.fixture
def routed(tmp_path: Path) -> Iterator[Guarded]:
    """A router with link routes for `q.…` and for links without an address, to a broker."""
    with relay() as broker:
        host, port = broker.removeprefix("amqp://").split(":")
        extra = section("connector", name="broker", role="route-container", host=host, port=port)
        for direction in ("in", "out"):
            extra += section("linkRoute", pattern="#", direction=direction, connection="broker")
        guarded = Guarded(tmp_path, extra)
        core = guarded.router.router.core
        guarded.router.wait(lambda: any(c.origin == "broker" and c.remote for c in core.connections.values()), "broker")
        yield guarded
        guarded.stop()


def test_routed_links_are_judged_by_their_terminus(routed: Guarded) -> None:
    routed.group(sources="q.a", targets="q.a", maxSenders=1, maxReceivers=1)
    client = routed.client()
    receiver = client.receiver("q.a", 1)
    sent = client.sender("q.a").send("x")
    receiver.next().accept()
    assert sent.outcome() == "accepted"
    assert refused(client.sender("q.a", name="2", wait=False)).startswith(LIMIT)
    receiver.close()
    assert refused(client.receiver("q.b", wait=False)).startswith(UNAUTHORIZED)
    client.receiver("q.a", name="2")


def test_routed_messages_of_an_anonymous_sender_go_to_targets_only(routed: Guarded) -> None:
    routed.group(targets="q.a")
    client = routed.client()
    receivers = {address: client.receiver(address, 10) for address in ("q.a", "q.b")}
    sender = client.sender(None)
    for _ in range(2):
        sent = sender.send(message("q.a"))
        receivers["q.a"].next().accept()
        assert sent.outcome() == "accepted"
        assert sender.send(message("q.b")).outcome() == "rejected"
        assert sender.send(message()).outcome() == "rejected"
    assert receivers["q.b"].arrived.empty()
    assert routed.denials() == Denials(messages=4)


def test_the_user_id_of_routed_messages_is_the_clients_own(routed: Guarded) -> None:
    routed.group(allowUserIdProxy=False)
    client = routed.client("alice")
    receiver = client.receiver("q.a", 10)
    sender = client.sender("q.a")
    assert sender.send(message(user="bob")).outcome() == "rejected"
    sent = sender.send(message(user="alice"))
    receiver.next().accept()
    assert sent.outcome() == "accepted"
    assert receiver.arrived.empty()


def test_max_message_size_holds_on_routed_links(routed: Guarded) -> None:
    routed.group(maxMessageSize=20000)
    client = routed.client()
    receiver = client.receiver("q.a", 10)
    sender = client.sender("q.a")
    assert client.call(lambda: sender.link.remote_max_message_size) == 20000
    sender.send(message_of(50000))
    assert str(sender.wait_detached()).startswith("amqp:link:message-size-exceeded")
    client.sender("q.a", name="2").send("small")
    assert receiver.next().body == "small"
    assert routed.denials() == Denials(message_sizes=1)
