"""Objects that a Router owns (Services, NetworkPolicy, PodDisruptionBudget, Secrets, the seed ConfigMap, cert-manager's
Certificates and Issuers), and their common metadata."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waymesh_operator.planning.manifests import Manifest, marked
from waymesh_operator.planning.mesh import SHARED_FILE, SHARED_FILES, shared_seed
from waymesh_operator.planning.parts import CREDENTIALS_SUFFIX
from waymesh_operator.resources.listener import app_protocol
from waymesh_operator.resources.router import Router
from waymesh_operator.router_entities.credentials import SecretData
from waymesh_operator.tls.rollover import MeshTls, TlsRequest

from .context import HTTP_PORT, MANAGEMENT_PORT, MESH_PORT, OperatorSettings

ROUTER_LABEL = "waymesh.io/router"
RESTARTED_ANNOTATION = "kubectl.kubernetes.io/restartedAt"
"""Annotation of the pod template that `kubectl rollout restart` sets."""
API_VERSION = "waymesh.io/v1alpha1"


def selector_of(router: str) -> dict[str, str]:
    """Return the labels that select the pods of a Router. They never change: a StatefulSet's selector is immutable."""
    return {"app.kubernetes.io/name": "waymesh-router", ROUTER_LABEL: router}


def labels_of(router: str) -> dict[str, str]:
    """Return the labels of every object and pod of a Router."""
    return {
        **selector_of(router),
        "app.kubernetes.io/instance": router,
        "app.kubernetes.io/managed-by": "waymesh-operator",
    }


def make(router: Router, api_version: str, kind: str, suffix: str, body: Mapping[str, Any]) -> Manifest:
    """Build an object named `<router><suffix>` that the Router owns; `body` is everything except kind and metadata."""
    metadata: dict[str, Any] = {
        "name": router.ref.name + suffix,
        "namespace": router.ref.namespace,
        "labels": labels_of(router.ref.name),
    }
    if router.uid:
        metadata["ownerReferences"] = [_owner(router)]
    return marked({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})


def _owner(router: Router) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Router",
        "name": router.ref.name,
        "uid": router.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Label that every namespace has: its name."""


def mesh_service(router: Router) -> Manifest:
    """Return the headless Service for connections between routers. It includes routers that are not ready, otherwise a
    mesh could not form."""
    ports = [port_entry("mesh", MESH_PORT), port_entry("management", MANAGEMENT_PORT)]
    spec = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector_of(router.ref.name),
        "ports": ports,
    }
    return make(router, "v1", "Service", "-mesh", {"spec": spec})


def client_service(router: Router) -> Manifest | None:
    """Return the Service for clients; None if the Router has no listeners."""
    if not router.listeners:
        return None
    ports = [
        port_entry(listener.name, listener.port) | {"appProtocol": app_protocol(listener.http, tls=listener.tls)}
        for listener in router.listeners
    ]
    spec = {"type": "ClusterIP", "selector": selector_of(router.ref.name), "ports": ports}
    return make(router, "v1", "Service", "", {"spec": spec})


def metrics_service(router: Router) -> Manifest:
    """Return the Service for metrics. It includes routers that are not ready."""
    spec = {
        "type": "ClusterIP",
        "publishNotReadyAddresses": True,
        "selector": selector_of(router.ref.name),
        "ports": [port_entry("http", HTTP_PORT)],
    }
    return make(router, "v1", "Service", "-metrics", {"spec": spec})


def disruption_budget(router: Router) -> Manifest:
    """Return the PodDisruptionBudget: one router may be evicted at a time, and one that is not ready at any time: its
    node could not be drained otherwise."""
    chosen = {"matchLabels": selector_of(router.ref.name)}
    spec = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": chosen}
    return make(router, "policy/v1", "PodDisruptionBudget", "", {"spec": spec})


def network_policy(router: Router, settings: OperatorSettings) -> Manifest:
    """Return the NetworkPolicy: routers may connect to the mesh port, the operator to management, everyone to the other
    ports, but to a listener with `networkPolicyPeers` only these peers."""
    own = {"matchLabels": selector_of(router.ref.name)}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: settings.operator_namespace}},
        "podSelector": {"matchLabels": dict(settings.operator_labels)},
    }
    management = [{"from": [operator], "ports": [_tcp(MANAGEMENT_PORT)]}] if settings.operator_namespace else []
    open_ = [listener.port for listener in router.listeners if not listener.network_peers]
    limited = [listener for listener in router.listeners if listener.network_peers]
    rules: list[dict[str, Any]] = [
        {"from": [{"podSelector": own}], "ports": [_tcp(MESH_PORT)]},
        *management,
        {"ports": [_tcp(port) for port in (HTTP_PORT, *open_)]},
        *({"from": list(listener.network_peers), "ports": [_tcp(listener.port)]} for listener in limited),
    ]
    spec = {"podSelector": own, "policyTypes": ["Ingress"], "ingress": rules}
    return make(router, "networking.k8s.io/v1", "NetworkPolicy", "", {"spec": spec})


def operator_namespace(policy: Mapping[str, Any]) -> str:
    """Return the operator's namespace from a NetworkPolicy that it created; empty if it does not exist."""
    rules = policy.get("spec", {}).get("ingress") or ()
    of_management = (rule for rule in rules if _tcp(MANAGEMENT_PORT) in (rule.get("ports") or ()))
    peers = (peer for rule in of_management for peer in rule.get("from") or ())
    labels = ((peer.get("namespaceSelector") or {}).get("matchLabels") or {} for peer in peers)
    return next((str(found[NAMESPACE_LABEL]) for found in labels if NAMESPACE_LABEL in found), "")


