"""The kinds that the operator uses, and the five verbs that it needs of the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from waymesh_operator.errors import WaymeshError

GROUP, VERSION = "waymesh.io", "v1alpha1"
SELECTOR = "waymesh.io/router"
"""Label of all that a Router owns; its value is the Router's name. Watches ask the API server for this label only."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced kind of the API; `group` is empty for the core group."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """As manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "") -> str:
        """The URL path of one object, of all in a namespace, or of all in the cluster."""
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
    )
)
"""What users write."""
SECRET = Kind("Secret", "", "v1", "secrets")
CLAIM = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
"""Users' own, like most Secrets: asked for by name where a Router refers to one."""
OWNED = (
    Kind("StatefulSet", "apps", "v1", "statefulsets"),
    Kind("Service", "", "v1", "services"),
    Kind("ConfigMap", "", "v1", "configmaps"),
    SECRET,
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    Kind("Pod", "", "v1", "pods"),
)
"""What comes of it and is watched. Pods are the StatefulSet's; they are only looked at."""
JOB, CRON_JOB = Kind("Job", "batch", "v1", "jobs"), Kind("CronJob", "batch", "v1", "cronjobs")
"""Those of analytics are looked at, for a figure."""
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases")
EVENT = Kind("Event", "", "v1", "events")
CERT_MANAGER = (
    Kind("Issuer", "cert-manager.io", "v1", "issuers"),
    Kind("Certificate", "cert-manager.io", "v1", "certificates"),
)
"""What is asked of cert-manager, where it issues the certificates. Not watched, as its API may not exist."""
_BY_KIND = {kind.kind: kind for kind in (*RESOURCES, *OWNED, CLAIM, LEASE, EVENT, *CERT_MANAGER)}


def kind_of(name: str) -> Kind:
    """The kind of this name. Raises WaymeshError for one that the operator has no business with."""
    try:
        return _BY_KIND[name]
    except KeyError:
        raise WaymeshError(f"{name} is not a kind that the operator uses") from None


Manifest = Mapping[str, Any]
FIELD_MANAGER = "waymesh-operator"
"""Under this name all that the operator sets is noted as its own, whichever version or replica of it writes."""


class KubeClient(Protocol):
    """What is asked of the API server. Every method raises KubeError."""

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """One object."""

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = ""
    ) -> list[dict[str, Any]]:
        """The objects of a kind, as they are now (not from a cache that may be behind); all namespaces for None.

        `selector` chooses by labels, `fields` by fields.
        """

    async def apply(self, manifest: Manifest, *, manager: str = FIELD_MANAGER, force: bool = True) -> dict[str, Any]:
        """Server-side apply: make the object, or set the fields that the manifest names.

        With `force` fields of other managers are taken over, else they are a conflict. A `resourceVersion` in the
        manifest makes it a conflict that somebody changed the object meanwhile.
        """

    async def patch_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """Make this the status of an object that exists."""

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Remove an object; what is gone already is fine."""
