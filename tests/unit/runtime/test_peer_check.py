"""Peers of open connections are checked again when names or authorities change at listeners with recheckPeers."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.kit.certificates import Authority, KeyPair
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import Running
from tests.unit.runtime.test_tls_changes import Volume
from tests.unit.runtime.test_tls_trust import echoes
from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.chain import covered, roots, subject_of, verified_chain
from waymesh_router.runtime.tls.peer_check import NO_CERTIFICATE, REVOKED, UNTRUSTED
from waymesh_router.runtime.tls.sockets import TlsSocket

ROLE = {"role": "inter-router", "saslMechanisms": "EXTERNAL", "requireSsl": True}


def other_authority(folder: Path, name: str = "Other CA") -> Authority:
    folder.mkdir()
    return Authority(folder, name)


class Door:
    """A listener for other routers whose authorities are in a volume. Closes the connections to it at the end."""

    def __init__(self, host: Running, folder: Path, server: KeyPair, authority: Authority, **attrs: Any) -> None:
        self.host, self.authority = host, authority
        self.volume = Volume(folder / "volume")
        self.trust(authority)
        profile = {
            "name": "p", "caCertFile": str(self.volume.path("ca.crt")), "certFile": str(server.cert),
            "privateKeyFile": str(server.key),
        }  # fmt: skip
        host.call(host.host.ssl_profile, profile)
        self.attrs = {**ROLE, "recheckPeers": True, "sslProfile": "p", **attrs}
        self.port = host.listen(**self.attrs)
        self.open = ExitStack()

    def trust(self, *authorities: Authority) -> None:
        self.volume.put(ca_crt=b"".join(one.cert.read_bytes() for one in authorities))

    def poll(self) -> None:
        self.host.call(self.host.host.poll)

    def update(self, **changed: Any) -> None:
        self.attrs |= changed
        attrs = {"name": "L", "host": "127.0.0.1", "port": str(self.port), **self.attrs}
        self.host.call(self.host.host.update_listener, attrs)

    def dial(self, pair: KeyPair | None) -> ssl.SSLSocket:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        raw = socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)
        sock = self.open.enter_context(context.wrap_socket(raw))
        assert echoes(sock)
        return sock

    def closed(self) -> list[tuple[str, str]]:
        """How connections were closed so far, in the order of their opening."""
        return [conn.closed_with for _, conn in self.host.router.connections if conn.closed_with]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def peer(authority: Authority) -> KeyPair:
    return authority.issue("peer", {"CN": "peer"}, ("south.link",))


@pytest.fixture
def door(host: Running, folder: Path, authority: Authority, server: KeyPair) -> Iterator[Door]:
    door = Door(host, folder, server, authority)
    with door.open:
        yield door


def ended(sock: ssl.SSLSocket, reason: str) -> bool:
    """Whether the listener closes the connection with this reason."""
    sock.settimeout(DEADLINE_S)
    return sock.recv(1000).decode() == f"closed: {reason}\n"


def test_a_peer_whose_authority_is_replaced_is_closed_and_the_others_stay(
    door: Door, folder: Path, authority: Authority, peer: KeyPair
) -> None:
    other = other_authority(folder / "other")
    door.trust(authority, other)
    first, second = door.dial(peer), door.dial(other.issue("second", {"CN": "second"}))
    door.trust(other)
    door.poll()
    assert ended(first, UNTRUSTED)
    assert echoes(second)
    assert door.closed() == [(UNAUTHORIZED_ACCESS, UNTRUSTED)]


def test_a_file_that_is_written_anew_and_an_unusable_one_close_nothing(
    door: Door, authority: Authority, peer: KeyPair
) -> None:
    sock = door.dial(peer)
    door.trust(authority)
    door.poll()
    door.volume.put(ca_crt=b"rubbish")
    door.poll()
    wait_until(lambda: "the files loaded before stay in use" in door.host.log_text())
    assert echoes(sock)
    assert not door.closed()


def test_changed_names_close_open_connections_and_new_ones_must_have_them(
    door: Door, authority: Authority, peer: KeyPair
) -> None:
    other = authority.issue("other", {"CN": "other"}, ("west.link",))
    first, second = door.dial(peer), door.dial(other)
    door.update(peerNames="*.link")
    assert echoes(first)
    assert echoes(second)
    door.update(peerNames="west.link")
    reason = "the certificate of the peer has south.link; expected west.link"
    assert ended(first, reason)
    assert echoes(second)
    assert door.closed() == [(UNAUTHORIZED_ACCESS, reason)]
    with pytest.raises((OSError, AssertionError)):
        door.dial(peer)
    door.update(peerNames=None)
    door.dial(peer)


def test_a_listener_that_was_deleted_and_made_again_checks_the_connections_of_the_former(
    door: Door, peer: KeyPair
) -> None:
    sock = door.dial(peer)
    door.host.call(door.host.host.unlisten, "L")
    assert echoes(sock)
    door.port = door.host.listen(**door.attrs, peerNames="west.link")
    assert ended(sock, "the certificate of the peer has south.link; expected west.link")


def test_without_recheck_open_connections_stay(door: Door, folder: Path, peer: KeyPair) -> None:
    door.update(recheckPeers=False)
    sock = door.dial(peer)
    door.trust(other_authority(folder / "other"))
    door.poll()
    door.update(peerNames="west.link")
    assert echoes(sock)
    door.update(recheckPeers=True)
    assert ended(sock, UNTRUSTED)


def test_a_client_without_a_certificate_ends_when_one_is_required(
    host: Running, folder: Path, authority: Authority, server: KeyPair
) -> None:
    door = Door(host, folder, server, authority, saslMechanisms="EXTERNAL ANONYMOUS")
    with door.open:
        sock = door.dial(None)
        door.update(saslMechanisms="EXTERNAL")  # not by management, which would create a new listener
        assert ended(sock, NO_CERTIFICATE)


def test_a_changed_profile_checks_open_connections_and_a_revocation_ends_a_router_as_before(
    door: Door, folder: Path, authority: Authority, server: KeyPair, peer: KeyPair
) -> None:
    sock = door.dial(peer)
    revoked = folder / "crl.pem"
    revoked.write_bytes(authority.revoke(peer))
    profile = {
        "name": "p", "caCertFile": str(authority.cert), "certFile": str(server.cert),
        "privateKeyFile": str(server.key),
    }  # fmt: skip
    door.host.call(door.host.host.update_ssl_profile, profile)
    assert echoes(sock)
    door.host.call(door.host.host.update_ssl_profile, {**profile, "crlFile": str(revoked)})
    assert ended(sock, REVOKED)
    other = other_authority(folder / "other")
    stranger = other.issue("stranger", {"CN": "stranger"})
    door.host.call(door.host.host.update_ssl_profile, {**profile, "caCertFile": str(other.cert)})
    second = door.dial(stranger)
    door.host.call(door.host.host.update_ssl_profile, profile)
    assert ended(second, UNTRUSTED)


def test_of_exact_certificates_the_one_that_left_the_file_ends(
    host: Running, folder: Path, authority: Authority, server: KeyPair, peer: KeyPair
) -> None:
    door = Door(host, folder, server, authority)
    other = authority.issue("other", {"CN": "other"})
    both = peer.cert.read_bytes() + other.cert.read_bytes()
    with door.open:
        exact = {
            "name": "p", "caCertFile": str(door.volume.path("ca.crt")), "certFile": str(server.cert),
            "privateKeyFile": str(server.key), "peersOnly": True,
        }  # fmt: skip
        door.volume.put(ca_crt=both)
        host.call(host.host.update_ssl_profile, exact)
        first, second = door.dial(peer), door.dial(other)
        door.volume.put(ca_crt=other.cert.read_bytes())
        door.poll()
        assert ended(first, "the certificate of the peer is not itself in caCertFile, which peersOnly requires")
        assert echoes(second)


@pytest.mark.parametrize(("attrs", "text"), [
    ({}, "recheckPeers: needs an sslProfile"),
    ({"sslProfile": "p", "saslMechanisms": "ANONYMOUS"}, "recheckPeers: needs client certificates"),
])  # fmt: skip
def test_without_certificates_there_is_nothing_to_check(
    door: Door, attrs: dict[str, str], text: str
) -> None:
    with pytest.raises(HostError, match=text):
        door.host.listen(name="M", recheckPeers=True, **attrs)


def test_a_handshake_that_began_before_the_change_is_refused(
    door: Door, folder: Path, peer: KeyPair
) -> None:
    """The former authorities would accept it after the check of the open connections."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(peer.cert, peer.key)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    with socket.create_connection(("127.0.0.1", door.port), DEADLINE_S) as raw:
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        raw.sendall(outgoing.read())
        incoming.write(raw.recv(65536))  # the server's part: it waits for the certificate
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                incoming.write(raw.recv(65536))
        door.trust(other_authority(folder / "other"))
        door.poll()
        raw.sendall(outgoing.read())
        wait_until(lambda: "the sslProfile changed during the handshake" in door.host.log_text())
    assert not door.host.router.connections


