"""Limits of connections: a peer that holds or opens too many is ended, and others are served meanwhile."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.hostile import (
    AFTER_SASL,
    HALF_HEADER,
    HALF_OPEN,
    HALF_SASL,
    NOTHING,
    descriptors,
    exchange_in_time,
    exchange_message,
    half_open,
    has_ended,
)
from tests.interop.raw_client import SASL, RawClient
from tests.kit.certificates import Authority
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Close, Open
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.tls.contexts import TlsProfile

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

FLOOD = 1000
MOST = 100
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
STAGES = {
    "nothing": NOTHING,
    "half a header": HALF_HEADER,
    "SASL header": SASL,
    "half a SASL frame": HALF_SASL,
    "after SASL": AFTER_SASL,
    "half an open": HALF_OPEN,
}


@pytest.fixture
def listening(start_router: StartRouter) -> Callable[..., tuple[RouterProcess, int]]:
    """Start a router with a second listener `limited` of these attributes; the router and the listener's port."""

    def start(extra: str = "", **attributes: object) -> tuple[RouterProcess, int]:
        port = free_port()
        listener = section("listener", name="limited", host="127.0.0.1", port=port, **attributes)
        router = start_router(extra=extra + listener)
        router.ports.append(port)
        router.wait_listening()
        return router, port

    return start


def tls(folder: Path) -> tuple[str, ssl.SSLContext]:
    """The configuration of an sslProfile `p`, and what a client needs."""
    authority = Authority(folder)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    context = ssl.create_default_context(cafile=str(authority.cert))
    return section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key), context


# ---- maxConnections
def test_connection_beyond_the_limit_of_its_listener_is_refused_until_another_ends(
    listening: Callable[..., tuple[RouterProcess, int]],
) -> None:
    router, port = listening(maxConnections=2)
    with RawClient(port) as first, RawClient(port) as second:
        first.open()
        second.open()
        with RawClient(port) as third:
            answer = third.open()
            assert isinstance(answer.properties, dict)
            assert answer.properties["amqp:connection-establishment-failed"] is True
            condition, description = third.close_error()
        assert condition == "amqp:resource-limit-exceeded"
        assert description == "listener limited has 2 connections (maxConnections)"
        exchange_message(router.port)  # the other listener is not affected
        first.put(Close())
        first.expect(Close)

        def served() -> bool:
            with RawClient(port) as fourth:
                fourth.open()
                fourth.put(Close())
                return fourth.expect(Close).error is None

        assert served()
    with ManagementClient(router.url) as management:
        (row,) = management.query("router", ["connectionsRefusedListener", "connectionsRefusedMemory"])
        assert (row["connectionsRefusedListener"], row["connectionsRefusedMemory"]) == (1, 0)
    assert router.log.count("maxConnections); refusing more") == 1


def test_warnings_of_a_listener_come_once_until_it_is_well_below_its_limit(
    listening: Callable[..., tuple[RouterProcess, int]],
) -> None:
    # Those that are kept say nothing meanwhile.
    router, port = listening(section("policy", warnAtPercent=60), maxConnections=5, idleTimeoutSeconds=0)
    with ExitStack() as stack:
        kept = [stack.enter_context(RawClient(port)) for _ in range(4)]
        for client in kept:
            client.open()
        for _ in range(3):  # the fifth comes and goes, and a sixth is refused each time
            with RawClient(port) as fifth, RawClient(port) as sixth:
                fifth.open()
                sixth.open()
                assert sixth.close_error()[0] == "amqp:resource-limit-exceeded"
            wait_until(lambda: clients_of(router) == 4)
    assert router.log.count("listener limited: 5 connections are open (maxConnections); refusing more") == 1
    assert router.log.count("listener limited: 3 of 5 connections are open (maxConnections)") == 1


def test_new_connections_beyond_the_rate_of_a_listener_are_refused(
    listening: Callable[..., tuple[RouterProcess, int]],
) -> None:
    router, port = listening(connectionRate="2/3600")
    for _ in range(2):
        with RawClient(port) as client:
            client.open()
            client.put(Close())
            assert client.expect(Close).error is None
    with RawClient(port) as third:
        third.open()
        assert third.close_error() == ("amqp:resource-limit-exceeded", "connection disallowed by local policy")
    exchange_message(router.port)  # the other listener is not affected
    assert "listener limited: connectionRate 2/3600 is reached" in router.log


def clients_of(router: RouterProcess) -> int:
    with ManagementClient(router.url) as management:
        rows = management.query("connection", ["container", "dir"])
    return len(rows) - 1


# ---- initialHandshakeTimeoutSeconds
@pytest.mark.parametrize("said", STAGES.values(), ids=STAGES.keys())
def test_peer_that_does_not_open_in_time_is_ended(
    listening: Callable[..., tuple[RouterProcess, int]], said: bytes
) -> None:
    _, port = listening(initialHandshakeTimeoutSeconds=1)
    before = time.monotonic()
    with half_open(port, 3, said) as sockets:
        exchange_in_time(port)
        wait_until(lambda: all(has_ended(sock) for sock in sockets), 60)
    assert time.monotonic() - before >= 0.9


