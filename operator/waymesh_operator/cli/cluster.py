"""Shared by commands that work on a cluster: its location, its objects, and access to its routers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.kube import RESOURCES, SELECTOR, DynamicKube, Kind, find_cluster, kind_of

Object = Mapping[str, Any]
_OURS = frozenset(kind.kind for kind in RESOURCES)
LOCAL_PORT = 55673
"""Management without TLS, on the loopback of each router pod."""


@dataclass(frozen=True, slots=True)
class Where:
    """A cluster and a namespace as the user names them; None: the kubeconfig's default."""

    context: str | None = None
    namespace: str | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Objects of a namespace, by kind."""

    namespace: str
    objects: Mapping[str, Sequence[Object]]


def list_objects(where: Where, kinds: Iterable[Kind]) -> Found:
    """List objects: all of our kinds; of other kinds, those that belong to a mesh. Raises WaymeshError."""
    return asyncio.run(_list_objects(where, tuple(kinds)))


async def _list_objects(where: Where, kinds: Sequence[Kind]) -> Found:
    cluster = await find_cluster(context=where.context)
    namespace = where.namespace or cluster.namespace
    kube = DynamicKube(cluster.configuration)
    try:
        scope = None if where.everywhere else namespace
        lists = await asyncio.gather(
            *(kube.list(kind, scope, "" if kind.kind in _OURS else SELECTOR) for kind in kinds)
        )
    except KubeError as error:
        hint = ": are the CRDs of Waymesh installed?" if error.missing else ""
        raise WaymeshError(f"{error}{hint}") from None
    finally:
        await kube.close()
    return Found(namespace, {kind.kind: found for kind, found in zip(kinds, lists)})


def choose_pod(where: Where, wanted: str) -> tuple[str, str]:
    """Return (namespace, pod) for the name of a router pod, or of a Router: its first ready pod.

    Without a name, choose the only Router. Raises WaymeshError.
    """
    found = list_objects(where, (kind_of("Router"), kind_of("Pod")))
    pods = {pod["metadata"]["name"]: pod for pod in found.objects["Pod"]}
    if wanted in pods:
        return found.namespace, wanted
    routers = [router["metadata"]["name"] for router in found.objects["Router"]]
    if not wanted and len(routers) != 1:
        names = ", ".join(routers) or "none"
        raise WaymeshError(f"choose a router with --pod: namespace {found.namespace} has the Routers {names}")
    mesh = wanted or routers[0]
    candidates = [name for name, pod in pods.items() if pod["metadata"]["labels"].get(SELECTOR) == mesh and _ready(pod)]
    if not candidates:
        known = f"there is no Router or router pod {mesh}" if mesh not in routers else f"no pod of {mesh} is ready"
        raise WaymeshError(f"{known} in namespace {found.namespace}")
    return found.namespace, min(candidates, key=lambda name: int(name.rpartition("-")[2]))


@contextmanager
def bus(where: Where, wanted: str) -> Iterator[tuple[str, str]]:
    """Context manager: forward a port to a pod and yield (pod, AMQP URL of its management). Raises WaymeshError."""
    from .forward import Forwarder  # the synchronous client is slow to import

    namespace, pod = choose_pod(where, wanted)
    with Forwarder(where.context) as forwarder:
        yield pod, f"amqp://127.0.0.1:{forwarder.port(namespace, pod, LOCAL_PORT)}"


def condition(resource: Object, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition; empty strings if the operator has not set it yet."""
    conditions = (resource.get("status") or {}).get("conditions") or ()
    found: Object = next((item for item in conditions if item["type"] == kind), {})
    return found.get("status", ""), found.get("reason", "")


def _ready(pod: Object) -> bool:
    return condition(pod, "Ready")[0] == "True"
