"""Certificates: their content, their renewal, and the replacement of an authority without interruption."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_operator.tls.certificates import (
    Credential,
    expires,
    fingerprint,
    issue,
    issued_by,
    new_ca,
    renewal_due,
    split_pem,
    subject_names,
)
from waymesh_operator.tls.rollover import MeshTls, Phase, TlsRequest, TlsView, next_tls

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = TlsRequest("mesh", "ns")
Secrets = dict[str, Mapping[str, bytes] | None]


def day(number: float) -> datetime:
    return NOW + timedelta(days=number)


class Routers:
    """Routers that have taken over the Secrets as they were at some time."""

    def __init__(self, *names: str) -> None:
        self.loaded: dict[str, Mapping[str, bytes]] = {name: {} for name in names}

    def take(self, secrets: Secrets, *names: str) -> None:
        for name in names or list(self.loaded):
            self.loaded[name] = secrets["mesh-tls"] or {}

    def views(self, tls: MeshTls) -> dict[str, TlsView]:
        """What handshakes with the routers show, the probe tried."""
        found = {}
        for name, data in self.loaded.items():
            shown = fingerprint(data["tls.crt"]) if data else ""
            trusted = split_pem(data.get("ca.crt", b""))
            probe = tls.probe.certificate if tls.probe else b""
            found[name] = TlsView(shown, None, any(issued_by(probe, authority) for authority in trusted))
        return found

    def check(self, tls: MeshTls) -> None:
        """Everybody trusts what everybody shows, and the operator both ways."""
        for data in self.loaded.values():
            for shown in [*(d["tls.crt"] for d in self.loaded.values() if d), tls.operator.certificate]:
                trusted = split_pem(data["ca.crt"])
                assert any(issued_by(shown, authority) for authority in trusted)
            assert any(issued_by(data["tls.crt"], authority) for authority in split_pem(tls.bundle))


def test_an_authority_and_a_leaf_are_what_tls_wants() -> None:
    ca = new_ca("ns/mesh", NOW)
    leaf = issue(ca, "mesh", REQUEST.names, NOW)
    certificate = x509.load_pem_x509_certificate(leaf.certificate)
    assert certificate.public_key().curve.name == "secp256r1"  # type: ignore[union-attr]
    assert (expires(ca.certificate) - NOW, expires(leaf.certificate) - NOW) == (
        timedelta(days=3650),
        timedelta(days=90),
    )
    assert subject_names(leaf.certificate) == {
        "*.mesh-mesh.ns.svc", "*.mesh-mesh.ns.svc.cluster.local", "mesh.ns.svc", "mesh.ns.svc.cluster.local",
        "localhost",
    }  # fmt: skip
    assert issued_by(leaf.certificate, ca.certificate)
    assert not issued_by(leaf.certificate, new_ca("ns/mesh", NOW).certificate)
    assert leaf.whole
    assert not Credential(leaf.certificate, ca.key).whole


@pytest.mark.parametrize("name", ["mesh-3.mesh-mesh.ns.svc", "mesh-63.mesh-mesh.ns.svc.cluster.local"])
def test_a_handshake_in_memory_finds_both_sides_good(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tls")
    ca = new_ca("ns/mesh", datetime.now(UTC))
    leaf = issue(ca, "mesh", REQUEST.names, datetime.now(UTC))
    (folder / "ca").write_bytes(ca.certificate)
    (folder / "both").write_bytes(leaf.certificate + leaf.key)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for side in (server, client):
        side.load_cert_chain(folder / "both")
        side.load_verify_locations(folder / "ca")
    server.verify_mode = ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done: set[int] = set()
    for turn in range(10):
        try:
            ends[turn % 2].do_handshake()
            done.add(turn % 2)
        except ssl.SSLWantReadError:
            continue
    assert done == {0, 1}


def test_renewal_is_due_after_two_thirds() -> None:
    leaf = issue(new_ca("x", NOW), "x", ["x"], NOW)
    assert not renewal_due(leaf.certificate, day(59.9))
    assert renewal_due(leaf.certificate, day(60.1))


def test_what_is_there_and_good_stays() -> None:
    first = next_tls(REQUEST, {}, {}, NOW)
    assert first.phase is Phase.STABLE
    again = next_tls(REQUEST, first.secrets("mesh"), {"mesh-0": TlsView()}, day(10))
    assert again == first


def test_leaves_are_renewed_and_the_authority_stays() -> None:
    first = next_tls(REQUEST, {}, {}, NOW)
    later = next_tls(REQUEST, first.secrets("mesh"), {}, day(61))
    assert later.authority == first.authority
    assert later.leaf != first.leaf
    assert later.operator != first.operator
    assert expires(later.leaf.certificate) == day(151)


@pytest.mark.parametrize(
    "damage",
    [
        {"mesh-tls": None},
        {"mesh-tls": {"ca.crt": b"", "tls.crt": b"no certificate", "tls.key": b"no key"}},
        {"mesh-operator-tls": {}},
    ],
)
def test_a_leaf_that_is_lost_or_broken_is_made_again(damage: Secrets) -> None:
    first = next_tls(REQUEST, {}, {}, NOW)
    mended = next_tls(REQUEST, {**first.secrets("mesh"), **damage}, {}, day(1))
    assert (mended.authority, mended.phase) == (first.authority, Phase.STABLE)
    assert mended.leaf.whole
    assert issued_by(mended.leaf.certificate, first.authority.certificate)
    assert issued_by(mended.operator.certificate, first.authority.certificate)


def test_another_domain_of_the_cluster_means_another_leaf() -> None:
    first = next_tls(REQUEST, {}, {}, NOW)
    moved = next_tls(TlsRequest("mesh", "ns", "example.org"), first.secrets("mesh"), {}, NOW)
    assert "mesh.ns.svc.example.org" in subject_names(moved.leaf.certificate)


def test_a_new_authority_is_trusted_before_it_signs_and_the_old_one_as_long_as_it_is_shown() -> None:
    routers = Routers("mesh-0", "mesh-1")
    tls = next_tls(REQUEST, {}, {}, NOW)
    secrets: Secrets = dict(tls.secrets("mesh"))
    routers.take(secrets)
    asked = TlsRequest("mesh", "ns", authority=2)
    tls = next_tls(asked, secrets, routers.views(tls), day(1))
    secrets = dict(tls.secrets("mesh"))
    old = tls.authority.certificate
    assert (tls.phase, len(split_pem(tls.bundle)), tls.generation) == (Phase.TRUSTING, 2, 1)
    routers.take(secrets, "mesh-0")
    tls = next_tls(asked, secrets, routers.views(tls), day(1))
    assert (tls.phase, tls.message) == (Phase.TRUSTING, "the new authority is not yet trusted by mesh-1")
    routers.take(secrets, "mesh-1")
    tls = next_tls(asked, secrets, routers.views(tls), day(1))
    secrets = dict(tls.secrets("mesh"))
    assert (tls.phase, tls.generation, tls.previous) == (Phase.REISSUED, 2, old)
    assert issued_by(tls.leaf.certificate, tls.authority.certificate)
    routers.take(secrets, "mesh-1")
    tls = next_tls(asked, secrets, routers.views(tls), day(1))
    assert (tls.phase, tls.message) == (Phase.REISSUED, "the new certificate is not yet used by mesh-0")
    routers.take(secrets, "mesh-0")
    tls = next_tls(asked, secrets, routers.views(tls), day(1))
    assert (tls.phase, tls.previous, len(split_pem(tls.bundle))) == (Phase.STABLE, b"", 1)
    assert tls == next_tls(asked, dict(tls.secrets("mesh")), routers.views(tls), day(1))


def test_a_lost_authority_is_followed_by_a_new_one_in_the_same_steps() -> None:
    routers = Routers("mesh-0")
    first = next_tls(REQUEST, {}, {}, NOW)
    routers.take(dict(first.secrets("mesh")))
    secrets: Secrets = {**first.secrets("mesh"), "mesh-ca": None}
    tls = first
    for _ in range(4):
        tls = next_tls(REQUEST, secrets, routers.views(tls), day(1))
        secrets = dict(tls.secrets("mesh"))
        routers.check(tls)
        routers.take(secrets)
        routers.check(tls)
    assert tls.phase is Phase.STABLE
    assert tls.authority.certificate != first.authority.certificate


def test_an_authority_is_replaced_in_time() -> None:
    first = next_tls(REQUEST, {}, {}, NOW)
    assert next_tls(REQUEST, first.secrets("mesh"), {}, day(2400)).phase is Phase.STABLE
    assert next_tls(REQUEST, first.secrets("mesh"), {}, day(2434)).phase is Phase.TRUSTING


def test_a_mesh_without_routers_waits_for_nobody() -> None:
    tls = next_tls(REQUEST, {}, {}, NOW)
    asked = TlsRequest("mesh", "ns", authority=5)
    for _ in range(4):
        tls = next_tls(asked, dict(tls.secrets("mesh")), {}, NOW)
    assert (tls.phase, tls.generation) == (Phase.STABLE, 5)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([1, 2, 3])),
        st.tuples(st.just("take"), st.sampled_from(["mesh-0", "mesh-1"])),
        st.just(("ask", 0)),
        st.just(("wait", 0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_however_slowly_and_brokenly_it_goes_everybody_trusts_everybody(steps: list[tuple[str, object]]) -> None:
    routers = Routers("mesh-0", "mesh-1")
    tls = next_tls(REQUEST, {}, {}, NOW)
    secrets: Secrets = dict(tls.secrets("mesh"))
    routers.take(secrets)
    number, now, used = 1, NOW, tls
    for what, which in steps:
        if what == "ask":
            number += 1
        elif what == "wait":
            now += timedelta(days=25)
        elif what == "take":
            routers.take(secrets, str(which))
        else:  # one turn of the operator, which may end after any of the three Secrets
            wanted = next_tls(TlsRequest("mesh", "ns", authority=number), secrets, routers.views(used), now)
            written = list(wanted.secrets("mesh").items())[: int(str(which))]
            secrets |= dict(written)
            used = wanted if len(written) == 3 else used
        routers.check(used)
