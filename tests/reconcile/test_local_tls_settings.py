"""`waymesh up` with tlsProtocols, tlsCiphers and uidFormat of a listener: who may connect, and under which name."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.interop.raw_client import AMQP, SASL, Ended, RawClient
from tests.kit.certificates import Authority
from tests.kit.local_mode import mesh_up
from waymesh_amqp.performatives import Open, SaslInit, SaslMechanisms, SaslOutcome

pytestmark = pytest.mark.e2e

CIPHER = "ECDHE-ECDSA-AES256-GCM-SHA384"


def manifests(authority: Authority, server: Any) -> str:
    """A Router with two listeners: one for TLS 1.2 with one cipher, one for TLS 1.3."""
    shared = {
        "tls": True,
        "auth": "mtls",
        "certificate": {"secretRef": {"name": "own"}},
        "clientAuthorities": {"secretRef": {"name": "ca"}},
    }
    listeners = [
        {"name": "old", "port": 5671, **shared, "tlsProtocols": ["TLSv1.2"], "tlsCiphers": CIPHER, "uidFormat": "on"},
        {"name": "new", "port": 5672, **shared, "tlsProtocols": ["TLSv1.3"]},
    ]
    secrets = {
        "own": {"tls.crt": server.cert.read_text(), "tls.key": server.key.read_text()},
        "ca": {"ca.crt": authority.cert.read_text()},
    }
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": "waymesh.io/v1alpha1",
                "kind": "Router",
                "metadata": {"name": "mesh"},
                "spec": {"listeners": listeners},
            },
            *(
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
                for name, data in secrets.items()
            ),
        ]
    )


def context(authority: Authority, client: Any, version: ssl.TLSVersion, ciphers: str = "DEFAULT") -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority.cert))
    made.minimum_version = made.maximum_version = version
    made.set_ciphers(ciphers)
    made.load_cert_chain(client.cert, client.key)
    return made


def opens(port: int, tls: ssl.SSLContext) -> bool:
    """Whether a client gets in by its certificate."""
    try:
        with RawClient(port, tls=tls) as client:
            client.send(SASL)
            assert client.read(8) == SASL
            assert "EXTERNAL" in client.expect(SaslMechanisms).sasl_server_mechanisms
            client.put(SaslInit(mechanism="EXTERNAL"))
            assert client.expect(SaslOutcome).code == 0
            client.send(AMQP)
            assert client.read(8) == AMQP
            client.put(Open(container_id="c"))
            client.expect(Open)
    except (ssl.SSLError, Ended):
        return False
    return True


def test_versions_ciphers_and_users(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", {"CN": "mesh"}, hosts=("127.0.0.1",))
    client = authority.issue("client", {"CN": "worker", "O": "acme"})
    v12, v13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    with mesh_up(tmp_path, manifests(authority, server), "mesh is ready") as up:
        old, new = (int(up._url("mesh-0", f"listener/{name}").rpartition(":")[2]) for name in ("old", "new"))
        assert opens(old, context(authority, client, v12, CIPHER))
        assert not opens(old, context(authority, client, v12, "ECDHE-ECDSA-AES128-GCM-SHA256"))
        assert not opens(old, context(authority, client, v13))
        assert opens(new, context(authority, client, v13))
        assert not opens(new, context(authority, client, v12))
        (log,) = up.state.glob("*/**/*.log")
        text = log.read_text()
        assert "user=acme;worker " in text
        assert "user=CN=worker,O=acme " in text
