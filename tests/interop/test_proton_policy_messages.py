"""Access policy, with clients on real listeners: messages, requests to management, and links over link routes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.interop.guarded import EVERYTHING, LIMIT, UNAUTHORIZED, Guarded, refused, vhost
from tests.interop.relay import relay
from tests.kit.process import section
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.policy.statistics import Denials

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

LINK_ROUTE = "router.connection.linkRoute"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    guarded.stop()


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
    assert guarded.metric("message") == 4


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


@pytest.mark.parametrize("part", ["properties", "annotations"])
def test_a_user_id_behind_the_first_frame_is_checked(guarded: Guarded, part: str) -> None:
    guarded.group(maxFrameSize=512, allowUserIdProxy=False)
    client = guarded.client("alice")
    receiver = client.receiver("a", 10)
    sender = client.sender("a")

    def long(user: str) -> proton.Message:
        found = message(user=user)
        if part == "properties":
            found.id = "i" * 1200
        else:
            found.annotations = {proton.symbol("x"): "a" * 1200}
        return found

    assert sender.send(long("bob")).outcome() == "rejected"
    sent = sender.send(long("alice"))
    assert receiver.next().message.user_id == b"alice"
    receiver.flow(1)
    assert guarded.denials() == Denials(messages=1)
    assert not sent.presettled


class Octets(proton.Message):
    """A message that is sent as it is written here."""

    def __init__(self, octets: bytes) -> None:
        super().__init__()
        self._octets = octets

    def encode(self) -> bytes:
        return self._octets


DATA = b"\x00\x53\x75\xa0\x01x"
OF_BOB = b"\x00\x53\x73\xc0\x07\x02\x40\xa0\x03bob"
OF_ALICE = b"\x00\x53\x73\xc0\x09\x02\x40\xa0\x05alice"
SYMBOLIC = b"\x00\xa3\x14amqp:properties:list" + OF_BOB[3:]
TO_A = b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01a"
TO_C = TO_A[:-1] + b"c"
OUT_OF_ORDER = {"behind the body": DATA + OF_BOB, "twice": OF_ALICE + OF_BOB + DATA, "symbolic": SYMBOLIC + DATA}


@pytest.mark.parametrize("octets", OUT_OF_ORDER.values(), ids=list(OUT_OF_ORDER))
def test_a_user_id_out_of_amqps_order_does_not_get_by(guarded: Guarded, octets: bytes) -> None:
    guarded.group()
    client = guarded.client("alice")
    receiver = client.receiver("a", 10)
    free = client.sender("a", name="free")
    guarded.group(allowUserIdProxy=False)
    sender = client.sender("a")
    assert sender.send(Octets(octets)).outcome() == "rejected"
    sent = sender.send(Octets(OF_ALICE + DATA))
    assert receiver.next().message.user_id == b"alice"
    assert not sent.presettled
    free.send(Octets(octets))  # links without checks pass on what they get
    receiver.next()
    assert guarded.denials() == Denials(messages=1)


@pytest.mark.parametrize("octets", [TO_A + TO_C + DATA, TO_A + DATA + TO_C, DATA + TO_A], ids=["1", "2", "3"])
def test_an_address_out_of_amqps_order_does_not_get_by(guarded: Guarded, octets: bytes) -> None:
    guarded.group(targets="a")
    client = guarded.client()
    receivers = [client.receiver(address, 10) for address in ("a", "c")]
    sender = client.sender(None)
    assert sender.send(Octets(octets)).outcome() == "rejected"
    assert all(receiver.arrived.empty() for receiver in receivers)
    assert guarded.denials() == Denials(messages=1)


def check_late_properties(guarded: Guarded, address: str) -> None:
    """Properties behind a body of several frames end the link."""
    guarded.group(maxFrameSize=512, allowUserIdProxy=False)
    client = guarded.client("alice")
    receiver = client.receiver(address, 10)
    body = b"\x00\x53\x75\xb0\x00\x00\x08\x00" + b"x" * 2048
    sender = client.sender(address)
    sender.send(Octets(OF_ALICE + body + OF_BOB))
    assert str(sender.wait_detached()).startswith(UNAUTHORIZED)
    client.sender(address, name="next").send(Octets(OF_ALICE + body))
    assert receiver.next().message.user_id == b"alice"
    assert receiver.arrived.empty()
    assert guarded.denials() == Denials(messages=1)


def test_properties_behind_a_body_of_several_frames_end_the_link(guarded: Guarded) -> None:
    check_late_properties(guarded, "a")


@pytest.mark.parametrize("vhost_policy", [False, True])
def test_a_message_over_max_message_size_ends_the_connection(guarded: Guarded, vhost_policy: bool) -> None:
    limit = 40000
    guarded.set(vhost(EVERYTHING, maxMessageSize=limit), maxMessageSize=limit + 5 * vhost_policy,
                enableVhostPolicy=vhost_policy)  # fmt: skip
    client = guarded.client()
    receiver = client.receiver("a", 10)
    sender = client.sender("a")
    assert client.call(lambda: sender.link.remote_max_message_size) == limit
    around = len(message_of(limit).encode()) - limit
    sent = sender.send(message_of(limit - around))
    receiver.next().accept()
    assert sent.outcome() == "accepted"
    other = guarded.client()
    other.sender("a").send(message_of(limit - around + 1))
    assert str(other.wait_ended()).startswith(f"amqp:connection:forced: a message is larger than {limit} octets")
    assert receiver.arrived.empty()
    sender.send(message_of(1))
    assert receiver.next().body == b"x"
    assert guarded.router.call(lambda: guarded.enforcement.counts.total_denials) == guarded.metric("size") == 1
    if vhost_policy:
        assert guarded.denials() == Denials(message_sizes=1)


def message_of(size: int) -> proton.Message:
    return proton.Message(body=b"x" * size)


@pytest.mark.parametrize("setting", ["allowWaypointLinks", "allowFallbackLinks"])
def test_an_annotation_does_not_lead_to_another_phase(tmp_path: Path, setting: str) -> None:
    address = section("address", prefix="queue", waypoint="yes")
    guarded = Guarded(tmp_path, address, stripAnnotations="no")
    try:
        guarded.group()
        consumer = guarded.client().receiver("queue", 10)  # of phase 1, behind the broker
        allowed = guarded.client().sender(None)
        guarded.group(**{setting: False})
        denied = guarded.client().sender(None)
        for sender, outcome in ((denied, "released"), (allowed, "accepted")):
            past_the_broker = message("queue")
            past_the_broker.annotations = {proton.symbol("x-opt-qd.phase"): proton.int32(1)}
            sent = sender.send(past_the_broker)
            if outcome == "accepted":
                consumer.next().accept()
            assert sent.outcome() == outcome
        assert consumer.arrived.empty()
    finally:
        guarded.stop()


# ---- management
@pytest.mark.parametrize("attribute", ["adminStatus", "admin-status"])
def test_admin_status_is_refused_where_policy_forbids_it(tmp_path: Path, attribute: str) -> None:
    guarded = Guarded(tmp_path, management="write")
    try:
        guarded.group(allowAdminStatusUpdate=False)
        other = guarded.client()
        with ManagementClient(guarded.url, timeout_s=10.0) as manager:
            rows = manager.query("connection", ["identity", "container"])
            identity = next(str(row["identity"]) for row in rows if row["container"] == other._container.container_id)
            with pytest.raises(ManagementError, match="policy"):
                manager.update({attribute: "deleted"}, "connection", identity=identity)
            guarded.group()
            manager.update({attribute: "deleted"}, "connection", identity=identity)
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


def test_late_properties_end_routed_links(routed: Guarded) -> None:
    check_late_properties(routed, "q.a")


@pytest.mark.parametrize("octets", OUT_OF_ORDER.values(), ids=list(OUT_OF_ORDER))
def test_routed_messages_out_of_amqps_order_do_not_get_by(routed: Guarded, octets: bytes) -> None:
    routed.group(allowUserIdProxy=False)
    client = routed.client("alice")
    receiver = client.receiver("q.a", 10)
    sender = client.sender("q.a")
    assert sender.send(Octets(octets)).outcome() == "rejected"
    assert receiver.arrived.empty()
    assert routed.denials() == Denials(messages=1)


def test_max_message_size_holds_on_routed_links(routed: Guarded) -> None:
    routed.group(maxMessageSize=20000)
    client = routed.client()
    receiver = client.receiver("q.a", 10)
    sender = client.sender("q.a")
    assert client.call(lambda: sender.link.remote_max_message_size) == 20000
    sender.send("small")
    assert receiver.next().body == "small"
    sender.send(message_of(50000))
    assert str(client.wait_ended()).startswith("amqp:connection:forced")
    assert routed.denials() == Denials(message_sizes=1)
