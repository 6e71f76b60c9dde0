"""What the desired state of a cluster depends on besides the resources, and what is to be said about each of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.model import Resources, Router
from waymesh_operator.tls.state import MeshTls, TlsRequest

MESH_PORT, MANAGEMENT_PORT, LOCAL_PORT, HTTP_PORT = 55671, 55672, 55673, 9090
"""Ports of every router pod. LOCAL_PORT is management without TLS, on the pod's loopback only."""
SecretData = Mapping[str, bytes]


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said about a resource before any router is asked.

    `accepted`: it can be carried out as it stands. `resolved_refs`: all it refers to is there. `conflicted`: an older
    resource has what it wants. `held`: what was made of it before stays as it is. `spared`: what is missing is nothing
    that the resource needs to do its work. `reason` is one word, `message` is for a person.
    """

    accepted: bool = True
    resolved_refs: bool = True
    conflicted: bool = False
    reason: str = "Accepted"
    message: str = ""
    held: bool = False
    spared: bool = False

    @property
    def good(self) -> bool:
        """Whether it is carried out."""
        return self.accepted and self.resolved_refs and not self.conflicted


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