def port_entry(name: str, number: int) -> dict[str, Any]:
    """Return a port of a Service, with the same number as in its pods."""
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}


def _tcp(number: int) -> dict[str, Any]:
    return {"port": number, "protocol": "TCP"}


LIMIT_BYTES = 1 << 20
"""Maximum size of a ConfigMap's or Secret's contents in the API server."""


LIVE_KEY = "live"
"""Key of what routers get only while they run: no pod boots with it, but a change of it is one of the configuration."""


NOTHING = shared_seed(())
"""The content of a file of shared entities that is not needed."""


def seed_name(router: str, number: int) -> str:
    """Return the name of a ConfigMap with seeds; `number` is 1 for the first one, which every mesh has."""
    return f"{router}-seed" if number == 1 else f"{router}-seed-{number}"


def seed_config_maps(
    router: Router, shared: Sequence[bytes], own: Mapping[str, str], live: str = "", *, several: bool = False
) -> list[Manifest]:
    """Return the ConfigMaps with the pods' boot configuration: one for each of the files `shared`; `own` by router id.
    `live`: see LIVE_KEY. `several`: pods read all SHARED_FILES, so that each must exist. The files that are not needed
    are in the first ConfigMap; the volume of a pod shows those of later ConfigMaps in their place."""
    files = dict.fromkeys(SHARED_FILES[1:], NOTHING) if several else {}
    data = {f"{name}.json": text for name, text in own.items()} | ({LIVE_KEY: live} if live else {})
    contents: list[dict[str, Any]] = [{"binaryData": _packed(files | {SHARED_FILE: shared[0]}), "data": data}]
    contents += [{"binaryData": _packed({name: file})} for name, file in zip(SHARED_FILES[1:], shared[1:])]
    found = enumerate(contents, 1)
    return [make(router, "v1", "ConfigMap", seed_name("", number), content) for number, content in found]


def _packed(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(data).decode() for name, data in files.items()}


def seed_bytes(config_map: Manifest) -> int:
    """Return the part of the limit that a ConfigMap uses, in bytes."""
    packed, texts = config_map.get("binaryData", {}).values(), config_map.get("data", {}).values()
    return sum(len(text) * 3 // 4 for text in packed) + sum(len(text.encode()) for text in texts)


def seeds_now(router: str, objects: Iterable[tuple[str, str, str]]) -> int:
    """Return the number of the last ConfigMap with seeds among the objects of a mesh, (kind, namespace, name) each."""
    names = {name for kind, _, name in objects if kind == "ConfigMap"}
    return max((number for number in range(1, len(SHARED_FILES) + 1) if seed_name(router, number) in names), default=1)


def tls_secrets(router: Router, tls: MeshTls) -> list[Manifest]:
    """Return the Secrets of the authority and of the routers' and operator's certificates. The authority comes first:
    it holds the state."""
    return [
        _secret(router, name.removeprefix(router.ref.name), data) for name, data in tls.secrets(router.ref.name).items()
    ]


def credentials_secret(router: Router, data: SecretData) -> Manifest:
    """Return the Secret with users of listeners, and credentials for brokers."""
    return _secret(router, CREDENTIALS_SUFFIX, data)


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
