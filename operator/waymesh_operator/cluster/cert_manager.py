"""Objects of cert-manager, for a Router whose certificates it issues. It writes the Secrets in the shape of our own."""

from __future__ import annotations

from typing import Any

from waymesh_operator.resources.model import Router
from waymesh_operator.tls.state import TlsRequest

from .objects import Manifest, labels_of, make

_API = "cert-manager.io/v1"
_OPERATOR = "waymesh-operator"
_AUTHORITY_HOURS, _LEAF_HOURS = 3650 * 24, 90 * 24


def cert_manager_objects(router: Router, cluster_domain: str) -> list[Manifest]:
    """Certificates of the routers and the operator; issuers too, unless the Router names one."""
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
    """An authority of the mesh's own, kept by cert-manager."""
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
