"""Access policy, with clients on real listeners: connections and links, and settings that change meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import proton
import pytest
from proton.reactor import SenderOption

from tests.interop.guarded import EVERYTHING, LIMIT, UNAUTHORIZED, Guarded, passes, refused, vhost
from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh, transport_of
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import section
from waymesh_amqp.performatives import Begin
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.policy.statistics import Denials

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    guarded.stop()


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
    guarded.group(remoteHosts="128.0.0.0/8, 127.0.1.*")
    assert guarded.refused("alice")
    guarded.group(remoteHosts="127.0.0.0/8")
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


@pytest.mark.parametrize("default", ["", "other"])
def test_names_with_a_dollar_sign_are_for_listeners(tmp_path: Path, default: str) -> None:
    """Clients of other listeners must not enter the vhost of management listeners, whose groups may list nobody."""
    port = free_port()
    managers = section("listener", name="managers", host="127.0.0.1", port=port, policyVhost="$management")
    guarded = Guarded(tmp_path, managers)
    managed = {**vhost(EVERYTHING), "hostname": "$management"}
    other = {**vhost({**EVERYTHING, "sources": "a"}), "hostname": "other"}
    try:
        guarded.set(managed, other, defaultVhost=default, enableVhostNamePatterns=True)
        with Client(f"amqp://127.0.0.1:{port}") as manager:
            manager.receiver("b")
        if default:
            client = guarded.client(virtual_host="$management")
            assert refused(client.receiver("b", wait=False)).startswith(UNAUTHORIZED)
        else:
            assert guarded.refused(virtual_host="$management").startswith(UNAUTHORIZED)
    finally:
        guarded.stop()


def test_the_listener_may_name_the_vhost_and_an_update_acts_on_the_next_connections(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, management="write")
    try:
        guarded.set({**vhost(EVERYTHING), "hostname": "internal"}, enableVhostPolicy=False)
        with ManagementClient(guarded.url, timeout_s=20.0) as manager:
            guarded.set({**vhost(EVERYTHING), "hostname": "internal"})
            assert guarded.refused().startswith(UNAUTHORIZED)
            row = manager.update({"policyVhost": "internal"}, "listener", name="clients")
            assert row["policyVhost"] == "internal"
            client = guarded.client()
            manager.update({"policyVhost": None}, "listener", name="clients")
            assert guarded.refused().startswith(UNAUTHORIZED)
            passes(client, fresh())
            with pytest.raises(ManagementError, match="cannot be updated"):
                manager.update({"maxFrameSize": 4096}, "listener", name="clients")
    finally:
        guarded.stop()


def test_limits_of_the_group_go_into_open_and_begin(guarded: Guarded) -> None:
    guarded.group(maxFrameSize=2048, maxSessions=3, maxSessionWindow=20480)
    client = guarded.client()
    transport = client.call(lambda: transport_of(client))
    assert client.call(lambda: transport.remote_max_frame_size) == 2048
    assert client.call(lambda: transport.remote_channel_max) == 2
    client.receiver(fresh())
    session = guarded.router.call(
        lambda: next(iter(next(iter(guarded.router.router.core.connections.values())).sessions.values()))
    )
    assert guarded.router.call(lambda: session.window) == 10


def test_a_session_over_max_sessions_ends_the_connection_and_is_counted(guarded: Guarded) -> None:
    guarded.group(maxSessions=2)
    with RawClient(guarded.router.port) as raw:
        raw.open(container_id="raw", hostname="any")
        raw.begin(0)
        raw.begin(1)
        raw.put(Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10), channel=2)
        assert raw.close_error()[0] == "amqp:connection:framing-error"  # Spec: 2.7.1
    guarded.wait_open(0)
    assert guarded.denials() == Denials(sessions=1)
    assert guarded.metric("session") == 1


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


class Capable(SenderOption):
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
