"""One router with all kinds of TLS listeners, all kinds of client certificates, and who gets in with which."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.raw_client import SASL, Ended, RawClient
from tests.interop.shared import fresh
from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from waymesh_amqp.sasl import make_line
from waymesh_client.management import ManagementClient

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


def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fixture: the router of a module."""
    folder = tmp_path_factory.mktemp("matrix")
    authorities = {}
    for name, common_name in (("own", "Test CA"), ("foreign", "Foreign CA"), ("impostor", "Test CA")):
        (folder / name).mkdir()
        authorities[name] = Authority(folder / name, common_name)
    own = authorities["own"]
    server = own.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    pairs = {name: own.issue(name, {"CN": "worker"}) for name in ("good", "revoked")}
    pairs["ended"] = own.issue("ended", {"CN": "worker"}, lasts_s=-60)
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


@dataclass(frozen=True)
class Login:
    """An attempt to log in by a client program: what it takes, and what comes of it."""

    arguments: dict[str, str]
    gets_in: bool


def logins(world: World, listeners: Iterable[str] = LISTENERS) -> list[Login]:
    """Certificates and mechanisms at the listeners that client libraries can ask for, and clients without TLS."""
    found = []
    for listener in listeners:
        for certificate in CERTIFICATES:
            for login, (mechanism, *_) in LOGINS.items():
                if mechanism.startswith("SCRAM") or (mechanism == "EXTERNAL" and certificate is None):
                    continue  # some libraries do not have it, or do not even try
                gets_in = expected(listener, certificate, login) != REFUSED
                found.append(_login(world, "amqps", listener, certificate, login, gets_in))
        for login in ("ANONYMOUS", "PLAIN"):
            found.append(_login(world, "amqp", listener, None, login, False))
    found.append(_login(world, "amqp", "plain", None, "ANONYMOUS", True))
    return found


def _login(world: World, scheme: str, listener: str, certificate: str | None, login: str, gets_in: bool) -> Login:
    mechanism, user, password = LOGINS[login]
    arguments = {"name": f"{login} with {certificate} by {scheme} at {listener}", "mechanism": mechanism}
    arguments |= {"url": f"{scheme}://127.0.0.1:{world.ports[listener]}", "user": user, "password": password}
    pair = world.pair(certificate)
    if pair is not None:
        arguments |= {"cert": str(pair.cert), "key": str(pair.key)}
    return Login(arguments, gets_in)
