"""The Kubernetes API behind an interface of five verbs: the kinds that the operator uses, the verbs, their
implementation with the official client's asyncio variant, and the search for the API server.

The dynamic client supports server-side apply. Paths come from the operator's table of kinds instead of discovery,
which saves requests and discovery's cache file. `places/kubernetes/watches.py` has the watches."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.request import getproxies

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.dynamic.client import DynamicClient
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION
from yaml import YAMLError

from waymesh_operator.errors import KubeError, NamespaceEnding, WaymeshError, no_cluster

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
        ("Exchange", "exchanges"),
    )
)
"""The resources that users write."""
ROUTER = RESOURCES[0]
LATER = frozenset({"Exchange"})
"""Those that the first definitions did not have: the operator goes on in a cluster without them."""
SECRET = Kind("Secret", "", "v1", "secrets")
POD = Kind("Pod", "", "v1", "pods")
CLAIM = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
"""Objects that belong to users, like most Secrets: read by name if a Router refers to one."""
OWNED = (
    Kind("StatefulSet", "apps", "v1", "statefulsets"),
    Kind("Service", "", "v1", "services"),
    Kind("ConfigMap", "", "v1", "configmaps"),
    SECRET,
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    POD,
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


def may_be_absent(kind: Kind, error: KubeError) -> bool:
    """Whether a list failed because the cluster lacks a kind of LATER, or the right to it, which came with it."""
    return kind.kind in LATER and error.status in (403, 404)


async def list_present(
    kube: KubeClient, kind: Kind, namespace: str | None = None, selector: str = ""
) -> list[dict[str, Any]]:
    """List as `KubeClient.list` does; nothing of a kind of LATER that the cluster does not have."""
    try:
        return await kube.list(kind, namespace, selector)
    except KubeError as error:
        if not may_be_absent(kind, error):
            raise
        return []


Manifest = Mapping[str, Any]
Kept = Callable[[dict[str, Any]], dict[str, Any]] | None
"""Returns what a list has in place of an object."""
FIELD_MANAGER = "waymesh-operator"
"""Field manager of all fields that the operator sets, for all of its versions and replicas."""


class KubeClient(Protocol):
    """Requests to the API server. Every method raises KubeError."""

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """Read one object."""

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = "", kept: Kept = None
    ) -> list[dict[str, Any]]:
        """List the current objects of a kind (not from a cache that may be stale); None: in all namespaces.

        `selector` selects by labels, `fields` by fields. `kept`: returns what the list has in place of an object, as
        soon as it was read: of thousands, copies of those that are known already would take much memory.
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


COPY = "kubectl.kubernetes.io/last-applied-configuration"
SHORT = 64
"""Maximum length of texts that objects share."""
_REFERENCE = {"name"}
"""What a reference to another object has, such as that of an Address to its Router."""


def slim(body: Manifest) -> dict[str, Any]:
    """Return the object without managedFields, which are often larger than the rest, and without kubectl's copy of the
    manifest. Names, short texts and conditions that are equal in thousands of objects are the same objects: each answer
    of the API server has its own. What is returned must not be changed."""
    metadata = {sys.intern(name): value for name, value in body["metadata"].items() if name != "managedFields"}
    if COPY in (metadata.get("annotations") or {}):
        kept = {name: value for name, value in metadata["annotations"].items() if name != COPY}
        metadata["annotations"] = kept
    others = {sys.intern(name): _shared(value) for name, value in body.items() if name != "metadata"}
    return {**others, "metadata": metadata}


def _shared(value: Any) -> Any:
    if type(value) is str:
        return sys.intern(value) if len(value) <= SHORT else value
    if isinstance(value, dict):
        if value.keys() == _REFERENCE and type(value["name"]) is str:
            return _same(tuple(value.items()))
        return {sys.intern(name): _shared(inner) for name, inner in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list) else value


def _listed(item: Any) -> Any:
    """Return an item of a list, such as a condition: equal ones of texts and integers are the same object."""
    if not isinstance(item, dict) or not all(type(value) in (str, int) for value in item.values()):
        return _shared(item)
    return _same(tuple(item.items()))


@functools.lru_cache(maxsize=1024)
def _same(items: tuple[tuple[str, str | int], ...]) -> dict[str, Any]:
    return {sys.intern(name): _shared(value) for name, value in items}


TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Access to an API server. `namespace`: that of the pod in the cluster, or of the context."""

    configuration: Configuration
    namespace: str
    inside: bool


async def find_cluster(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """The cluster of this pod, unless a kubeconfig or a context is given. Raises WaymeshError."""
    configuration = Configuration()
    inside = not kubeconfig and not context and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    try:
        if inside:
            load_incluster_config(client_configuration=configuration)
            return Cluster(configuration, NAMESPACE_FILE.read_text(encoding="ascii").strip(), inside)
        file = kubeconfig or os.environ.get("KUBECONFIG") or KUBE_CONFIG_DEFAULT_LOCATION
        if not any(Path(one).expanduser().exists() for one in file.split(os.pathsep)):
            raise ConfigException(f"there is no kubeconfig {file}")
        loader = await load_kube_config(file, context, configuration, persist_config=False)
        return Cluster(configuration, loader.current_context["context"].get("namespace") or "default", inside)
    except (ConfigException, OSError, YAMLError) as error:
        raise no_cluster(error) from None


PAGE = 500
TIMEOUT_S = 20.0
PARALLEL = 16
"""Maximum number of parallel requests: a mesh of thousands of resources must not flood the API server."""
APPLY = "application/apply-patch+yaml"
Counted = Callable[[str, str, int], None]
"""Called after each request: verb, kind, HTTP status (0 if there was no answer)."""


class DynamicKube:
    """A `KubeClient`. Close it in the event loop that used it."""

    def __init__(self, configuration: Configuration, counted: Counted = lambda verb, kind, status: None) -> None:
        if not getproxies():
            # Otherwise aiohttp looks for a password in the netrc file before each request, in a thread.
            configuration.client_session_kwargs = {**(configuration.client_session_kwargs or {}), "trust_env": False}
        self._api = ApiClient(configuration)
        self._dynamic = DynamicClient(self._api)
        self._counted = counted
        self._slots = asyncio.Semaphore(PARALLEL)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """See KubeClient."""
        return await self._ask("get", kind.kind, kind.path(namespace, name))

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = "", kept: Kept = None
    ) -> list[dict[str, Any]]:
        """See KubeClient. Items get the apiVersion and kind that lists omit, and are `slim` unless `kept` is given."""
        keep = kept or slim
        items: list[dict[str, Any]] = []
        chosen = {"label_selector": selector, "field_selector": fields}
        query: dict[str, Any] = {"limit": PAGE, **{name: value for name, value in chosen.items() if value}}
        while True:
            page = await self._ask("get", kind.kind, kind.path(namespace), verb="list", **query)
            named = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [keep({**item, **named}) for item in page.get("items", ())]
            query["_continue"] = page["metadata"].get("continue")
            if not query["_continue"]:
                return items

    async def apply(self, manifest: Manifest, *, manager: str = FIELD_MANAGER, force: bool = True) -> dict[str, Any]:
        """See KubeClient."""
        kind, metadata = kind_of(manifest["kind"], manifest["apiVersion"]), manifest["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._ask(
            "patch", kind.kind, path, verb="apply", body=manifest, content_type=APPLY, **_manager(manager, force)
        )

    async def patch_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """See KubeClient."""
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}
        path = kind.path(namespace, name) + "/status"
        return await self._ask(
            "patch", kind.kind, path, verb="status", body=body, content_type=APPLY, **_manager(FIELD_MANAGER, True)
        )

    async def document(self, path: str) -> dict[str, Any]:
        """See KubeClient."""
        # The JWKS has a separate media type, and the API server refuses requests for it that only accept plain JSON.
        return await self._ask("get", "document", path, header_params={"Accept": "*/*"})

    async def may(self, user: str, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """Ask the API server whether a user may do something in a namespace, or in all. Raises KubeError.

        `resource` may name a subresource: `routers/status`.
        """
        name, _, below = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": below, "namespace": namespace}
        groups = ["system:serviceaccounts", "system:authenticated"]
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        found = await self._ask("post", "SubjectAccessReview", path, verb="create", body=body)
        return bool((found.get("status") or {}).get("allowed"))

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """See KubeClient."""
        try:
            await self._ask("delete", kind.kind, kind.path(namespace, name))
        except KubeError as error:
            if not error.missing:
                raise

    async def _ask(self, method: str, kind: str, path: str, *, verb: str = "", **query: Any) -> dict[str, Any]:
        status = 0
        try:
            async with self._slots, asyncio.timeout(TIMEOUT_S):
                answer = await self._dynamic.request(method, path, serialize=False, **query)
                status = answer.status
                return dict(json.loads(await answer.read()))
        except ApiException as error:
            status = error.status
            said = _status(error)
            made = NamespaceEnding if "NamespaceTerminating" in _causes(said) else KubeError
            reason = said.get("message") or error.reason or f"status {error.status}"
            raise made(status, f"{kind} {path.rpartition('/')[2]}: {reason}") from None
        except TimeoutError:
            raise KubeError(0, f"the API server did not answer within {TIMEOUT_S:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise KubeError(0, f"the API server cannot be reached: {str(error) or type(error).__name__}") from error
        finally:
            self._counted(verb or method, kind, status)


def _manager(name: str, force: bool) -> dict[str, Any]:
    return {"field_manager": name, "force_conflicts": force}


def _status(error: ApiException) -> dict[str, Any]:
    """The Status object in the API server's answer; empty if there is none."""
    try:
        found = json.loads(error.body or "{}")
    except (ValueError, TypeError):
        found = None
    return found if isinstance(found, dict) else {}


def _causes(answer: Mapping[str, Any]) -> set[str]:
    """The reasons in the details of a Status."""
    details = answer.get("details") or {}
    return {cause.get("reason", "") for cause in details.get("causes") or ()}