@pytest.mark.parametrize(
    "said", [NOTHING, HALF_HEADER, CLIENT_HELLO], ids=["nothing", "half a header", "half a hello"]
)
def test_peer_that_does_not_end_its_tls_handshake_in_time_is_ended(
    listening: Callable[..., tuple[RouterProcess, int]], tmp_path: Path, said: bytes
) -> None:
    profile, context = tls(tmp_path)
    _, port = listening(profile, sslProfile="p", initialHandshakeTimeoutSeconds=1)
    with half_open(port, 3, said) as sockets:
        exchange_in_time(port, context)
        wait_until(lambda: all(has_ended(sock) for sock in sockets), 60)


def test_peer_that_sends_its_open_in_drips_is_ended(
    listening: Callable[..., tuple[RouterProcess, int]],
) -> None:
    """Each octet is progress, but the time for the handshake counts as a whole."""
    _, port = listening(initialHandshakeTimeoutSeconds=1)
    with half_open(port, 1, HALF_OPEN) as (sock,):

        def ended() -> bool:
            if has_ended(sock):
                return True
            try:
                sock.send(b"\0")
            except OSError:
                return True
            return False

        wait_until(ended, 60)


# ---- maxOpeningConnections
@pytest.mark.parametrize("said", STAGES.values(), ids=STAGES.keys())
def test_flood_of_connections_that_do_not_open_does_not_keep_clients_out(
    listening: Callable[..., tuple[RouterProcess, int]], said: bytes
) -> None:
    router, port = listening(maxOpeningConnections=MOST, initialHandshakeTimeoutSeconds=0)
    exchange_message(port)
    before = descriptors(router)
    with half_open(port, FLOOD, said) as sockets:
        exchange_message(port)
        wait_until(lambda: sum(map(has_ended, sockets)) >= FLOOD - MOST, 60)
        assert not any(map(has_ended, sockets[-MOST + 10 :]))  # the oldest are ended
        wait_until(lambda: descriptors(router) <= before + MOST, 60)
        exchange_message(port)
    wait_until(lambda: descriptors(router) <= before, 60)
    assert router.log.count("maxOpeningConnections): the oldest ones are ended") == 1


def test_peer_whose_open_is_awaited_gets_the_reason(
    listening: Callable[..., tuple[RouterProcess, int]],
) -> None:
    _, port = listening(maxOpeningConnections=1)
    with RawClient(port) as raw:
        raw.send(AFTER_SASL)
        assert raw.read(8) == SASL
        raw.frame()
        raw.frame()
        raw.read(8)
        with half_open(port, 2, NOTHING):
            raw.expect(Open)
            assert raw.close_error()[0] == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize("said", [NOTHING, CLIENT_HELLO], ids=["nothing", "half a hello"])
def test_flood_of_tls_handshakes_does_not_keep_clients_out(
    listening: Callable[..., tuple[RouterProcess, int]], tmp_path: Path, said: bytes
) -> None:
    profile, context = tls(tmp_path)
    router, port = listening(profile, sslProfile="p", maxOpeningConnections=MOST, initialHandshakeTimeoutSeconds=0)
    exchange_message(port, context)
    before = descriptors(router)
    with half_open(port, FLOOD, said) as sockets:
        exchange_message(port, context)
        wait_until(lambda: sum(map(has_ended, sockets)) >= FLOOD - MOST, 60)
        wait_until(lambda: descriptors(router) <= before + MOST, 60)
    wait_until(lambda: descriptors(router) <= before, 60)


def test_flood_of_http_connections_does_not_keep_probes_out(
    listening: Callable[..., tuple[RouterProcess, int]],
) -> None:
    router, port = listening(http=True, maxOpeningConnections=MOST)
    before = descriptors(router)
    with half_open(port, FLOOD, b"GET /healthz HT") as sockets:
        wait_until(lambda: sum(map(has_ended, sockets)) >= FLOOD - MOST, 60)
        with half_open(port, 1, b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n") as (probe,):
            answer = bytearray()

            def answered() -> bool:
                try:
                    answer.extend(probe.recv(4096))
                except BlockingIOError:
                    return False
                return b"\r\n\r\n" in answer

            wait_until(answered, 60)
            assert answer.startswith(b"HTTP/1.1 200")
    wait_until(lambda: descriptors(router) <= before, 60)


# ---- coming and going
@pytest.mark.by_exec
def test_connections_that_come_and_go_leave_nothing_behind(router: RouterProcess) -> None:
    def churn(count: int) -> None:
        for _ in range(count):
            with RawClient(router.port) as raw:
                raw.open()

    def counts() -> tuple[int, int, int, int]:
        with ManagementClient(router.url) as management:
            (row,) = management.query("router", ["connectionCount", "linkCount", "addrCount"])
        return descriptors(router), row["connectionCount"], row["linkCount"], row["addrCount"]

    churn(200)
    before = counts()
    memory = router.resident_bytes()
    churn(1000)
    # The last ones of before may still have been there.
    wait_until(lambda: all(now <= then for now, then in zip(counts(), before)), 60)
    assert router.resident_bytes() - memory < 8 << 20


# ---- TLS
def test_renegotiation_is_off(tmp_path: Path) -> None:
    """Handshakes cost a router more than a client, and only the first one has a time limit."""
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"})
    profile = TlsProfile({"name": "p", "certFile": str(pair.cert), "privateKeyFile": str(pair.key)}, print)
    assert profile.server_context(ssl.CERT_NONE, None).options & ssl.OP_NO_RENEGOTIATION
