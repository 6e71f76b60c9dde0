"""A listener selects the sslProfile by the host that a TLS client requests (SNI), with all of its settings."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import Running
from tests.unit.runtime.test_tls_changes import Volume
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.transports import AMQP_TLS_HEADER

BY_HOST = {"orders.example": "orders", "*.shop.example": "shop", "till.shop.example": "till"}


class Hosts:
    """A listener with the profiles default, orders, shop and till, each with its own authority and certificate."""

    def __init__(self, host: Running, folder: Path, **listener: Any) -> None:
        self.host = host
        self.authorities: dict[str, Authority] = {}
        for name in ("default", "orders", "shop", "till"):
            (folder / name).mkdir()
            self.authorities[name] = Authority(folder / name, f"CA {name}")
            self.renew(name, name)
            host.call(host.host.ssl_profile, self.attrs(name))
        self.port = host.listen(sslProfile="default", sslProfilesByHost=BY_HOST, **listener)

    def renew(self, name: str, common_name: str) -> KeyPair:
        return self.authorities[name].issue("server", {"CN": common_name}, ("orders.example",))

    def attrs(self, name: str, **more: Any) -> dict[str, Any]:
        authority = self.authorities[name]
        files = {"certFile": authority.folder / "server.pem", "privateKeyFile": authority.folder / "server.key"}
        return {"name": name, "caCertFile": str(authority.cert), **{k: str(v) for k, v in files.items()}, **more}

    def context(self, pair: KeyPair | None = None) -> ssl.SSLContext:
        """A client that trusts all four authorities."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        for authority in self.authorities.values():
            context.load_verify_locations(authority.cert)
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def dial(self, asked: str | None, pair: KeyPair | None = None, header: bool = False) -> ssl.SSLSocket:
        """A client that requests this host. `header`: it first requests TLS with an AMQP header."""
        raw = socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)
        if header:
            raw.sendall(AMQP_TLS_HEADER)
            assert raw.recv(8) == AMQP_TLS_HEADER
        return self.context(pair).wrap_socket(raw, server_hostname=asked)

    def shown(self, asked: str | None, **more: Any) -> str:
        with self.dial(asked, **more) as sock:
            sock.sendall(b"x\n")
            assert sock.recv(10) == b"x\n"
            return named(sock)


