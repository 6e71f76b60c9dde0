"""Effects of individual attributes of listeners, connectors and profiles on a connection."""

from __future__ import annotations

import math
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.certificates import Authority
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import section
from tests.kit.silence import silent
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.connections.transports import handshake_timeout_s
from waymesh_router.core.link_routing.rewriting import outlives_connection
from waymesh_router.runtime.tls.contexts import TlsProfile
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.validate import validate_create


@pytest.mark.parametrize(("given", "seconds"), [({}, 15.0), ({"initialHandshakeTimeoutSeconds": 3}, 3.0)])
def test_time_for_the_handshake(given: dict[str, Any], seconds: float) -> None:
    assert handshake_timeout_s(validate_create(ENTITY_TYPES["listener"], given)) == seconds


def test_no_limit_for_the_handshake(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router(extra=section("listener", host="127.0.0.1", port=port, initialHandshakeTimeoutSeconds=0))
    router.ports.append(port)
    router.wait_listening()
    with RawClient(port) as raw:
        raw.open()
    assert handshake_timeout_s({"initialHandshakeTimeoutSeconds": 0}) == math.inf


def test_a_link_more_than_the_listener_allows_ends_the_connection(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router(extra=section("listener", host="127.0.0.1", port=port, maxLinks=2))
    router.ports.append(port)
    router.wait_listening()
    with RawClient(port) as raw:
        raw.open()
        raw.begin()
        raw.attach_receiver("a")
        raw.attach_receiver("b")
        raw.put(Attach("third", 2, role=True, source=Terminus("source", address="c"), target=Terminus("target")))
        assert raw.close_error() == ("amqp:resource-limit-exceeded", "more than 2 links on a connection")


def test_links_of_a_connection_are_limited_where_nothing_is_said() -> None:
    assert validate_create(ENTITY_TYPES["listener"], {})["maxLinks"] == ConnectionSettings("r").max_links == 32768


def test_the_peer_of_a_connector_has_no_management_unless_it_is_given() -> None:
    assert validate_create(ENTITY_TYPES["connector"], {})["management"] == "none"
    assert validate_create(ENTITY_TYPES["listener"], {})["management"] is None


@pytest.mark.parametrize(
    ("terminus", "outlives"),
    [
        (Terminus("source", address="a"), False),
        (Terminus("source", address="a", expiry_policy="session-end"), False),
        (Terminus("source", address="a", expiry_policy="never"), True),
        (Terminus("source", address="a", expiry_policy="connection-close"), True),
        (Terminus("source", address="a", timeout=1), True),
    ],
)
def test_termini_that_outlive_their_connection(terminus: Terminus, outlives: bool) -> None:
    assert outlives_connection(Attach(name="n", handle=0, role=True, source=terminus)) is outlives


def test_a_protocol_between_two_others_is_not_enabled_by_them(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"}, ("localhost",))
    attrs = {"name": "p", "certFile": str(pair.cert), "privateKeyFile": str(pair.key)}
    context = TlsProfile({**attrs, "protocols": "TLSv1.1 TLSv1.3"}, silent).server_context(ssl.CERT_NONE)
    assert context.options & ssl.OP_NO_TLSv1_2
    context = TlsProfile({**attrs, "protocols": "TLSv1.2 TLSv1.3"}, silent).server_context(ssl.CERT_NONE)
    assert not context.options & ssl.OP_NO_TLSv1_2
