"""A cluster as commands see it: its location, its objects, access to its routers, and the commands `waymesh status` and
`topology`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.kube import RESOURCES, SELECTOR, DynamicKube, Kind, find_cluster, kind_of, list_present
from waymesh_operator.planning.mesh import neighbours_by_router, peers_below
from waymesh_operator.resources.router import Router, parse_router, router_id

from .terminal import RouterNeighbours, add_row, by_ordinal, joined_ids, make_console, titled_table, topology_table

Object = Mapping[str, Any]
_OURS = frozenset(kind.kind for kind in RESOURCES)
LOCAL_PORT = 55673
"""Management without TLS, on the loopback of each router pod."""
_STYLE = {"True": "green", "False": "red", "Unknown": "yellow", "": "dim"}


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
            *(list_present(kube, kind, scope, "" if kind.kind in _OURS else SELECTOR) for kind in kinds)
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


def run_status(where: Where, name: str, as_json: bool, no_color: bool) -> int:
    """Print the Routers (or one) and the resources that refer to them. Returns 0 if there are some and all are Ready,
    else 1: a namespace that does not exist has none, too."""
    found = list_objects(where, RESOURCES)
    routers = _routers_named(found, name)
    dependents = (item for kind, items in found.objects.items() if kind != "Router" for item in items)
    others = [item for item in dependents if _refers_to(item, name)]
    if as_json:
        print(json.dumps([*routers, *others], indent=2))
    else:
        console = make_console(no_color)
        console.print(_router_table(routers) if routers else f"no Router in namespace {found.namespace}")
        for router in routers:
            console.print(_pods_table(router))
        if others:
            console.print(_resource_table(others))
    shown = [*routers, *others]
    return 0 if shown and all(condition(item, "Ready")[0] == "True" for item in shown) else 1


def run_topology(where: Where, name: str, no_color: bool) -> int:
    """Print which routers are connected. Returns 0 if no connection is missing, else 1."""
    found = list_objects(where, (kind_of("Router"),))
    console = make_console(no_color)
    whole = True
    for body in _routers_named(found, name):
        router = parse_router(body)
        wanted = _wanted_neighbours(router)
        live = {row["id"]: row for row in (body.get("status") or {}).get("routers") or ()}
        rows = []
        for node in sorted({*wanted, *live}, key=by_ordinal):
            row = live.get(node, {})
            neighbours = set(row.get("neighbors") or ())
            missing = wanted.get(node, set()) - neighbours
            whole = whole and not missing
            rows.append(RouterNeighbours(node, str(row.get("state", "Lost")), neighbours, missing))
        title = f"{router.ref}: {router.topology}, {sum(map(len, wanted.values())) // 2} connections"
        console.print(topology_table(title, rows))
    return 0 if whole else 1


def _routers_named(found: Found, name: str) -> list[Object]:
    routers = [item for item in found.objects["Router"] if name in ("", item["metadata"]["name"])]
    if name and not routers:
        raise WaymeshError(f"there is no Router {name} in namespace {found.namespace}")
    return routers


def _refers_to(item: Object, router: str) -> bool:
    return router in ("", item["spec"]["routerRef"]["name"])


def _wanted_neighbours(router: Router) -> dict[str, set[str]]:
    return neighbours_by_router(
        {
            router_id(router.ref, ordinal): [router_id(router.ref, peer) for peer in peers_below(router, ordinal)]
            for ordinal in range(router.size)
        }
    )


def _router_table(routers: Iterable[Object]) -> Table:
    table = titled_table("Routers")
    for heading in ("Name", "Namespace", "Role", "Size", "Ready", "Converged", "Drift", "Why"):
        table.add_column(heading)
    for router in routers:
        spec, status = router["spec"], router.get("status") or {}
        ready, reason = condition(router, "Ready")
        converged, _ = condition(router, "Converged")
        add_row(
            table,
            router["metadata"]["name"],
            router["metadata"]["namespace"],
            spec["role"],
            f"{status.get('ready', 0)}/{spec['size']}",
            Text(ready or "Unknown", _STYLE[ready]),
            Text(converged or "Unknown", _STYLE[converged]),
            str((status.get("drift") or {}).get("state", "")),
            "" if ready == "True" else _message(router, "Ready") or reason,
        )
    return table


def _pods_table(router: Object) -> Table:
    table = titled_table(f"Routers of {router['metadata']['name']}")
    for heading in ("Router", "State", "Neighbours", "Unsettled", "Certificate until", "Why"):
        table.add_column(heading)
    for row in (router.get("status") or {}).get("routers") or ():
        neighbours = joined_ids(row.get("neighbors") or ())
        ends = str(row.get("certificateNotAfter", ""))[:10]
        add_row(table, row["id"], row["state"], neighbours, str(row.get("unsettled", "")), ends, row.get("reason", ""))
    return table


def _resource_table(resources: Iterable[Object]) -> Table:
    table = titled_table("Resources")
    for heading in ("Kind", "Name", "Router", "Active", "Ready", "Why"):
        table.add_column(heading, overflow="fold")
    for item in resources:
        ready, reason = condition(item, "Ready")
        why = "" if ready == "True" else _why(item) or reason
        name, router, status = item["metadata"]["name"], item["spec"]["routerRef"]["name"], item.get("status") or {}
        share = str(status.get("active") or status.get("connected") or "")
        add_row(table, item["kind"], name, router, share, Text(ready or "Unknown", _STYLE[ready]), why)
    return table


def _message(item: Object, kind: str) -> str:
    conditions: list[Any] = (item.get("status") or {}).get("conditions") or []
    return next((str(c.get("message", "")) for c in conditions if c["type"] == kind), "")


def _why(item: Object) -> str:
    """Return the message of the first condition that reports a problem."""
    conditions: list[Any] = (item.get("status") or {}).get("conditions") or []
    return next((str(c["message"]) for c in conditions if c["status"] == "False" and c.get("message")), "")


def condition(resource: Object, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition; empty strings if the operator has not set it yet."""
    conditions = (resource.get("status") or {}).get("conditions") or ()
    found: Object = next((item for item in conditions if item["type"] == kind), {})
    return found.get("status", ""), found.get("reason", "")


def _ready(pod: Object) -> bool:
    return condition(pod, "Ready")[0] == "True"
