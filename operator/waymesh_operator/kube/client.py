"""The five verbs with the official client's asyncio variant, and the search for the API server.

The dynamic client supports server-side apply. Paths come from the operator's table of kinds instead of discovery,
which saves requests and discovery's cache file.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.dynamic.client import DynamicClient
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION
from yaml import YAMLError

from waymesh_operator.errors import KubeError, NamespaceEnding, no_cluster

from .api import FIELD_MANAGER, Kind, Manifest, kind_of

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
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = ""
    ) -> list[dict[str, Any]]:
        """See KubeClient. Items get the apiVersion and kind that lists omit."""
        items: list[dict[str, Any]] = []
        chosen = {"label_selector": selector, "field_selector": fields}
        query: dict[str, Any] = {"limit": PAGE, **{name: value for name, value in chosen.items() if value}}
        while True:
            page = await self._ask("get", kind.kind, kind.path(namespace), verb="list", **query)
            items += [{**item, "apiVersion": kind.api_version, "kind": kind.kind} for item in page.get("items", ())]
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
