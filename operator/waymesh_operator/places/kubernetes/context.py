"""Facts outside the resources on which the desired state of a cluster depends."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Router
from waymesh_operator.router_entities.credentials import ENTROPY_BYTES, SecretData, listener_keys
from waymesh_operator.router_entities.tokens import UNKNOWN, ServiceAccountKeys, token_secrets
from waymesh_operator.tls.rollover import MeshTls, TlsRequest

MESH_PORT, MANAGEMENT_PORT, LOCAL_PORT, HTTP_PORT = 55671, 55672, 55673, 9090
"""Ports of every router pod. LOCAL_PORT is management without TLS, on the pod's loopback only."""

@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The operator's command-line settings."""

    router_image: str
    image_pull_policy: str = "IfNotPresent"
    cluster_domain: str = "cluster.local"
    # Labels of the operator's pods, which may reach the management port.
    operator_labels: Mapping[str, str] = field(default_factory=lambda: {"app.kubernetes.io/name": "waymesh-operator"})
    # Namespace of the operator's pods; if empty, no pod may reach the management port.
    operator_namespace: str = ""
    # Namespace of the operator's Lease, by which Routers name it; if empty, Routers of other operators count as ours.
    home: str = ""


@dataclass(frozen=True, slots=True)
class RouteApis:
    """The route APIs of the cluster."""

    # apiVersion by kind.
    served: Mapping[str, str] = field(default_factory=dict)
    # Kinds of these that the operator may not list.
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """The present state of the cluster, as far as the desired state depends on it.

    If the StatefulSet was deleted, `image_now`, `pod_now` and `restarted_at` come from its pods, so that
    the next StatefulSet adopts these unchanged.
    """

    settings: OperatorSettings
    # For each name of `referenced_secrets`; None for a Secret that does not exist.
    secrets: Mapping[str, SecretData | None] = field(default_factory=dict)
    # None if cert-manager issues the certificates.
    tls: MeshTls | None = None
    # Replicas of the live StatefulSet: scaling down removes routers step by step.
    size_now: int | None = None
    # Its router image: a new default image does not restart running pods.
    image_now: str = ""
    # Whether the cert-manager API exists.
    cert_manager: bool = False
    # Access modes of the PersistentVolumeClaim that the export names; None if it does not exist.
    claims: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    # The pod specification of the live StatefulSet.
    pod_now: Mapping[str, Any] = field(default_factory=dict)
    # When a person last restarted the pods (`kubectl rollout restart`).
    restarted_at: str = ""
    # The routers' users file, whose keys stay as long as the passwords do; and the source of salts for new keys.
    users_now: bytes = b""
    entropy: bytes = field(default_factory=lambda: os.urandom(ENTROPY_BYTES), repr=False, compare=False)
    # Issuer and keys of ServiceAccount tokens; only read for a Router that accepts such tokens.
    service_accounts: ServiceAccountKeys = UNKNOWN
    # Only read for a Router that has or needs routes.
    routes: RouteApis = field(default_factory=RouteApis)
    # The addresses of each exposure, by its name; only read for listeners with failover lists.
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Number of ConfigMaps with seeds.
    seeds_now: int = 1


def referenced_secrets(resources: Resources) -> frozenset[str]:
    """Return the names of the Secrets, in the Router's namespace, that the resources refer to."""
    names = {listener.users for listener in resources.router.listeners}
    names |= {name for listener in resources.router.listeners for name, _ in listener_keys(listener)}
    names |= token_secrets(resources.router)
    names |= {resources.router.telemetry.s3.secret} if resources.router.telemetry.s3 else set()
    for broker in resources.brokers:
        names |= {broker.secret, broker.tls.ca_secret if broker.tls else ""}
    names |= {link.secret for link in resources.router_links}
    return frozenset(names - {""})


def tls_request(router: Router, settings: OperatorSettings) -> TlsRequest | None:
    """Return the request for `next_tls`; None if cert-manager issues the certificates."""
    if router.tls.issuer != "Internal":
        return None
    return TlsRequest(router.ref.name, router.ref.namespace, settings.cluster_domain, router.tls.authority)
