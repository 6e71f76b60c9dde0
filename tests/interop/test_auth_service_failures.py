"""authServicePlugin: a service that is away, slow or wrong lets nobody in and hurts nobody else."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from tests.interop.auth_world import SYS_TEMP, Start, running_service, starting
from tests.interop.raw_client import SASL, RawClient
from tests.kit.auth_service import AuthServer, Link, Script
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

service = pytest.fixture(running_service)
start = pytest.fixture(starting)


def nothing(_: AuthServer, link: Link) -> None:
    """It reads and never answers."""
    while True:
        link.read(1)


def garbage(_: AuthServer, link: Link) -> None:
    link.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    nothing(_, link)


def no_sasl(_: AuthServer, link: Link) -> None:
    link.send(b"AMQP\x00\x01\x00\x00")
    nothing(_, link)


def early_end(_: AuthServer, link: Link) -> None:
    link.read(8)


def huge(_: AuthServer, link: Link) -> None:
    link.send(SASL + b"\x7f\xff\xff\xff\x02\x01\x00\x00" + b"\0" * 65536)
    nothing(_, link)


def unasked_outcome(_: AuthServer, link: Link) -> None:
    """It lets somebody in who has not said anything."""
    link.send(SASL)
    link.put(SaslOutcome(code=0))
    nothing(_, link)


def empty_offer(server: AuthServer, link: Link) -> None:
    server.mechanisms = ()
    server.offer(link)
    nothing(server, link)


BEFORE = [garbage, no_sasl, early_end, huge, unasked_outcome, empty_offer, nothing]


@pytest.mark.parametrize("script", BEFORE)
def test_nobody_gets_in_where_the_service_does_not_even_offer(
    start: Start, service: AuthServer, script: Script
) -> None:
    world = start(service.port, initialHandshakeTimeoutSeconds=5)
    service.script = script
    with RawClient(world.guarded) as raw:
        raw.send(SASL)
        raw.read(8)
        assert raw.expect(SaslOutcome).code == SYS_TEMP
        assert raw.read_to_end() == b""
    service.script = None
    service.mechanisms = ("PLAIN",)
    assert world.outcome() == 0  # the next one is served as ever
    assert "AUTHSERVICE (error)" in world.router.log
    assert "AUTHSERVICE (notice) authServicePlugin service: 127.0.0.1" in world.router.log
    assert "internal error" not in world.router.log


def drops_later(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()


def nonsense_later(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()
    link.put(SaslMechanisms(sasl_server_mechanisms=["PLAIN"]))
    nothing(server, link)


def silent_later(server: AuthServer, link: Link) -> None:
    server.offer(link)
    nothing(server, link)


def ok_without_open(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()
    link.put(SaslOutcome(code=0))
    nothing(server, link)


def ok_and_gone(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()
    link.put(SaslOutcome(code=0))


def bad_names(identity: Any) -> Script:
    def script(server: AuthServer, link: Link) -> None:
        server.offer(link)
        link.frame()
        link.put(SaslOutcome(code=0))
        server.name(link, identity)

    return script


AFTER = {
    "drops": drops_later, "nonsense": nonsense_later, "silent": silent_later, "no open": ok_without_open,
    "gone": ok_and_gone, "number": bad_names({"authenticated-identity": {"sub": 7}}),
    "control": bad_names({"authenticated-identity": {"sub": "a\nb"}}), "long": bad_names(
        {"authenticated-identity": {"sub": "a" * 256}}), "no map": bad_names({"authenticated-identity": ["alice"]}),
    "long text": bad_names({"authenticated-identity": "a" * 256}), "empty": bad_names({"authenticated-identity": ""}),
    "rights": bad_names({"address-authz": "all"}), "words": bad_names({"address-authz": {"orders": 1}}),
}  # fmt: skip


@pytest.mark.parametrize("script", AFTER)
def test_nobody_gets_in_where_the_service_fails_later(start: Start, service: AuthServer, script: str) -> None:
    world = start(service.port, initialHandshakeTimeoutSeconds=5)
    service.script = AFTER[script]
    assert world.outcome() == SYS_TEMP
    service.script = None
    assert world.outcome() == 0
    wait_until(lambda: service.links == 0)


def test_a_service_that_is_away_or_not_found_lets_nobody_in(start: Start, service: AuthServer) -> None:
    service.close()
    world = start(service.port)
    assert world.outcome() == -1
    with RawClient(world.guarded) as raw:
        raw.send(SASL)
        raw.read(8)
        assert raw.expect(SaslOutcome).code == SYS_TEMP
    with ManagementClient(world.router.url) as client:
        client.create("authServicePlugin", {"host": "nowhere.invalid", "port": "5672"}, name="unknown")
        port = free_port()
        client.create("listener", {"host": "127.0.0.1", "port": str(port), "saslPlugin": "unknown"}, name="lost")
    with RawClient(port) as raw:
        raw.send(SASL)
        raw.read(8)
        assert raw.expect(SaslOutcome).code == SYS_TEMP
    wait_until(lambda: "cannot resolve nowhere.invalid" in world.router.log, 60.0)  # the resolver may take its time


def test_a_service_that_hangs_delays_nobody_else_and_is_left_with_the_client(
    start: Start, service: AuthServer
) -> None:
    world = start(service.port, initialHandshakeTimeoutSeconds=120)
    service.script = nothing
    with ExitStack() as stack:
        waiting = [stack.enter_context(RawClient(world.guarded)) for _ in range(20)]
        for raw in waiting:
            raw.send(SASL)
        wait_until(lambda: service.links == 20)
        with Client(world.router.url, container_id="free"):
            assert "free" in world.users()
    wait_until(lambda: service.links == 0)


def closes_after_offer(server: AuthServer, link: Link) -> None:
    server.offer(link)


def test_a_client_that_hesitates_until_the_service_is_gone_is_refused(start: Start, service: AuthServer) -> None:
    """That is no failure of the service; the log does not call it one."""
    world = start(service.port, initialHandshakeTimeoutSeconds=120)
    service.script = closes_after_offer
    with RawClient(world.guarded) as raw:
        raw.send(SASL)
        raw.read(8)
        raw.expect(SaslMechanisms)
        wait_until(lambda: service.links == 0)
        with Client(world.router.url, container_id="later"):  # the router has read that end before
            assert "later" in world.users()
        raw.put(SaslInit(mechanism="PLAIN", initial_response=b"\0alice\0secret"))
        assert raw.expect(SaslOutcome).code == SYS_TEMP
    assert "AUTHSERVICE (error)" not in world.router.log
