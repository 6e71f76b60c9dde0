"""Certificates of running routers are renewed, and their authority is replaced, under load."""

from __future__ import annotations

import base64

from cryptography import x509

from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, Traffic
from tests.kit.waiting import wait_until

ROTATION_S = 300.0


def pem(namespace: Namespace, secret: str, key: str) -> bytes:
    """A value of a Secret."""
    found = namespace.get("Secret", secret) or {}
    return base64.b64decode(found.get("data", {}).get(key, ""))


def test_certificate_renewed_and_authority_rolled_over_under_load(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    mesh = Mesh(namespace).apply(3)
    mesh.converged(3)
    before = mesh.lives()
    traffic = Traffic(namespace, operator_image)
    traffic.receive("receiver-a", "receiver-b")
    traffic.send()

    first = pem(namespace, "mesh-tls", "tls.crt")
    namespace.delete("Secret", "mesh-tls")
    wait_until(lambda: pem(namespace, "mesh-tls", "tls.crt") not in (b"", first), 180, "a new certificate")

    old_authority = pem(namespace, "mesh-ca", "tls.crt")
    namespace.patch("Router", "mesh", {"spec": {"tls": {"authority": 2}}})

    def rolled_over() -> bool:
        trusted = pem(namespace, "mesh-tls", "ca.crt")
        if not trusted:
            return False
        found = x509.load_pem_x509_certificates(trusted)
        return len(found) == 1 and old_authority.strip() not in trusted

    wait_until(rolled_over, ROTATION_S, "only the new authority is trusted")
    # A router that comes new has certificates of the new authority alone, and so have those that it meets.
    mesh.scale(4)
    mesh.converged(4)
    assert {name: mesh.lives()[name] for name in before} == before
    traffic.end().check(at_least=1000)
