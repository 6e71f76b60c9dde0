"""For each setting of old files that is read with a warning: what somebody would try who was kept out before."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.outcomes import DEADLINE_S
from tests.kit.ports import free_port
from tests.kit.process import accepts, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.main import main

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

ROUTING = ("x-opt-qd.to", "x-opt-qd.ingress", "x-opt-qd.trace", "x-opt-qd.phase", "x-opt-qd.exchanges")
TLS_ALERT = b"\x15"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(pair: KeyPair, authority: Authority) -> dict[str, Path]:
    return {"certFile": pair.cert, "privateKeyFile": pair.key, "caCertFile": authority.cert}


@pytest.mark.parametrize("strip", ["no", "out"])
@pytest.mark.parametrize("annotation", ROUTING)
def test_no_annotation_leads_out_of_a_tenants_space(start_router: StartRouter, strip: str, annotation: str) -> None:
    port = free_port()
    extra = {"host": "127.0.0.1", "port": port, "multiTenant": True, "stripAnnotations": strip}
    router = start_router("A", section("listener", name="old", **extra))
    wait_until(lambda: accepts("127.0.0.1", port), DEADLINE_S, "the listener")
    values = {"x-opt-qd.phase": "1", "x-opt-qd.trace": ["0/A"], "x-opt-qd.exchanges": ["A"]}
    with Client(f"amqp://127.0.0.1:{port}", virtual_host="a.example") as tenant, Client(router.url) as other:
        outside, inside = other.receiver("x", 1), other.receiver("a.example/x", 1)
        given = {proton.symbol(annotation): values.get(annotation, "x")}
        sent = tenant.sender("x").send(proton.Message(body="1", annotations=given))
        received = inside.next()
        assert received.body == "1"
        received.accept()
        assert sent.outcome() == "accepted"
        assert outside.arrived.empty()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(DEADLINE_S)
        yield made


def test_a_connector_of_a_profile_with_unknown_protocols_says_nothing_in_clear(
    start_router: StartRouter, authority: Authority, server: socket.socket
) -> None:
    text = section("sslProfile", name="p", protocols="SSLv23", caCertFile=authority.cert)
    text += section("connector", name="c", role="route-container", host="127.0.0.1", port=server.getsockname()[1],
                    sslProfile="p", saslMechanisms="PLAIN", saslUsername="u", saslPassword="secret")  # fmt: skip
    router = start_router("A", text)
    connection, _ = server.accept()
    with connection:
        connection.settimeout(DEADLINE_S)
        said = connection.recv(100)
    assert said[:1] in (b"", TLS_ALERT)
    with ManagementClient(router.url) as client:
        (row,) = client.query("connector")
    assert row["connectionStatus"] != "SUCCESS"


def test_with_an_unknown_uid_format_no_certificate_has_the_name_of_a_user(
    start_router: StartRouter, authority: Authority
) -> None:
    """Neither one whose common name is that of the user, nor one whose parts look like the subject of another."""
    port = free_port()
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    text = section("sslProfile", name="p", uidFormat="zz", **tls(pair, authority))
    text += section("listener", host="127.0.0.1", port=port, sslProfile="p", requireSsl=True, authenticatePeer=True,
                    saslMechanisms="EXTERNAL")  # fmt: skip
    text += section("policy", enableVhostPolicy=True)
    users = "worker, CN=worker+O=Example, CN=known"
    groups = {"g": {"users": users, "remoteHosts": "*", "sources": "*", "targets": "*"}}
    text += section("vhost", hostname="only", groups=json.dumps(groups))
    start_router("A", text)
    wait_until(lambda: accepts("127.0.0.1", port), DEADLINE_S, "the listener")
    subjects = {"CN": "worker"}, {"CN": "worker+O=Example"}, {"CN": "worker,O=Example"}, {"CN": "known"}
    for number, subject in enumerate(subjects):
        mine = authority.issue(f"client-{number}", subject)
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_credentials(str(mine.cert), str(mine.key), None)
        domain.set_peer_authentication(proton.SSLDomain.ANONYMOUS_PEER)
        known, url = subject == {"CN": "known"}, f"amqps://127.0.0.1:{port}"
        with Client(url, wait=known, ssl_domain=domain, allowed_mechs="EXTERNAL", virtual_host="only") as client:
            assert known or str(client.wait_ended()).startswith("amqp:unauthorized-access"), subject


@pytest.mark.parametrize("mechanisms", ["DIGEST-MD5 PLAIN", "cram-md5 plain", "DIGEST-MD5"])
@pytest.mark.parametrize("verified", [None, "no"])
def test_a_connector_sends_no_password_that_digest_md5_would_have_kept(
    mechanisms: str, verified: str | None, tmp_path: Path, authority: Authority
) -> None:
    """Without TLS, or without verification of the broker, the start is refused."""
    profile = {"sslProfile": "p", "verifyHostname": verified} if verified else {}
    text = section("sslProfile", name="p", caCertFile=authority.cert)
    text += section("connector", name="c", host="b", port=1, role="route-container", saslMechanisms=mechanisms,
                    saslUsername="u", saslPassword="secret", **profile)  # fmt: skip
    (tmp_path / "t.conf").write_text(text, encoding="utf-8")
    assert main(["--check", "-c", str(tmp_path / "t.conf")]) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_second_listener_without_log_in_does_not_open_the_first(start_router: StartRouter, host: str) -> None:
    port = free_port()
    first = section("listener", name="l", host="127.0.0.1", port=port, authenticatePeer=True,
                    saslMechanisms="EXTERNAL")  # fmt: skip
    router = start_router("A", first + section("listener", name="m", host=host, port=port))
    wait_until(lambda: accepts("127.0.0.1", port), DEADLINE_S, "the listener")
    closed = "listener m: stays closed, because listener l has the same host and port"
    wait_until(lambda: closed in router.log, DEADLINE_S, closed)
    with Client(f"amqp://127.0.0.1:{port}", wait=False, allowed_mechs="ANONYMOUS") as client:
        assert client.wait_ended()
        assert not client.opened.is_set()


def test_a_vhost_of_a_connector_that_does_not_exist_gives_its_peer_nothing(start_router: StartRouter) -> None:
    port = free_port()
    text = section("listener", name="brokers", host="127.0.0.1", port=port, role="route-container")
    text += section("autoLink", name="l", address="open", direction="in", connection="brokers")
    peer = start_router("Z", text)
    everything = '{"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": true}'
    text = section("policy", enableVhostPolicy=True)
    text += section("vhost", hostname="$default", allowUnknownUser=True, groups=f'{{"$default": {everything}}}')
    start_router("A", text + section("connector", name="c", host="127.0.0.1", port=port, policyVhost="absent"))
    with ManagementClient(peer.url) as management:
        wait_until(
            lambda: management.query("router.config.autoLink")[0]["operStatus"] == "failed", DEADLINE_S, "the refusal"
        )
