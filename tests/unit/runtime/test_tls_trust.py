"""The peers that an sslProfile trusts: revocation lists, exact certificates, no session resumption, changes while in
use."""

from __future__ import annotations

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
from tests.unit.runtime.test_tls_changes import Volume
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.contexts import TlsProfile


class Trusting:
    """A listener that accepts clients with a certificate of an authority."""

    def __init__(self, host: Running, authority: Authority, server: KeyPair, **more: Any) -> None:
        self.host = host
        self.authority = authority
        self.attrs = {
            "name": "p",
            "caCertFile": str(authority.cert),
            "certFile": str(server.cert),
            "privateKeyFile": str(server.key),
            **more,
        }
        host.call(host.host.ssl_profile, self.attrs)
        self.port = host.listen(sslProfile="p", saslMechanisms="EXTERNAL", requireSsl=True)

    def update(self, **changed: Any) -> None:
        self.host.call(self.host.host.update_ssl_profile, {**self.attrs, **changed})
        self.attrs |= changed

    def context(self, pair: KeyPair | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def dial(self, pair: KeyPair | None) -> ssl.SSLSocket:
        return self.dial_with(self.context(pair))

    def dial_with(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)
        return context.wrap_socket(raw, server_hostname="localhost", session=session)

    def admits(self, pair: KeyPair | None) -> bool:
        try:
            with self.dial(pair) as sock:
                return echoes(sock)
        except (ssl.SSLError, ConnectionError):
            return False


def echoes(sock: ssl.SSLSocket) -> bool:
    try:
        sock.sendall(b"x\n")
        return sock.recv(10) == b"x\n"
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.fixture
def worker(authority: Authority) -> KeyPair:
    return authority.issue("worker", {"CN": "worker"})


@pytest.fixture
def thief(authority: Authority) -> KeyPair:
    return authority.issue("thief", {"CN": "thief"})


def written(path: Path, content: bytes) -> str:
    return str(replace_file(path, content))


# ---- revocation


def test_a_revoked_client_certificate_is_refused(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, thief: KeyPair, tmp_path: Path
) -> None:
    listener = Trusting(host, authority, server, crlFile=written(tmp_path / "crl", authority.revoke(thief)))
    assert listener.admits(worker)
    assert not listener.admits(thief)
    wait_until(lambda: "certificate of the peer: certificate revoked" in host.log_text())


def test_an_ended_revocation_list_denies_everybody(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, tmp_path: Path
) -> None:
    listener = Trusting(host, authority, server, crlFile=written(tmp_path / "crl", authority.revoke(ended=True)))
    assert not listener.admits(worker)
    wait_until(lambda: "certificate of the peer: CRL has expired" in host.log_text())


def test_without_the_list_of_its_authority_a_client_is_refused(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "Other CA")
    listener = Trusting(host, authority, server, crlFile=written(tmp_path / "crl", other.revoke()))
    assert not listener.admits(worker)
    wait_until(lambda: "unable to get certificate CRL" in host.log_text())


def test_a_changed_revocation_list_of_a_volume_acts_on_new_clients_and_open_connections_stay(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, thief: KeyPair, tmp_path: Path
) -> None:
    volume = Volume(tmp_path / "lists")
    volume.put(ca_crl=authority.revoke())
    listener = Trusting(host, authority, server, crlFile=str(volume.path("ca.crl")))
    with listener.dial(thief) as sock:
        assert echoes(sock)
        volume.put(ca_crl=authority.revoke(thief))
        assert not listener.admits(thief)
        assert listener.admits(worker)
        assert echoes(sock)
    volume.put(ca_crl=b"rubbish")
    assert not listener.admits(thief)
    assert listener.admits(worker)
    wait_until(lambda: "the files loaded before stay in use" in host.log_text())


def test_a_connector_refuses_a_revoked_server(
    host: Running, authority: Authority, server: KeyPair, tmp_path: Path
) -> None:
    listener = Trusting(host, authority, server)
    client = {"name": "out", "caCertFile": str(authority.cert), "certFile": str(server.cert)}
    client |= {"privateKeyFile": str(server.key), "crlFile": written(tmp_path / "crl", authority.revoke(server))}
    host.call(host.host.ssl_profile, client)
    host.connect(listener.port, sslProfile="out")
    wait_until(lambda: any("certificate revoked" in reason for _, reason in host.router.failures))
    assert not [name for name, _ in host.router.connections if name == "C"]


@pytest.mark.parametrize("content", ["", "rubbish", "certificate", "certificate and list"])
def test_an_unusable_revocation_list_is_refused(
    authority: Authority, server: KeyPair, worker: KeyPair, tmp_path: Path, content: str
) -> None:
    """A certificate in the file would be trusted, so only lists are allowed."""
    certificate = worker.cert.read_bytes()
    texts = {"certificate": certificate, "certificate and list": certificate + authority.revoke()}
    crl = written(tmp_path / "crl", texts.get(content, content.encode()))
    attrs = {"name": "p", "caCertFile": str(authority.cert), "certFile": str(server.cert)}
    with pytest.raises(HostError, match=r"sslProfile p: crlFile .*crl: "):
        TlsProfile({**attrs, "privateKeyFile": str(server.key), "crlFile": crl}, silent)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_no_session_is_resumed_where_certificates_are_asked_for(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, version: str
) -> None:
    """A resumed session would skip the check of the client's certificate."""
    listener = Trusting(host, authority, server, protocols=version)
    context = listener.context(worker)
    with listener.dial_with(context) as first:
        assert echoes(first)
        session = first.session
    with listener.dial_with(context, session) as second:
        assert echoes(second)
        assert not second.session_reused


# ---- exact certificates


def test_with_peers_only_the_very_certificates_are_trusted(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, thief: KeyPair, tmp_path: Path
) -> None:
    both = written(tmp_path / "peers", worker.cert.read_bytes() + authority.cert.read_bytes())
    listener = Trusting(host, authority, server, peersOnly=True, caCertFile=both)
    assert listener.admits(worker)
    assert not listener.admits(thief), "though its issuer is in the file"
    wait_until(lambda: "is not itself in caCertFile" in host.log_text())
    written(Path(both), thief.cert.read_bytes())
    assert listener.admits(thief)
    assert not listener.admits(worker)


def test_with_peers_only_an_ended_certificate_is_refused(
    host: Running, authority: Authority, server: KeyPair
) -> None:
    late = authority.issue("late", {"CN": "late"}, lasts_s=-60)
    listener = Trusting(host, authority, server, peersOnly=True, caCertFile=str(late.cert))
    assert not listener.admits(late)
    wait_until(lambda: "certificate has expired" in host.log_text())


def test_with_peers_only_a_connector_trusts_the_very_certificate_of_the_server(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair
) -> None:
    listener = Trusting(host, authority, server)
    client = {"name": "out", "certFile": str(worker.cert), "privateKeyFile": str(worker.key), "peersOnly": True}
    host.call(host.host.ssl_profile, {**client, "caCertFile": str(authority.cert)})
    host.connect(listener.port, sslProfile="out")
    wait_until(lambda: any("is not itself in caCertFile" in reason for _, reason in host.router.failures))
    host.call(host.host.update_ssl_profile, {**client, "caCertFile": str(server.cert)})
    wait_until(lambda: "C" in [name for name, _ in host.router.connections])


def test_peers_only_does_not_go_with_authorities_of_a_listener(
    host: Running, authority: Authority, server: KeyPair
) -> None:
    Trusting(host, authority, server, peersOnly=True)
    with pytest.raises(HostError, match="trustedCertsFile: conflicts with peersOnly of sslProfile p"):
        host.listen(name="M", sslProfile="p", saslMechanisms="EXTERNAL", trustedCertsFile=str(authority.cert))


# ---- changes of a profile in use


def test_a_changed_profile_acts_on_the_next_handshake_of_all_its_users(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, tmp_path: Path
) -> None:
    listener = Trusting(host, authority, server)
    with listener.dial(worker) as sock:
        assert sock.version() == "TLSv1.3"
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other", "Other CA")
        stranger = other.issue("stranger", {"CN": "stranger"})
        assert not listener.admits(stranger)
        listener.update(caCertFile=str(other.cert), protocols="TLSv1.2", uidFormat="n")
        assert listener.admits(stranger)
        assert not listener.admits(worker)
        assert host.router.connections[-1][1].peer.external_user == "stranger"
        with listener.dial(stranger) as fresh:
            assert fresh.version() == "TLSv1.2"
        assert echoes(sock), "open connections stay"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"certFile": "/nowhere"}, "certFile: /nowhere: No such file"),
        ({"crlFile": "/nowhere"}, "crlFile: /nowhere: No such file"),
        ({"uidNameMappingFile": "/nowhere"}, "uidNameMappingFile: /nowhere: "),
        ({"uidFormat": "x"}, "uidFormat: 'x'"),
        ({"protocols": "SSLv3"}, "protocols: SSLv3 is not one of"),
        ({"ciphers": "NONE-SUCH"}, "ciphers: no usable cipher"),
        ({"caCertFile": None}, "caCertFile: is needed to verify client certificates"),
        ({"certFile": None}, "certFile: is needed to accept TLS connections"),
    ],
)
def test_a_change_that_is_unusable_for_a_user_changes_nothing(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, changed: dict[str, Any], text: str
) -> None:
    listener = Trusting(host, authority, server)
    with pytest.raises(HostError) as caught:
        listener.update(**changed)
    assert text in str(caught.value)
    assert listener.admits(worker)
    assert not listener.admits(None)
    host.call(host.host.reload)
    assert listener.admits(worker)


def test_a_changed_file_of_display_names_is_read_again(
    host: Running, authority: Authority, server: KeyPair, worker: KeyPair, tmp_path: Path
) -> None:
    names = written(tmp_path / "names.json", b'{"worker": "Ann"}')
    listener = Trusting(host, authority, server, uidFormat="n", uidNameMappingFile=names)
    for name in ("Ann", "Beatrice"):
        written(Path(names), f'{{"worker": "{name}"}}'.encode())
        assert listener.admits(worker)
        assert host.router.connections[-1][1].peer.external_user == name
