"""TLS on listeners and connectors: certificates, client identity, TLS and plain AMQP on one port, reload."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.files import replace_file
from tests.kit.silence import silent
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import Running
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.contexts import TlsProfile, key_password
from waymesh_router.runtime.tls.identity import check_uid_format, read_name_map
from waymesh_router.runtime.tls.transports import AMQP_TLS_HEADER

SUBJECT = {"C": "CZ", "ST": "Moravia", "L": "Brno", "O": "Example", "OU": "Tests", "CN": "worker"}


@pytest.fixture(scope="module")
def worker(authority: Authority) -> KeyPair:
    return authority.issue("worker", SUBJECT)


def profile(authority: Authority, pair: KeyPair | None, **more: Any) -> dict[str, Any]:
    attrs: dict[str, Any] = {"name": "p", "caCertFile": str(authority.cert), **more}
    if pair is not None:
        attrs |= {"certFile": str(pair.cert), "privateKeyFile": str(pair.key)}
    return attrs


def tls_listener(host: Running, attrs: dict[str, Any], **more: Any) -> int:
    host.call(host.host.ssl_profile, attrs)
    return host.listen(sslProfile="p", **more)


def dial_plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), DEADLINE_S)


def dial(
    port: int, authority: Authority, pair: KeyPair | None = None, sock: socket.socket | None = None
) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority.cert))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context.wrap_socket(sock or dial_plain(port), server_hostname="localhost")


def echo(sock: socket.socket, text: bytes) -> bytes:
    sock.sendall(text)
    data = b""
    while len(data) < len(text):
        part = sock.recv(65536)
        if not part:
            break
        data += part
    return data


def refused(sock: socket.socket) -> bool:
    """Whether the peer ends the connection; with TLS 1.3 a client only notices when it reads."""
    with sock:
        try:
            return sock.recv(1) == b""
        except (ConnectionResetError, ssl.SSLError):
            return True


def test_echo_over_tls(host: Running, authority: Authority, server: KeyPair) -> None:
    port = tls_listener(host, profile(authority, server), requireSsl=True)
    with dial(port, authority) as sock:
        assert echo(sock, b"hello\n") == b"hello\n"
    peer = host.router.connections[0][1].peer
    assert peer.tls
    assert peer.tls_proto == "TLSv1.3"
    assert peer.tls_ssf >= 128
    assert peer.tls_cipher is not None
    assert peer.external_user is None
    wait_until(lambda: host.router.losses)


def test_much_data_over_tls(host: Running, authority: Authority, server: KeyPair) -> None:
    """More than one record, one read and the socket buffers can hold."""
    port = tls_listener(host, profile(authority, server))
    text = os.urandom(400_000).replace(b"\n", b"x") + b"\n"
    with dial(port, authority) as sock:
        for _ in range(3):
            assert echo(sock, text) == text
        assert echo(sock, b"bye\n") == b"bye\n"
        assert sock.recv(1) == b""


def test_tls_and_plain_on_one_port(host: Running, authority: Authority, server: KeyPair) -> None:
    port = tls_listener(host, profile(authority, server))
    with dial_plain(port) as sock:
        assert echo(sock, b"A slow plain client\n") == b"A slow plain client\n"
    with dial_plain(port) as sock:
        for byte in b"AMQP\x02\x01\x00":  # not yet distinguishable from a request for TLS
            sock.sendall(bytes([byte]))
        sock.sendall(b"\x09\n")
        assert sock.recv(100) == b"AMQP\x02\x01\x00\x09\n"
    with dial(port, authority) as secured:
        assert echo(secured, b"x\n") == b"x\n"


def test_tls_asked_for_by_an_amqp_header(host: Running, authority: Authority, server: KeyPair) -> None:
    port = tls_listener(host, profile(authority, server), requireSsl=True)
    sock = dial_plain(port)
    assert echo(sock, AMQP_TLS_HEADER) == AMQP_TLS_HEADER
    with dial(port, authority, sock=sock) as secured:
        assert echo(secured, b"x\n") == b"x\n"


def test_plain_client_where_tls_is_required(host: Running, authority: Authority, server: KeyPair) -> None:
    port = tls_listener(host, profile(authority, server), requireSsl=True)
    with dial_plain(port) as sock:
        sock.sendall(b"AMQP\x00\x01\x00\x00")
        assert refused(sock)
    wait_until(lambda: "the client does not use TLS" in host.log_text())
    assert not host.router.connections


@pytest.mark.parametrize(
    ("uid_format", "user"),
    [
        (None, "C=CZ,ST=Moravia,L=Brno,O=Example,OU=Tests,CN=worker"),
        ("n", "worker"),
        ("nou", "worker;Example;Tests"),
        ("csloun", "CZ;Moravia;Brno;Example;Tests;worker"),
    ],
)
def test_client_certificate(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, uid_format: str | None, user: str
) -> None:
    port = tls_listener(host, profile(authority, server, uidFormat=uid_format), saslMechanisms="EXTERNAL")
    with dial(port, authority, worker) as sock:
        echo(sock, b"x\n")
    assert host.router.connections[0][1].peer.external_user == user


def test_fingerprints_and_name_map(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, tmp_path: Path
) -> None:
    encoded = ssl.PEM_cert_to_DER_cert(worker.cert.read_text(encoding="ascii"))
    digests = [hashlib.new(name, encoded).hexdigest() for name in ("sha1", "sha256", "sha512")]
    names = tmp_path / "names.json"
    names.write_text(f'{{"{";".join(digests)}": "friend"}}', encoding="utf-8")
    port = tls_listener(
        host,
        profile(authority, server, uidFormat="125", uidNameMappingFile=str(names)),
        saslMechanisms="EXTERNAL PLAIN",
    )
    with dial(port, authority, worker) as sock:
        echo(sock, b"x\n")
    with dial(port, authority) as sock:  # with PLAIN as an alternative, EXTERNAL is optional
        echo(sock, b"x\n")
    assert [conn.peer.external_user for _, conn in host.router.connections] == ["friend", None]


def test_client_without_a_certificate_is_refused(host: Running, authority: Authority, server: KeyPair) -> None:
    port = tls_listener(host, profile(authority, server), saslMechanisms="EXTERNAL")
    assert refused(dial(port, authority))
    wait_until(lambda: "TLS: PEER_DID_NOT_RETURN_A_CERTIFICATE" in host.log_text())
    assert not host.router.connections


def test_client_certificate_of_a_stranger(host: Running, authority: Authority, server: KeyPair, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "Stranger").issue("client", {"CN": "x"})
    port = tls_listener(host, profile(authority, server), saslMechanisms="EXTERNAL PLAIN")
    assert refused(dial(port, authority, stranger))
    wait_until(lambda: "certificate of the peer" in host.log_text())


def test_slow_handshake_is_cut(host: Running, authority: Authority, server: KeyPair) -> None:
    port = tls_listener(host, profile(authority, server), initialHandshakeTimeoutSeconds=0.1)
    with dial_plain(port) as sock:
        sock.sendall(b"\x16")
        assert sock.recv(1) == b""
    wait_until(lambda: "the handshake took too long" in host.log_text())


def test_connector_over_tls_with_certificate(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair
) -> None:
    port = tls_listener(host, profile(authority, server), saslMechanisms="EXTERNAL")
    host.call(host.host.ssl_profile, {**profile(authority, worker), "name": "client"})
    host.router.greeting = b"hello\n"
    host.connect(port, sslProfile="client")
    wait_until(lambda: len(host.router.connections) == 2)
    peers = {name: conn.peer for name, conn in host.router.connections}
    assert peers["C"].tls
    assert peers["C"].external_user == "CN=localhost"
    assert peers["L"].external_user is not None


@pytest.mark.parametrize(("verify", "works"), [(True, False), (False, True)])
def test_connector_verifies_the_host_name(host: Running, authority: Authority, verify: bool, works: bool) -> None:
    other = authority.issue("other", {"CN": "other"}, ("other.example",))
    port = tls_listener(host, profile(authority, other))
    host.call(host.host.ssl_profile, {**profile(authority, None), "name": "client"})
    host.connect(port, sslProfile="client", verifyHostname=verify)
    if works:
        wait_until(lambda: any(name == "C" for name, _ in host.router.connections))
    else:
        assert "IP address mismatch" in wait_until(lambda: host.router.failures)[0][1]


def test_connector_does_not_trust_strangers(host: Running, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "Stranger").issue("server", {"CN": "x"}, ("127.0.0.1",))
    port = tls_listener(host, profile(authority, stranger))
    host.call(host.host.ssl_profile, {**profile(authority, None), "name": "client"})
    host.connect(port, sslProfile="client")
    assert "certificate of the peer" in wait_until(lambda: host.router.failures)[0][1]


def test_new_certificate_is_used_without_restart(host: Running, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first = authority.issue("server", {"CN": "first"}, ("localhost",))
    port = tls_listener(host, profile(authority, first))
    for name in ("first", "second"):
        if name == "second":
            authority.issue("server", {"CN": "second"}, ("localhost",))
        with dial(port, authority) as sock:
            subject = sock.getpeercert()
            assert subject is not None
            assert subject["subject"] == ((("commonName", name),),)
    replace_file(first.key, b"rubbish")
    with dial(port, authority) as sock:  # the files loaded before stay in use
        assert echo(sock, b"x\n") == b"x\n"
    assert "the files loaded before stay in use" in host.log_text()
    host.call(host.host.reload)
    with dial(port, authority) as sock:
        assert echo(sock, b"x\n") == b"x\n"


def test_key_passwords(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = authority.issue("locked", {"CN": "locked"}, password="a: secret")
    file = tmp_path / "password"
    file.write_text("a: secret\n", encoding="utf-8")
    monkeypatch.setenv("KEY_PASSWORD", "a: secret")
    for form in ("a: secret", "pass:a: secret", "literal:a: secret", "env:KEY_PASSWORD", f"file:{file}"):
        TlsProfile(profile(authority, pair, password=form), silent)
    TlsProfile(profile(authority, pair, passwordFile=str(file)), silent)
    for wrong in ("wrong", None):
        with pytest.raises(HostError, match=r"sslProfile p: certFile .*privateKeyFile"):
            TlsProfile(profile(authority, pair, password=wrong), silent)
    with pytest.raises(HostError, match=r"environment variable NOT_SET_HERE is not set"):
        key_password("p", {"password": "env:NOT_SET_HERE"})


def test_the_error_of_a_password_file_has_no_part_of_the_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    for content, reason in ((b"secret\xd3\n", "not UTF-8 text"), (b"sec\0ret\n", "contains NUL")):
        file.write_bytes(content)
        with pytest.raises(HostError) as refused:
            key_password("p", {"passwordFile": str(file)})
        assert str(refused.value) == f"sslProfile p: passwordFile: {file}: {reason}"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"certFile": "/nowhere/cert.pem"}, "sslProfile p: certFile: /nowhere/cert.pem: No such file or directory"),
        ({"privateKeyFile": "/nowhere/key"}, "sslProfile p: privateKeyFile: /nowhere/key: No such file or directory"),
        (
            {"caCertFile": "/nowhere/ca"},
            "SSL CA configuration failed: sslProfile p: caCertFile: /nowhere/ca: No such file or directory",
        ),
        ({"protocols": "TLSv9"}, "sslProfile p: protocols: TLSv9 is not one of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3"),
        ({"ciphers": "NONE-SUCH"}, "sslProfile p: ciphers: no usable cipher in 'NONE-SUCH'"),
        ({"password": "file:/nowhere/pw"}, "sslProfile p: password: /nowhere/pw: No such file or directory"),
    ],
)
def test_unusable_profiles(authority: Authority, server: KeyPair, change: dict[str, str], text: str) -> None:
    with pytest.raises(HostError) as caught:
        TlsProfile({**profile(authority, server), **change}, silent)
    assert str(caught.value) == text


def test_what_a_listener_needs(authority: Authority, server: KeyPair) -> None:
    with pytest.raises(HostError, match="certFile: is needed"):
        TlsProfile(profile(authority, None), silent).server_context(ssl.CERT_NONE)
    bare = TlsProfile({**profile(authority, server), "caCertFile": None}, silent)
    with pytest.raises(HostError, match="caCertFile: is needed to verify client certificates"):
        bare.server_context(ssl.CERT_REQUIRED)


def test_protocols_and_ciphers(authority: Authority, server: KeyPair) -> None:
    limited = TlsProfile(
        profile(authority, server, protocols="TLSv1.2", ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"), silent
    )
    context = limited.server_context(ssl.CERT_NONE)
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2
    assert "ECDHE-ECDSA-AES256-GCM-SHA384" in {cipher["name"] for cipher in context.get_ciphers()}


@pytest.mark.parametrize("bad", ["x", "nn", "n;o"])
def test_bad_uid_formats(bad: str) -> None:
    with pytest.raises(HostError, match="uidFormat"):
        check_uid_format("p", bad)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_bad_name_maps(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(HostError, match="uidNameMappingFile"):
        read_name_map("p", str(path))
