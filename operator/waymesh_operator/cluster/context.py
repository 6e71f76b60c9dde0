"""Facts from outside the resources on which the desired state of a cluster depends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Router
from waymesh_operator.router_entities.credentials import SecretData
from waymesh_operator.tls.rollover import MeshTls, TlsRequest

MESH_PORT, MANAGEMENT_PORT, LOCAL_PORT, HTTP_PORT = 55671, 55672, 55673, 9090
"""Ports of every router pod. LOCAL_PORT is management without TLS, on the pod's loopback only."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """What the operator was started with."""

    router_image: str
    image_pull_policy: str = "IfNotPresent"
    cluster_domain: str = "cluster.local"
    operator_labels: Mapping[str, str] = field(default_factory=lambda: {"app.kubernetes.io/name": "waymesh-operator"})
    """Labels of the operator's own pods: they may reach the management port."""
    operator_namespace: str = ""
    """Namespace of the operator's own pods; without one no pod may reach the management port."""


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """What there is already and outside our hands.

    `secrets` has an entry for each name of `referenced_secrets`, None for one that does not exist. `tls` is None when
    cert-manager issues. `size_now` and `image_now` are replicas and router image of the live StatefulSet, if any:
    routers leave one by one, and a new default image does not restart what runs. `cert_manager` tells whether its API
    exists. `claims` has the access modes of the claim that the export names, None when it does not exist. `pod_now` is
    the pod specification of the live StatefulSet, `restarted_at` when a person had its pods restarted. Where somebody
    has deleted the StatefulSet they are those of its pods, so that the next one takes these over as they are.
    """

    settings: OperatorSettings
    secrets: Mapping[str, SecretData | None] = field(default_factory=dict)
    tls: MeshTls | None = None
    size_now: int | None = None
    image_now: str = ""
    cert_manager: bool = False
    claims: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    pod_now: Mapping[str, Any] = field(default_factory=dict)
    restarted_at: str = ""


def referenced_secrets(resources: Resources) -> frozenset[str]:
    """Names of the Secrets, in the Router's namespace, that the resources refer to."""
    names = {listener.users for listener in resources.router.listeners}
    names |= {resources.router.telemetry.s3.secret} if resources.router.telemetry.s3 else set()
    for broker in resources.brokers:
        names |= {broker.secret, broker.tls.ca_secret if broker.tls else ""}
    return frozenset(names - {""})


def tls_request(router: Router, settings: OperatorSettings) -> TlsRequest | None:
    """What to ask of `certificates.next_tls`; None when cert-manager issues the certificates."""
    if router.tls.issuer != "Internal":
        return None
    return TlsRequest(router.ref.name, router.ref.namespace, settings.cluster_domain, router.tls.authority)
