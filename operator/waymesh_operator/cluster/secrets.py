"""The Secrets and the seed ConfigMap of a Router, and the cert-manager objects if cert-manager writes the Secrets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from waymesh_operator.resources.router import Router
from waymesh_operator.router_entities.credentials import SecretData
from waymesh_operator.tls.rollover import MeshTls, TlsRequest

from .mesh import SHARED_FILE
from .objects import Manifest, labels_of, make

LIMIT_BYTES = 1 << 20
"""Maximum size of a ConfigMap's or Secret's contents in the API server."""


def seed_config_map(router: Router, shared: bytes, own: Mapping[str, str]) -> Manifest:
    """Return the ConfigMap with the pods' boot configuration; `own` by router id."""
    packed = base64.b64encode(shared).decode()
    data = {f"{name}.json": text for name, text in own.items()}
    return make(router, "v1", "ConfigMap", "-seed", {"binaryData": {SHARED_FILE: packed}, "data": data})


def seed_bytes(shared: bytes, own: Mapping[str, str]) -> int:
    """Return the part of the limit that the seeds use, in bytes."""
    return len(shared) + sum(len(text.encode()) for text in own.values())


def tls_secrets(router: Router, tls: MeshTls) -> list[Manifest]:
    """Return the Secrets of the authority and of the routers' and operator's certificates. The authority comes first:
    it holds the state."""
    return [
        _secret(router, name.removeprefix(router.ref.name), data) for name, data in tls.secrets(router.ref.name).items()
    ]


def credentials_secret(router: Router, data: SecretData) -> Manifest:
    """Return the Secret with users of listeners, and credentials for brokers."""
    return _secret(router, "-credentials", data)


def _secret(router: Router, suffix: str, data: SecretData) -> Manifest:
    encoded = {name: base64.b64encode(value).decode() for name, value in sorted(data.items())}
    kind = "kubernetes.io/tls" if "tls.crt" in data else "Opaque"  # the type that cert-manager uses; it is immutable
    return make(router, "v1", "Secret", suffix, {"type": kind, "data": encoded})


_API = "cert-manager.io/v1"
_OPERATOR = "waymesh-operator"
_AUTHORITY_HOURS, _LEAF_HOURS = 3650 * 24, 90 * 24


def cert_manager_objects(router: Router, cluster_domain: str) -> list[Manifest]:
    """Return certificates of the routers and the operator; issuers too, unless the Router names one."""
    name = router.ref.name
    request = TlsRequest(name, router.ref.namespace, cluster_domain)
    chosen = router.tls.issuer_ref
    own = [] if chosen else _own_authority(router)
    issuer = dict(zip(("name", "kind", "group"), chosen)) if chosen else _issuer(f"{name}-ca")
    return [
        *own,
        _certificate(router, "-tls", name, list(request.names), issuer),
        _certificate(router, "-operator-tls", _OPERATOR, list(request.operator_names), issuer),
    ]


def _own_authority(router: Router) -> list[Manifest]:
    """Return the objects for a certificate authority of this mesh, managed by cert-manager."""
    name = router.ref.name
    spec = {
        "isCA": True,
        "commonName": f"{name} authority",
        "secretName": f"{name}-ca",
        "secretTemplate": {"labels": labels_of(name)},
        "duration": f"{_AUTHORITY_HOURS}h",
        "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": _issuer(f"{name}-selfsigned"),
    }
    return [
        make(router, _API, "Issuer", "-selfsigned", {"spec": {"selfSigned": {}}}),
        make(router, _API, "Certificate", "-ca", {"spec": spec}),
        make(router, _API, "Issuer", "-ca", {"spec": {"ca": {"secretName": f"{name}-ca"}}}),
    ]


def _certificate(router: Router, suffix: str, common_name: str, names: list[str], issuer: dict[str, str]) -> Manifest:
    spec: dict[str, Any] = {
        "secretName": router.ref.name + suffix,
        "secretTemplate": {"labels": labels_of(router.ref.name)},
        "commonName": common_name,
        "dnsNames": names,
        "duration": f"{_LEAF_HOURS}h",
        "renewBefore": f"{_LEAF_HOURS // 3}h",
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "usages": ["server auth", "client auth", "digital signature"],
        "issuerRef": issuer,
    }
    return make(router, _API, "Certificate", suffix, {"spec": spec})


def _issuer(name: str) -> dict[str, str]:
    return {"name": name, "kind": "Issuer", "group": "cert-manager.io"}
