"""Tokens of links between meshes: the authority's record, and the commands that issue and revoke them."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.operator.fake_kube import FakeKube
from waymesh_operator.cli.link import LinkListener, Wanted, _create, _revoke, _rows, _write, link_listener
from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.kube import SECRET
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router_link import TOKEN_KEYS
from waymesh_operator.resources.validation import check_alone
from waymesh_operator.tls.certificates import issued_by, subject_names
from waymesh_operator.tls.link_tokens import LinkAuthority, new_link_authority, read_link_authority

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def revoked_in(data: dict[str, bytes]) -> set[int]:
    found = x509.load_pem_x509_crl(data["ca.crl"])
    assert found.is_signature_valid(x509.load_pem_x509_certificate(data["ca.crt"]).public_key())  # type: ignore[arg-type]
    return {one.serial_number for one in found}


def test_what_is_issued_is_remembered_and_can_be_taken_back() -> None:
    first, made = new_link_authority("north", NOW).issue("south", "north", 30, NOW)
    assert issued_by(made.certificate, first.ca.certificate)
    assert subject_names(made.certificate) == {"south.north.link"}
    again = read_link_authority("links", first.data(NOW))
    assert again == first
    assert revoked_in(first.data(NOW)) == set()
    after = again.revoke("south", NOW + timedelta(days=1))
    assert revoked_in(after.data(NOW)) == {x509.load_pem_x509_certificate(made.certificate).serial_number}
    assert read_link_authority("links", after.data(NOW)) == after
    renewed, _ = after.issue("south", "north", 30, NOW + timedelta(days=2))
    assert len(renewed.issued) == 2


def test_one_valid_token_of_a_name() -> None:
    authority, _ = new_link_authority("north", NOW).issue("south", "north", 30, NOW)
    with pytest.raises(WaymeshError, match="token south exists already"):
        authority.issue("south", "north", 30, NOW + timedelta(days=29))
    authority.issue("south", "north", 30, NOW + timedelta(days=31))
    with pytest.raises(WaymeshError, match="no valid token east; valid are: south"):
        authority.revoke("east", NOW)
    with pytest.raises(WaymeshError, match="no valid token south; valid are: none"):
        authority.revoke("south", NOW + timedelta(days=31))


def test_no_token_outlives_its_authority() -> None:
    with pytest.raises(WaymeshError, match="the authority expires on 2035-12-30: choose fewer days than 365"):
        new_link_authority("north", NOW).issue("south", "north", 365, NOW + timedelta(days=3600))


@pytest.mark.parametrize("change", [{"ca.key": b""}, {"ca.crt": b"x"}, {"tokens.json": b"{"}, {"tokens.json": b"[{}]"}])
def test_a_secret_of_others_is_refused(change: dict[str, bytes]) -> None:
    with pytest.raises(WaymeshError, match="Secret links"):
        read_link_authority("links", new_link_authority("north", NOW).data(NOW) | change)


# ---- the commands
DOOR: dict[str, Any] = {
    "name": "door", "port": 5671, "role": "inter-router",
    "clientAuthorities": {"secretRef": {"name": "links"}, "revocation": True},
}  # fmt: skip


class Cluster:
    """An API server with a Router whose listener takes other routers."""

    def __init__(self, **listener: Any) -> None:
        self.kube = FakeKube()
        self.router = {
            "metadata": {"name": "north", "namespace": "ns"},
            "spec": {"listeners": [{"name": "amqp", "port": 5672, "role": "normal"}, {**DOOR, **listener}]},
            "status": {"listeners": [{"name": "door", "addresses": ["n1:30001", "n2:30001"]}]},
        }
        self.secret("north-tls", {"ca.crt": b"MESH"})

    def secret(self, name: str, data: dict[str, bytes]) -> None:
        coded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"}, "data": coded}
        asyncio.run(self.kube.apply(body))

    def door(self, wanted: str = "", now: datetime = NOW) -> LinkListener:
        return link_listener(self.kube, self.router, wanted, now)

    def create(self, name: str, *addresses: str) -> dict[str, Any]:
        return self.create_for("", name, *addresses)[0]

    def create_for(self, router: str, name: str, *addresses: str) -> list[dict[str, Any]]:
        text = asyncio.run(_create(self.door(), Wanted(name, addresses, 30, router)))
        return list(yaml.safe_load_all(text))

    def stored(self, name: str) -> dict[str, bytes]:
        found = asyncio.run(self.kube.get(SECRET, "ns", name))
        return {key: base64.b64decode(text) for key, text in found["data"].items()}

    def authority(self) -> LinkAuthority:
        return read_link_authority("links", self.stored("links"))


def test_a_token_has_all_that_a_router_link_needs() -> None:
    cluster = Cluster()
    made = cluster.create("south")
    assert (made["kind"], made["type"]) == ("Secret", "waymesh.io/link-token")
    assert made["metadata"] == {"name": "south-north"}
    token = made["stringData"]
    assert set(TOKEN_KEYS) <= set(token)
    assert (token["addresses"], token["mesh"], token["role"]) == ("n1:30001\nn2:30001\n", "north", "inter-router")
    assert token["ca.crt"] == "MESH"
    assert token["expires"] == (NOW + timedelta(days=30)).isoformat()
    assert issued_by(token["tls.crt"].encode(), cluster.authority().ca.certificate)
    assert "PRIVATE" not in str(cluster.authority().issued)
    assert cluster.create("east", "door.example:443")["stringData"]["addresses"] == "door.example:443\n"
    rows = asyncio.run(_rows(cluster.door()))
    assert [(row["name"], row["state"]) for row in rows] == [("south", "valid"), ("east", "valid")]


def test_a_revoked_token_is_in_the_list_that_routers_read() -> None:
    cluster = Cluster(certificate={"secretRef": {"name": "own"}})
    cluster.secret("own", {"ca.crt": b"OWN"})
    assert cluster.create("south")["stringData"]["ca.crt"] == "OWN"
    asyncio.run(_revoke(cluster.door(), "south"))
    assert [one.name for one in cluster.authority().issued if one.revoked] == ["south"]
    assert asyncio.run(_rows(cluster.door()))[0]["state"] == "revoked"
    assert asyncio.run(_rows(cluster.door(now=NOW + timedelta(days=99))))[0]["state"] == "revoked"


def test_the_certificate_of_the_listener_is_made_for_the_addresses_of_its_tokens() -> None:
    cluster = Cluster(certificate={"secretRef": {"name": "door"}})
    token = cluster.create("south", "n1:30001", "[fd00::1]:30001")["stringData"]
    door, authority = cluster.stored("door"), cluster.authority().ca.certificate
    assert token["ca.crt"].encode() == door["ca.crt"] == authority
    assert subject_names(door["tls.crt"]) == {"n1", "fd00::1"}
    assert issued_by(door["tls.crt"], authority)
    usage = x509.load_pem_x509_certificate(door["tls.crt"]).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.SERVER_AUTH]  # nobody can connect with it
    cluster.create("east", "n1:30001")
    assert cluster.stored("door") == door
    cluster.create("west", "door.example:443")
    assert subject_names(cluster.stored("door")["tls.crt"]) == {"n1", "fd00::1", "door.example"}


def test_a_certificate_of_others_is_kept_and_a_missing_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    other = new_link_authority("other", NOW)
    made = other.issue_listener(["*.example", "n1"], NOW)
    cluster = Cluster(certificate={"secretRef": {"name": "own"}})
    own = {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": other.ca.certificate}
    cluster.secret("own", own)
    cluster.create("south", "n1:30001", "door.example:443")
    assert capsys.readouterr().err == ""
    assert cluster.create("east", "n2:30001")["stringData"]["ca.crt"].encode() == other.ca.certificate
    assert "the certificate in Secret own has no name n2" in capsys.readouterr().err
    assert cluster.stored("own") == own


def test_all_that_the_other_mesh_needs_is_in_one_file() -> None:
    secret, link = Cluster(role="edge").create_for("leaf", "leaf")
    assert link["kind"] == "RouterLink"
    assert link["metadata"] == {"name": "leaf-to-north"}
    documents, problems = parse_text(yaml.safe_dump_all([secret, link]), "leaf.yaml")
    assert problems == []
    assert len(check_alone(documents, load_crds(), "ns")) == 1
    assert link["spec"]["tokenSecretRef"] == {"name": secret["metadata"]["name"]}
    assert link["spec"]["role"] == secret["stringData"]["role"] == "edge"


def test_two_commands_at_once_lose_nothing() -> None:
    cluster = Cluster()
    cluster.create("south")
    door = cluster.door()
    stored = asyncio.run(door.read("links"))
    cluster.create("east")
    with pytest.raises(KubeError, match="belongs to another manager"):  # both found no Secret
        asyncio.run(door.keep(new_link_authority("north", NOW), None))
    with pytest.raises(KubeError, match="has been modified"):
        asyncio.run(door.keep(read_link_authority("links", stored.data if stored else {}), stored))
    assert [one.name for one in cluster.authority().issued] == ["south", "east"]


def test_a_token_is_in_a_file_that_nobody_else_can_read(tmp_path: Path) -> None:
    cluster, file = Cluster(), tmp_path / "token.yaml"
    file.write_text("something longer than the token " * 1000)
    file.chmod(0o644)
    _write(file, _create(cluster.door(), Wanted("south", (), 30)))
    assert file.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(file.read_text())["stringData"]["mesh"] == "north"
    with pytest.raises(OSError, match="No such file"):
        _write(tmp_path / "none" / "token.yaml", _create(cluster.door(), Wanted("east", (), 30)))
    assert [one.name for one in cluster.authority().issued] == ["south"]


@pytest.mark.parametrize(
    ("listener", "addresses", "word"),
    [
        ({"clientAuthorities": {"secretRef": {"name": "links"}, "revocation": False}}, (), "set revocation: true"),
        ({"role": "normal"}, (), "for other routers are: none"),
        ({"name": "other"}, (), "no address yet"),
        ({}, ("nowhere",), "'nowhere' is not host:port"),
        ({"peerNames": ["east.north.link"]}, (), "would refuse south.north.link"),
        ({"certificate": {"secretRef": {"name": "own"}}}, (), "Secret own has no ca.crt"),
    ],
)
def test_what_is_missing_is_told_and_nothing_is_issued(
    listener: dict[str, Any], addresses: tuple[str, ...], word: str
) -> None:
    cluster = Cluster(**listener)
    cluster.secret("own", {"tls.crt": b"OWN"})
    with pytest.raises(WaymeshError, match=word.replace("(", r"\(")):
        cluster.create("south", *addresses)
    assert ("Secret", "ns", "links") not in cluster.kube.objects


def test_without_an_authority_nothing_can_be_revoked_or_listed() -> None:
    cluster = Cluster()
    with pytest.raises(WaymeshError, match="Secret links does not exist"):
        asyncio.run(_revoke(cluster.door("door"), "south"))
    assert asyncio.run(_rows(cluster.door())) == []
    with pytest.raises(WaymeshError, match="choose one with --listener"):
        cluster.door("amqp")
