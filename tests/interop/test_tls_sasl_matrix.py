"""Who gets in: each client certificate with each SASL mechanism at each kind of TLS listener, by proton and by `ssl`.

A certificate that is wrong is never let in, whatever SASL would say; a missing one only where SASL admits the client.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.raw_client import AMQP, SASL, Ended, RawClient
from tests.interop.shared import fresh
from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from waymesh_amqp.sasl import make_line
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.tls_io import AMQP_TLS_HEADER

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

REFUSED = ""
BAD = ("ended", "revoked", "foreign", "impostor")
CERTIFICATES = (None, "good", *BAD)
LISTENERS: dict[str, dict[str, Any]] = {
    "certificate": {"authenticatePeer": True, "saslMechanisms": "EXTERNAL"},
    "either": {"authenticatePeer": True, "saslMechanisms": "EXTERNAL PLAIN SCRAM-SHA-256 ANONYMOUS"},
    "anybody": {"saslMechanisms": "EXTERNAL ANONYMOUS"},
    "password": {"authenticatePeer": True, "saslMechanisms": "PLAIN"},
}
LOGINS = {
    "EXTERNAL": ("EXTERNAL", "", ""),
    "ANONYMOUS": ("ANONYMOUS", "", ""),
    "PLAIN": ("PLAIN", "bob", "secret"),
    "PLAIN wrong": ("PLAIN", "bob", "wrong"),
    "SCRAM": ("SCRAM-SHA-256", "bob", "secret"),
    "SCRAM wrong": ("SCRAM-SHA-256", "bob", "wrong"),
}


def expected(listener: str, certificate: str | None, login: str) -> str:
    """The user that a client is, REFUSED if it does not get in."""
    attrs = LISTENERS[listener]
    mechanism = LOGINS[login][0]
    if "EXTERNAL" in attrs["saslMechanisms"] and certificate in BAD:
        return REFUSED
    if attrs["saslMechanisms"] == "EXTERNAL" and certificate is None:
        return REFUSED
    if mechanism not in attrs["saslMechanisms"] or "wrong" in login:
        return REFUSED
    if mechanism == "ANONYMOUS":
        return REFUSED if attrs.get("authenticatePeer") else "anonymous"
    if mechanism == "EXTERNAL":
        return "worker" if certificate == "good" else REFUSED
    return "bob"


@dataclass
class World:
    """A router with all kinds of listeners, and all kinds of certificates."""

    router: RouterProcess
    ports: dict[str, int]
    authority: Authority
    pairs: dict[str, KeyPair]
    crl: Path

    def pair(self, name: str | None) -> KeyPair | None:
        return None if name is None else self.pairs[name]

    def context(self, certificate: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        pair = self.pair(certificate)
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def raw(self, listener: str, certificate: str | None, login: str) -> str:
        """The user of a client of `ssl`, which asks for the mechanism even if it is not offered."""
        mechanism, user, password = LOGINS[login]
        try:
            with RawClient(self.ports[listener], self.context(certificate)) as raw:
                if mechanism.startswith("SCRAM"):
                    code = raw.login(mechanism, user, password).code
                else:
                    raw.send(SASL)
                    raw.read(8)
                    raw.expect(SaslMechanisms)
                    response = f"\0{user}\0{password}".encode() if mechanism == "PLAIN" else b""
                    raw.put(SaslInit(mechanism=mechanism, initial_response=response))
                    code = raw.expect(SaslOutcome).code
                if code != 0:
                    return REFUSED
                container = fresh()
                raw.open(sasl=False, container_id=container)
                return self.user(container)
        except (ssl.SSLError, ConnectionError, Ended, AmqpError):  # with TLS 1.3, the first read tells it
            return REFUSED

    def proton(self, listener: str, certificate: str | None, login: str) -> str:
        """The user of a proton client."""
        mechanism, user, password = LOGINS[login]
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(self.authority.cert))
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
        pair = self.pair(certificate)
        if pair is not None:
            domain.set_credentials(str(pair.cert), str(pair.key), None)
        options: dict[str, Any] = {"user": user, "password": password} if user else {}
        container = fresh()
        client = Client(
            f"amqps://127.0.0.1:{self.ports[listener]}", container_id=container, wait=False, ssl_domain=domain,
            allowed_mechs=mechanism, **options,
        )  # fmt: skip
        try:
            wait_until(lambda: client.opened.is_set() or client.ended.is_set())
            return self.user(container) if client.opened.is_set() else REFUSED
        finally:
            client.close()

    def user(self, container: str) -> str:
        with ManagementClient(self.router.url) as client:
            rows = client.query("connection", ["container", "user"])
        return next(str(row["user"]) for row in rows if row["container"] == container)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("matrix")
    authorities = {}
    for name, common_name in (("own", "Test CA"), ("foreign", "Foreign CA"), ("impostor", "Test CA")):
        (folder / name).mkdir()
        authorities[name] = Authority(folder / name, common_name)
    own = authorities["own"]
    server = own.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    pairs = {name: own.issue(name, {"CN": "worker"}, ended=name == "ended") for name in ("good", "ended", "revoked")}
    pairs |= {name: authorities[name].issue(name, {"CN": "worker"}) for name in ("foreign", "impostor")}
    crl = folder / "crl.pem"
    crl.write_bytes(own.revoke(pairs["revoked"]))
    (folder / "mesh.users").write_text(make_line("bob", "secret", "plain"), encoding="utf-8")
    ports = {name: free_port() for name in ("plain", *LISTENERS)}
    text = section("router", id="A", saslConfigDir=folder, saslConfigName="mesh")
    text += section(
        "sslProfile", name="tls", caCertFile=own.cert, certFile=server.cert, privateKeyFile=server.key, crlFile=crl,
        uidFormat="n",
    )  # fmt: skip
    text += section("listener", host="127.0.0.1", port=ports["plain"], managementFiles=True)
    for name, attrs in LISTENERS.items():
        text += section(
            "listener", name=name, host="127.0.0.1", port=ports[name], sslProfile="tls", requireSsl=True, **attrs
        )
    router = RouterProcess(folder, "A", text, list(ports.values()))
    try:
        yield World(router.start(), ports, own, pairs, crl)
    finally:
        router.stop()


@pytest.mark.parametrize("listener", LISTENERS)
def test_clients_of_ssl_get_in_as_who_they_are_or_not_at_all(world: World, listener: str) -> None:
    cases = [(certificate, login) for certificate in CERTIFICATES for login in LOGINS]
    found = {case: world.raw(listener, *case) for case in cases}
    assert found == {case: expected(listener, *case) for case in cases}


@pytest.mark.parametrize("listener", LISTENERS)
def test_clients_of_proton_get_in_as_who_they_are_or_not_at_all(world: World, listener: str) -> None:
    logins = [login for login in LOGINS if not login.startswith("SCRAM")]  # which needs libraries of the system
    cases = [(certificate, login) for certificate in CERTIFICATES for login in logins]
    found = {case: world.proton(listener, *case) for case in cases}
    assert found == {case: expected(listener, *case) for case in cases}


OFFERED = {
    ("certificate", "good"): {"EXTERNAL"},
    ("either", None): {"PLAIN", "SCRAM-SHA-256"},
    ("either", "good"): {"EXTERNAL", "PLAIN", "SCRAM-SHA-256"},
    ("anybody", None): {"ANONYMOUS"},
    ("anybody", "good"): {"EXTERNAL", "ANONYMOUS"},
    ("password", None): {"PLAIN"},
}


@pytest.mark.parametrize(("listener", "certificate"), OFFERED)
def test_only_mechanisms_that_can_succeed_are_offered(world: World, listener: str, certificate: str | None) -> None:
    """Neither ANONYMOUS where peers authenticate, nor EXTERNAL without a certificate."""
    with RawClient(world.ports[listener], world.context(certificate)) as raw:
        raw.send(SASL)
        raw.read(8)
        assert set(raw.expect(SaslMechanisms).sasl_server_mechanisms) == OFFERED[listener, certificate]


@pytest.mark.parametrize(
    ("listener", "certificate"), [("certificate", "good"), ("either", "good"), ("either", None), ("password", None)]
)
def test_nobody_skips_sasl_where_peers_authenticate(world: World, listener: str, certificate: str | None) -> None:
    with RawClient(world.ports[listener], world.context(certificate)) as raw:
        raw.send(AMQP)
        assert raw.read_to_end() == SASL


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("first", [SASL, AMQP, AMQP_TLS_HEADER + SASL])
def test_nobody_comes_in_without_tls_where_it_is_required(world: World, listener: str, first: bytes) -> None:
    """Asking for TLS by a header and going on without it is no way in either."""
    with RawClient(world.ports[listener]) as raw:
        raw.send(first)
        assert raw.read_to_end().removeprefix(AMQP_TLS_HEADER)[:4] != b"AMQP"


def test_the_log_tells_why_certificates_are_refused(world: World) -> None:
    for certificate in BAD:
        assert world.raw("certificate", certificate, "EXTERNAL") == REFUSED
    for reason in ("certificate has expired", "certificate revoked", "unable to get local issuer certificate"):
        wait_until(lambda reason=reason: f"certificate of the peer: {reason}" in world.router.log)  # type: ignore[misc]


def test_management_changes_a_profile_for_its_listeners_at_once(world: World) -> None:
    with ManagementClient(world.router.url) as client:
        row = client.read("sslProfile", name="tls")
        assert row["notAfter"] > 0
        try:
            client.update({"crlFile": None, "uidFormat": "on"}, "sslProfile", name="tls")
            assert world.raw("certificate", "revoked", "EXTERNAL") == ";worker"
        finally:
            client.update({"crlFile": str(world.crl), "uidFormat": "n"}, "sslProfile", name="tls")
        assert world.raw("certificate", "revoked", "EXTERNAL") == REFUSED
        for wrong in (
            {"crlFile": "/nowhere"}, {"certFile": "/nowhere"}, {"caCertFile": None, "crlFile": None},
            {"protocols": "SSLv3"}, {"ciphers": "TLS_AES_128_GCM_SHA256"}, {"uidNameMappingFile": str(world.crl)},
        ):  # fmt: skip
            with pytest.raises(ManagementError) as raised:
                client.update(wrong, "sslProfile", name="tls")
            assert raised.value.status == 400, wrong
        assert client.read("sslProfile", name="tls") == row
    assert world.raw("certificate", "good", "EXTERNAL") == "worker"
    assert world.raw("certificate", "revoked", "EXTERNAL") == REFUSED


def test_a_request_at_a_listener_without_the_right_names_no_files(world: World) -> None:
    with ManagementClient(world.router.url) as client:
        port = free_port()
        client.create("listener", {"host": "127.0.0.1", "port": str(port)}, name="no files")
        try:
            with ManagementClient(f"amqp://127.0.0.1:{port}") as other, pytest.raises(ManagementError) as raised:
                other.update({"crlFile": str(world.crl) + "2"}, "sslProfile", name="tls")
        finally:
            client.delete("listener", name="no files")
    assert raised.value.status == 400
    assert "only taken from the configuration file" in str(raised.value)
