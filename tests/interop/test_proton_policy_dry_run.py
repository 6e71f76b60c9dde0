"""A dry run of the access policy, with clients on real listeners: everything works, and is counted and logged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.interop.guarded import EVERYTHING, Guarded, passes, vhost
from tests.interop.relay import relay
from tests.interop.shared import fresh, transport_of
from tests.kit.process import section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.policy.statistics import DryRunCounts

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    guarded.stop()


def counted(guarded: Guarded) -> DryRunCounts:
    return guarded.router.call(lambda: guarded.enforcement.counts.dry_run)


def test_links_and_messages_that_would_be_denied_pass(guarded: Guarded) -> None:
    group = {**EVERYTHING, "sources": "", "targets": "a", "allowUserIdProxy": False, "maxMessageSize": 1000}
    guarded.set(vhost(group), dryRun=True)
    client = guarded.client("alice")
    receiver = client.receiver("b", 20)
    named, anonymous = client.sender("b"), client.sender(None)
    assert named._remote_terminus().address == "b"
    for sender, message in (
        (named, proton.Message(body="x", user_id=b"bob")),
        (named, proton.Message(body="x" * 100_000)),
        (anonymous, proton.Message(body="x", address="b")),
        (anonymous, proton.Message(body="x", address="b")),
    ):
        sent = sender.send(message)
        receiver.next().accept()
        assert sent.outcome() == "accepted"
    client.close()
    guarded.wait_open(0)
    wait_until(lambda: counted(guarded).denials >= 6)
    found = counted(guarded)
    assert (found.connections, found.links, found.denials) == (0, 2, 6)
    assert guarded.router.call(lambda: guarded.enforcement.counts.total_denials) == 0
    log = guarded.router.log_text()
    assert "would DENY receiver" in log
    assert log.count("would DENY message: user='alice'") == 3
    assert " DENY " not in log.replace("would DENY", "")


def test_connections_that_would_be_denied_work(guarded: Guarded) -> None:
    guarded.set(vhost({**EVERYTHING, "remoteHosts": "10.0.0.1", "maxSessions": 1, "maxFrameSize": 512}, dryRun=True))
    client = guarded.client()
    passes(client, fresh())
    assert client.call(lambda: transport_of(client).remote_channel_max) > 0
    assert counted(guarded).connections == 1
    assert "would DENY connection: user='anonymous' host=127.0.0.1" in guarded.router.log_text()
    guarded.set(vhost({**EVERYTHING, "remoteHosts": "10.0.0.1"}))
    assert guarded.refused().startswith("amqp:unauthorized-access")


def test_a_rate_and_a_blocked_user_are_refused_to_real_clients(guarded: Guarded) -> None:
    guarded.set(vhost(EVERYTHING, connectionRatePerUser="1/3600", blockedUsers="bob"))
    guarded.client("alice").close()
    assert guarded.refused("alice") == "amqp:resource-limit-exceeded: connection disallowed by local policy"
    assert guarded.refused("bob") == "amqp:unauthorized-access: connection disallowed by local policy"
    denied = guarded.router.call(lambda: dict(guarded.router.router.core.refusals.denied))
    assert denied["connection"] == 2


def test_management_requests_that_would_be_denied_are_carried_out(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, role="route-container", management="write")
    try:
        forbidden = {**EVERYTHING, "allowAdminStatusUpdate": False, "allowDynamicLinkRoutes": False}
        guarded.set(vhost(forbidden, dryRun=True))
        with ManagementClient(guarded.url, timeout_s=20.0) as manager:
            with pytest.raises(ManagementError) as error:
                manager.update({"adminStatus": "deleted"}, "connection", identity="999999")
            assert error.value.status == 400  # the next check: there is no such connection
            manager.create("router.connection.linkRoute", {"pattern": "jobs.#", "direction": "in"}, name="jobs")
            found = counted(guarded)
            assert (found.links, found.denials) == (0, 2)
            log = guarded.router.log_text()
            assert log.count("would DENY") == 2
            assert "allowAdminStatusUpdate is no" in log
            assert "allowDynamicLinkRoutes is no" in log
            guarded.set(vhost(forbidden))
            with pytest.raises(ManagementError) as error:
                manager.create("router.connection.linkRoute", {"pattern": "more.#", "direction": "in"}, name="more")
            assert error.value.status == 403
    finally:
        guarded.stop()


def test_routed_messages_that_would_be_denied_pass(tmp_path: Path) -> None:
    """To a broker, over link routes."""
    with relay() as broker:
        host, port = broker.removeprefix("amqp://").split(":")
        extra = section("connector", name="broker", role="route-container", host=host, port=port)
        for direction in ("in", "out"):
            extra += section("linkRoute", pattern="#", direction=direction, connection="broker")
        guarded = Guarded(tmp_path, extra)
        try:
            core = guarded.router.router.core
            guarded.router.wait(
                lambda: any(c.origin == "broker" and c.remote for c in core.connections.values()), "broker"
            )
            guarded.set(vhost({**EVERYTHING, "targets": "q.b", "allowUserIdProxy": False}, dryRun=True))
            client = guarded.client("alice")
            receiver = client.receiver("q.a", 10)
            named, anonymous = client.sender("q.a"), client.sender(None)
            for sender, message in (
                (named, proton.Message(body="x", user_id=b"bob")),
                (named, proton.Message(body="x", user_id=b"alice")),
                (anonymous, proton.Message(body="x", address="q.a", user_id=b"alice")),
            ):
                sent = sender.send(message)
                receiver.next().accept()
                assert sent.outcome() == "accepted"
            found = wait_until(lambda: found if (found := counted(guarded)).denials >= 3 else None)
            assert found is not None
            assert (found.links, found.denials) == (1, 3)  # the link to q.a, bob's message, that to q.a
            assert guarded.router.log_text().count("would DENY message: user='alice'") == 2
        finally:
            guarded.stop()
