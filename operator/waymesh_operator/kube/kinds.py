"""The kinds that the operator deals with. They are named here, so that no API has to be discovered at run time."""

from __future__ import annotations

from dataclasses import dataclass

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
        raise WaymeshError(f"{name} is no kind that the operator deals with") from None
