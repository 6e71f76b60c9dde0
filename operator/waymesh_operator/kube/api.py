"""The kinds that the operator uses, and the five verbs of the Kubernetes API that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from waymesh_operator.errors import WaymeshError

GROUP, VERSION = "waymesh.io", "v1alpha1"
SELECTOR = "waymesh.io/router"
"""Label of all objects that a Router owns; its value is the Router's name. Watches are limited to this label."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced kind of the API; `group` is empty for the core group."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """apiVersion in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def in_version(self, api_version: str) -> Kind:
        """Return the kind with the version of this apiVersion."""
        return replace(self, version=api_version.rpartition("/")[2])

    def path(self, namespace: str | None, name: str = "") -> str:
        """The URL path of one object, of all objects in a namespace, or of all in the cluster."""
        parts = ["", "apis" if self.group else "api", self.api_version]
        parts += ["namespaces", namespace] if namespace else []
        return "/".join([*parts, self.plural, *([name] if name else [])])


RESOURCES = tuple(
    Kind(kind, GROUP, VERSION, plural)
    for kind, plural in (
        ("Router", "routers"),
        ("Address", "addresses"),
        ("AutoLink", "autolinks"),
        ("LinkRoute", "linkroutes"),
        ("Broker", "brokers"),
        ("VhostPolicy", "vhostpolicies"),
        ("RouterLink", "routerlinks"),
    )
)
"""The resources that users write."""
SECRET = Kind("Secret", "", "v1", "secrets")
CLAIM = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
"""Objects that belong to users, like most Secrets: read by name if a Router refers to one."""
OWNED = (
    Kind("StatefulSet", "apps", "v1", "statefulsets"),
    Kind("Service", "", "v1", "services"),
    Kind("ConfigMap", "", "v1", "configmaps"),
    SECRET,
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    Kind("Pod", "", "v1", "pods"),
)
"""Watched objects that result from the resources. Pods belong to the StatefulSet: the operator only annotates them."""
JOB, CRON_JOB = Kind("Job", "batch", "v1", "jobs"), Kind("CronJob", "batch", "v1", "cronjobs")
"""The objects of analytics, which are only read."""
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases")
EVENT = Kind("Event", "", "v1", "events")
CERT_MANAGER = (
    Kind("Issuer", "cert-manager.io", "v1", "issuers"),
    Kind("Certificate", "cert-manager.io", "v1", "certificates"),
)
"""Objects of cert-manager, if it issues the certificates. Not watched, as its API may not exist."""
ROUTES = (
    Kind("TLSRoute", "gateway.networking.k8s.io", "v1", "tlsroutes"),
    Kind("TCPRoute", "gateway.networking.k8s.io", "v1alpha2", "tcproutes"),
    Kind("Route", "route.openshift.io", "v1", "routes"),
    Kind("Ingress", "networking.k8s.io", "v1", "ingresses"),
)
"""Objects that route clients to listeners. Not watched, as their APIs may not exist; the version is the newest one."""
_BY_KIND = {kind.kind: kind for kind in (*RESOURCES, *OWNED, CLAIM, LEASE, EVENT, *CERT_MANAGER, *ROUTES)}


def kind_of(name: str, api_version: str = "") -> Kind:
    """The kind with this name, in this version of its group or the usual one. Raises WaymeshError for a kind that the
    operator does not use."""
    try:
        kind = _BY_KIND[name]
    except KeyError:
        raise WaymeshError(f"{name} is not a kind that the operator uses") from None
    return kind.in_version(api_version) if api_version else kind


Manifest = Mapping[str, Any]
FIELD_MANAGER = "waymesh-operator"
"""Field manager of all fields that the operator sets, for all of its versions and replicas."""


class KubeClient(Protocol):
    """Requests to the API server. Every method raises KubeError."""

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """Read one object."""

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = ""
    ) -> list[dict[str, Any]]:
        """List the current objects of a kind (not from a cache that may be stale); None: in all namespaces.

        `selector` selects by labels, `fields` by fields.
        """

    async def apply(self, manifest: Manifest, *, manager: str = FIELD_MANAGER, force: bool = True) -> dict[str, Any]:
        """Server-side apply: create the object, or set the fields in the manifest.
         With `force`, fields of other managers are taken over, otherwise they cause a conflict. With a
        `resourceVersion` in the manifest, a change of the object in the meantime is a conflict, too.
        """

    async def patch_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the status of an existing object."""

    async def document(self, path: str) -> dict[str, Any]:
        """Read a document of the API server that is not an object, such as its JWKS."""

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object; no error if it does not exist."""