# ---- chains


def certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, ca: bool
) -> bytes:
    """A certificate in DER."""
    now = datetime.datetime.now(datetime.UTC)
    by, of = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (issuer, name))
    end = now + datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(by, of, key.public_key(), x509.random_serial_number(), now, end)
    builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.engine_independent
def test_a_chain_is_covered_by_a_root_with_the_same_name_and_key() -> None:
    root, middle, leaf, foreign = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
    own = certificate("root", root, "root", root, True)
    chain = [
        certificate("leaf", leaf, "middle", middle, False), certificate("middle", middle, "root", root, True), own
    ]  # fmt: skip
    renewed = certificate("root", root, "root", root, True)
    assert renewed != own
    assert subject_of(renewed) == subject_of(own)
    assert covered(chain, roots([renewed]))
    assert covered(chain, roots([certificate("x", foreign, "x", foreign, True), own]))
    assert not covered(chain, roots([certificate("root", foreign, "root", foreign, True)])), "another key"
    assert not covered(chain, roots([chain[1]])), "one that does not sign itself is no end of a chain"
    assert covered(chain, roots([certificate("middle", middle, "middle", middle, True)]))
    assert not covered(chain, roots([]))


def test_the_verified_chain_of_a_peer(door: Door, authority: Authority, peer: KeyPair) -> None:
    door.dial(peer)
    (io,) = door.host.host._connections.values()
    assert isinstance(io.sock, TlsSocket)
    found = door.host.call(verified_chain, io.sock.tls)
    pair = (peer.cert, authority.cert)
    assert found == [ssl.PEM_cert_to_DER_cert(path.read_text(encoding="ascii")) for path in pair]