def in_single_bytes(context: ssl.SSLContext, sock: socket.socket, asked: str) -> ssl.SSLObject:
    """A handshake in which the client sends one byte at a time."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = context.wrap_bio(incoming, outgoing, server_hostname=asked)
    while True:
        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))
            incoming.write(sock.recv(65536))
        else:
            return secured


@pytest.fixture
def hosts(host: Running, tmp_path: Path) -> Hosts:
    return Hosts(host, tmp_path)


@pytest.mark.parametrize(
    ("asked", "profile"),
    [
        ("orders.example", "orders"),
        ("ORDERS.example", "orders"),
        ("a.shop.example", "shop"),
        ("till.shop.example", "till"),
        ("shop.example", "default"),
        ("a.b.shop.example", "default"),
        ("elsewhere.example", "default"),
        (None, "default"),
    ],
)
def test_the_certificate_is_that_of_the_host_asked_for(hosts: Hosts, asked: str | None, profile: str) -> None:
    assert hosts.shown(asked) == profile
    assert hosts.shown(asked, header=True) == profile


def test_plain_clients_come_in_beside_tls(hosts: Hosts) -> None:
    with socket.create_connection(("127.0.0.1", hosts.port), DEADLINE_S) as sock:
        sock.sendall(b"plain\n")
        assert sock.recv(10) == b"plain\n"


def test_a_first_message_in_single_bytes_is_waited_for(hosts: Hosts) -> None:
    with socket.create_connection(("127.0.0.1", hosts.port), DEADLINE_S) as sock:
        assert named(in_single_bytes(hosts.context(), sock, "orders.example")) == "orders"


def test_a_first_message_that_does_not_end_is_cut(host: Running, tmp_path: Path) -> None:
    hosts = Hosts(host, tmp_path, initialHandshakeTimeoutSeconds=1)
    with socket.create_connection(("127.0.0.1", hosts.port), DEADLINE_S) as sock:
        sock.sendall(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff")
        assert ended(sock)
    wait_until(lambda: "the handshake took too long" in host.log_text())


def test_client_certificates_are_those_of_the_host_asked_for(host: Running, tmp_path: Path) -> None:
    hosts = Hosts(host, tmp_path, saslMechanisms="EXTERNAL", requireSsl=True)
    ours = {name: authority.issue("client", {"CN": name}) for name, authority in hosts.authorities.items()}
    assert hosts.shown("orders.example", pair=ours["orders"]) == "orders"
    assert host.router.connections[-1][1].peer.external_user == "CN=orders"
    for wrong in ("default", "shop"):
        assert refused(hosts, "orders.example", ours[wrong])
    assert refused(hosts, None, ours["orders"])
    assert refused(hosts, "orders.example", None)


def test_revocation_versions_and_user_names_are_those_of_the_host_asked_for(host: Running, tmp_path: Path) -> None:
    hosts = Hosts(host, tmp_path, saslMechanisms="EXTERNAL", requireSsl=True)
    orders = hosts.authorities["orders"]
    good, bad = orders.issue("good", {"O": "x", "CN": "good"}), orders.issue("bad", {"CN": "bad"})
    revoked = tmp_path / "orders.crl"
    revoked.write_bytes(orders.revoke(bad))
    changed = hosts.attrs("orders", crlFile=str(revoked), protocols="TLSv1.2", uidFormat="n")
    host.call(host.host.update_ssl_profile, changed)
    with hosts.dial("orders.example", good) as sock:
        assert sock.version() == "TLSv1.2"
    wait_until(lambda: host.router.connections)
    assert host.router.connections[-1][1].peer.external_user == "good"
    assert refused(hosts, "orders.example", bad)
    wait_until(lambda: "certificate revoked" in host.log_text())


def test_a_renewed_certificate_of_a_host_is_shown_and_connections_go_on(hosts: Hosts) -> None:
    with hosts.dial("a.shop.example") as old:
        hosts.renew("shop", "renewed")
        assert hosts.shown("a.shop.example") == "renewed"
        assert hosts.shown("orders.example") == "orders"
        old.sendall(b"still\n")
        assert old.recv(10) == b"still\n"


def test_a_changed_volume_of_a_host_brings_certificate_authority_and_list_at_once(
    host: Running, tmp_path: Path
) -> None:
    hosts = Hosts(host, tmp_path, saslMechanisms="EXTERNAL", requireSsl=True)
    volume = Volume(tmp_path / "volume")

    def put(authority: Authority, *revoked: KeyPair) -> None:
        pair = authority.issue("server", {"CN": authority.folder.name}, ("orders.example",))
        files = {"tls_crt": pair.cert.read_bytes(), "tls_key": pair.key.read_bytes()}
        volume.put(ca_crt=authority.cert.read_bytes(), ca_crl=authority.revoke(*revoked), **files)

    old, new = hosts.authorities["orders"], hosts.authorities["till"]
    of_old, of_new = old.issue("client", {"CN": "old"}), new.issue("client", {"CN": "new"})
    put(old)
    files = {"certFile": "tls.crt", "privateKeyFile": "tls.key", "caCertFile": "ca.crt", "crlFile": "ca.crl"}
    attrs = {name: str(volume.path(path)) for name, path in files.items()}
    host.call(host.host.update_ssl_profile, {"name": "orders", **attrs})
    with hosts.dial("orders.example", of_old) as open_one:
        open_one.sendall(b"x\n")
        assert open_one.recv(10) == b"x\n"
        put(new)
        assert hosts.shown("orders.example", pair=of_new) == "till"
        assert refused(hosts, "orders.example", of_old)
        put(new, of_new)
        assert refused(hosts, "orders.example", of_new)
        open_one.sendall(b"still\n")
        assert open_one.recv(10) == b"still\n"


def test_unknown_and_unusable_profiles_of_hosts_are_refused(host: Running, tmp_path: Path) -> None:
    hosts = Hosts(host, tmp_path)
    with pytest.raises(HostError, match="listener L: sslProfilesByHost: there is no sslProfile nowhere"):
        host.listen(sslProfile="default", sslProfilesByHost={"a.example": "nowhere"})
    host.call(host.host.ssl_profile, {"name": "bare", "caCertFile": str(hosts.authorities["shop"].cert)})
    with pytest.raises(HostError, match="sslProfile bare: certFile: is needed"):
        host.listen(sslProfile="default", sslProfilesByHost={"a.example": "bare"})


def named(sock: ssl.SSLSocket | ssl.SSLObject) -> str:
    """The common name in the server's certificate."""
    certificate: Mapping[str, Any] = sock.getpeercert() or {}
    return str(certificate["subject"][0][0][1])


def ended(sock: socket.socket) -> bool:
    """Whether the server ends the connection; a client that sent more gets a reset."""
    try:
        return sock.recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def refused(hosts: Hosts, asked: str | None, pair: KeyPair | None) -> bool:
    """With TLS 1.3, a client only notices when it reads."""
    try:
        with hosts.dial(asked, pair) as sock:
            return ended(sock)
    except (ssl.SSLError, ConnectionError):
        return True
