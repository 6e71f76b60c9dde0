"""Listeners with `peerNames` accept only clients whose certificate has one of the names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.waiting import wait_until
from tests.unit.runtime.fakes import Running
from tests.unit.runtime.test_runtime_tls import dial, dial_plain, echo, profile, refused, tls_listener
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.peer_names import matches, refused_name

MESH = "*.mesh-mesh.ns.svc"


def listening(host: Running, authority: Authority, server: KeyPair, **more: Any) -> int:
    return tls_listener(host, profile(authority, server), peerNames=f"other.svc {MESH}", **more)


@pytest.mark.engine_independent
@pytest.mark.parametrize(
    ("pattern", "name", "same"),
    [
        ("a.b.svc", "a.b.svc", True),
        ("a.b.svc", "A.B.SVC", True),
        ("*.b.svc", "a.b.svc", True),
        ("*.b.svc", "*.b.svc", True),
        ("*.b.svc", "b.svc", False),
        ("*.b.svc", "x.a.b.svc", False),
        ("*.b.svc", "*.a.b.svc", False),
        ("*.b.svc", ".b.svc", False),
        ("*.b.svc", "*.svc", False),
        ("*.b.svc", "xb.svc", False),
        ("a.b.svc", "*.b.svc", False),
        ("a.b.svc", "a.b.svc.evil", False),
        ("*", "a", False),
    ],
)
def test_what_a_pattern_means(pattern: str, name: str, same: bool) -> None:
    assert matches(pattern, name) == same


@pytest.mark.engine_independent
def test_only_dns_names_count_and_the_refusal_tells_them() -> None:
    certificate = {"subject": ((("commonName", "a.svc"),),), "subjectAltName": (("URI", "a.svc"), ("DNS", "b.svc"))}
    assert refused_name("b.svc", certificate) is None
    assert refused_name("a.svc", certificate) == "the certificate of the peer has b.svc; expected a.svc"
    assert "no DNS name" in (refused_name("a.svc", {}) or "")
    assert "no DNS name" in (refused_name("a.svc", None) or "")


@pytest.mark.parametrize("name", ["mesh-0.mesh-mesh.ns.svc", MESH, "other.svc"])
def test_a_client_with_one_of_the_names_comes_in(
    host: Running, authority: Authority, server: KeyPair, name: str
) -> None:
    port = listening(host, authority, server)
    with dial(port, authority, authority.issue("peer", {"CN": "peer"}, ("x", name))) as sock:
        assert echo(sock, b"x\n") == b"x\n"


@pytest.mark.parametrize("names", [("mesh-0.mesh-mesh.other.svc", "*.ns.svc"), ()])
def test_a_client_of_the_same_authority_without_the_name_is_refused_and_logged(
    host: Running, authority: Authority, server: KeyPair, names: tuple[str, ...]
) -> None:
    port = listening(host, authority, server, saslMechanisms="ANONYMOUS PLAIN")
    assert refused(dial(port, authority, authority.issue("stranger", {"CN": "mesh-0.mesh-mesh.ns.svc"}, names)))
    shown = " ".join(names) or "no DNS name"
    wait_until(lambda: f"the certificate of the peer has {shown}; expected other.svc {MESH}" in host.log_text())
    assert not host.router.connections


def test_a_client_without_a_certificate_or_without_tls_is_refused(
    host: Running, authority: Authority, server: KeyPair
) -> None:
    port = listening(host, authority, server, saslMechanisms="ANONYMOUS", requireSsl=False)
    assert refused(dial(port, authority))
    with dial_plain(port) as sock:
        sock.sendall(b"AMQP\x00\x01\x00\x00")
        assert refused(sock)
    wait_until(lambda: "the client does not use TLS" in host.log_text())
    assert not host.router.connections


def test_names_without_tls_or_without_authorities_are_refused(
    host: Running, authority: Authority, server: KeyPair
) -> None:
    with pytest.raises(HostError, match="peerNames: needs an sslProfile"):
        host.listen(peerNames=MESH)
    host.call(host.host.ssl_profile, profile(authority, server, caCertFile=None))
    with pytest.raises(HostError, match="caCertFile: is needed to verify client certificates"):
        host.listen(peerNames=MESH, sslProfile="p")
