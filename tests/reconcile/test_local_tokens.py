"""`waymesh up` with a listener for bearer tokens: certificate and keys come from Secrets in the manifests."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.interop.raw_client import SASL, RawClient
from tests.kit.certificates import Authority
from tests.kit.local_mode import Up, mesh_up
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from waymesh_operator.errors import ManifestError
from waymesh_operator.places.local.manifest_files import ManifestFiles

pytestmark = pytest.mark.e2e

MESH = {
    "apiVersion": "waymesh.io/v1alpha1",
    "kind": "Router",
    "metadata": {"name": "mesh"},
    "spec": {
        "role": "standalone",
        "tokenProfiles": [
            {"name": "own", "issuer": ISSUER, "audience": AUDIENCE, "keysSecretRef": {"name": "keys"}},
        ],
        "listeners": [
            {
                "name": "amqp", "port": 5671, "tls": True, "auth": "token", "tokenProfile": "own",
                "certificate": {"secretRef": {"name": "tls"}}, "maxLinks": 7,
            }
        ],
        "maxMemory": "2Gi",
        "workerThreads": 2,
    },
}  # fmt: skip


OWN = {"name": "amqps", "port": 5671, "tls": True, "certificate": {"secretRef": {"name": "own"}}}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"listeners": [{**OWN, "certificate": None}]}, "local mode issues no certificates: for TLS"),
        ({"listeners": [OWN]}, "Secret own does not exist"),
        ({"listeners": [{**OWN, "auth": "mtls"}]}, "for auth mtls, set clientAuthorities"),
        (
            {"tokenProfiles": [{"name": "p", "serviceAccounts": {"audience": "a"}}]},
            "there are no ServiceAccounts in local mode; use issuer, audience",
        ),
        (
            {"tokenProfiles": [{"name": "p", "issuer": "i", "audience": "a", "keysSecretRef": {"name": "keys"}}]},
            "tokenProfile p: Secret keys does not exist",
        ),
    ],
)
def test_what_local_mode_cannot_have_is_refused_clearly(tmp_path: Path, spec: dict[str, Any], error: str) -> None:
    (tmp_path / "mesh.yaml").write_text(json.dumps({**MESH, "spec": spec}))
    with pytest.raises(ManifestError, match=error):
        ManifestFiles([tmp_path / "mesh.yaml"]).read()


def secret(name: str, **data: bytes) -> str:
    values = {key.replace("_", "."): value.decode() for key, value in data.items()}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values})


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def up(tmp_path: Path, issuer: Issuer, authority: Authority) -> Iterator[Up]:
    pair = authority.issue("server", {"CN": "server"}, hosts=("127.0.0.1",))
    files = {"tls_crt": Path(pair.cert).read_bytes(), "tls_key": Path(pair.key).read_bytes()}
    text = "\n---\n".join([json.dumps(MESH), secret("keys", keys=issuer.jwks()), secret("tls", **files)])
    with mesh_up(tmp_path, text, "mesh is ready: 1 router") as running:
        yield running


def test_tokens_log_in_and_limits_and_keys_change_live(up: Up, issuer: Issuer, authority: Authority) -> None:
    def outcome(token: str) -> int:
        tls = ssl.create_default_context(cafile=str(authority.cert))
        with RawClient(urlsplit(up.url("mesh-0")).port or 0, tls) as raw:
            raw.send(SASL)
            assert raw.read(8) == SASL
            assert set(raw.expect(SaslMechanisms).sasl_server_mechanisms) == {"OAUTHBEARER", "XOAUTH2"}
            raw.put(SaslInit("XOAUTH2", f"user=alice\x01auth=Bearer {token}\x01\x01".encode()))
            return int(raw.expect(SaslOutcome).code or 0)

    assert (outcome(issuer.token()), outcome(issuer.token(aud="other"))) == (0, 1)
    wait_until(lambda: "amqps://127.0.0.1" in up.text, what="the table that follows the line about readiness")
    before = up.pids()
    with up.client("mesh-0") as client:
        (router,) = client.query("router")
        assert (router["memoryLimit"], router["workerThreads"]) == (2 << 30, 2)
        up.edit('"workerThreads": 2', '"workerThreads": 3')
        (seed,) = up.state.glob("*/mesh-0.json")
        up.wait(lambda: '"workerThreads": 3' in seed.read_text(), "the threads of the next start")
        up.edit('"maxMemory": "2Gi"', '"maxMemory": null')
        up.wait(lambda: client.query("router")[0]["memoryLimit"] != 2 << 30, "the default again")
        up.edit('"maxLinks": 7', '"maxLinks": 9')
        up.wait(lambda: 9 in [row["maxLinks"] for row in client.query("listener")], "the other limit")
        assert client.query("router")[0]["workerThreads"] == 2
    old = issuer.token()
    former = issuer.jwks().decode()
    issuer.published.clear()
    issuer.rotate("second")
    up.edit(json.dumps(former), json.dumps(issuer.jwks().decode()))
    up.wait(lambda: outcome(issuer.token()) == 0, "the new key counts")
    assert outcome(old) == 1
    assert up.pids() == before
