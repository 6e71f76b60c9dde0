"""Updates of TLS 1.3 keys: a client that sends many goes on, one that sends nothing else is ended. Further handshakes
of a client are refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.interop.hostile import exchange_message
from tests.interop.raw_client import SASL
from tests.kit import frames
from tests.kit.certificates import Authority
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.tls_library import TLS_1_2, connected
from tests.kit.waiting import wait_until
from waymesh_router.runtime.tls.sockets import MAX_WITHOUT_DATA

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

UPDATES = 1000
NOT_REQUESTED, REQUESTED = 0, 1


@pytest.fixture
def router(start_router: StartRouter, tmp_path: Path) -> RouterProcess:
    """With a listener `tls` on its last port."""
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"})
    port = free_port()
    text = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key)
    text += section("listener", name="tls", host="127.0.0.1", port=port, sslProfile="p", requireSsl=True)
    started = start_router(extra=text)
    started.ports.append(port)
    started.wait_listening()
    return started


KINDS = pytest.mark.parametrize("kind", [NOT_REQUESTED, REQUESTED], ids=["own keys", "keys of both"])


@KINDS
def test_a_connection_with_many_key_updates_goes_on(router: RouterProcess, kind: int) -> None:
    with connected(router.ports[-1]) as client:
        for _ in range(UPDATES):
            client.update_keys(kind)
        client.send(SASL)
        assert client.receive(len(SASL)) == SASL
        exchange_message(router.port)


@KINDS
def test_a_client_that_only_updates_its_keys_is_ended(router: RouterProcess, kind: int) -> None:
    with connected(router.ports[-1]) as client, contextlib.suppress(ConnectionError):
        client.send(frames.AMQP + frames.open_())
        for _ in range(100 * MAX_WITHOUT_DATA):
            client.update_keys(kind)
        pytest.fail("all were taken")
    wait_until(lambda: "too many TLS records without data" in router.log, what="the reason in the log")
    exchange_message(router.port)


def test_a_client_that_asks_for_another_handshake_gets_none(router: RouterProcess) -> None:
    with connected(router.ports[-1], TLS_1_2) as client:
        client.send(SASL)
        assert client.receive(len(SASL)) == SASL
        assert not client.renegotiates()
        exchange_message(router.port)
