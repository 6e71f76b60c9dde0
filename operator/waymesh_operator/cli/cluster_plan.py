"""`waymesh plan` on a cluster: what the operator would do now, or after manifests are applied. Changes nothing."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from waymesh_client.channel import Tls
from waymesh_operator.errors import KubeError, ManifestError, WaymeshError
from waymesh_operator.kube import OWNED, RESOURCES, SELECTOR, DynamicKube, find_cluster, list_present
from waymesh_operator.places.kubernetes.context import OperatorSettings
from waymesh_operator.places.kubernetes.objects import operator_namespace
from waymesh_operator.places.kubernetes.worker.environment import Environment, EventRecorder, Pace
from waymesh_operator.places.kubernetes.worker.inventory import Inventory
from waymesh_operator.places.kubernetes.worker.mesh_worker import MeshWorker
from waymesh_operator.places.kubernetes.worker.turns import Threads
from waymesh_operator.planning.actions import Action
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import read_files
from waymesh_operator.resources.router import Ref
from waymesh_operator.resources.validation import check_alone
from waymesh_operator.routers.management import KeyFolder, PodClient, connect
from waymesh_operator.tls.rollover import TlsView

from .cluster import LOCAL_PORT, Where
from .forward import Forwarder
from .options import EXIT_CHANGES
from .tables import action_row, plan_table
from .terminal import make_console

PATIENCE_S = 30.0
"""How long to wait for what the routers report. There is no later turn."""
UNKNOWN_IMAGE = "the-operators-default"


@dataclass(frozen=True, slots=True)
class ClusterPlanOptions:
    """The options of the command. An empty `router` means all Routers of the namespace."""

    where: Where
    router: str = ""
    files: list[Path] = field(default_factory=list)
    as_json: bool = False
    detailed: bool = False
    no_color: bool = False
    everything: bool = False


def run_cluster_plan(options: ClusterPlanOptions) -> int:
    """Print the plans and return the exit code. Raises WaymeshError."""
    plans = asyncio.run(_plans(options))
    if options.as_json:
        rows = [{"mesh": str(ref), **action_row(action)} for ref, actions in plans.items() for action in actions]
        print(json.dumps(rows, indent=2))
    else:
        console = make_console(options.no_color)
        for ref, actions in plans.items():
            console.print(plan_table(ref, actions, options.everything) if actions else f"{ref}: nothing to do")
    return EXIT_CHANGES if options.detailed and any(plans.values()) else 0


async def _plans(options: ClusterPlanOptions) -> dict[Ref, tuple[Action, ...]]:
    cluster = await find_cluster(context=options.where.context)
    namespace = options.where.namespace or cluster.namespace
    manifests = _manifests(options.files, namespace)
    kube, keys, inventory = DynamicKube(cluster.configuration), KeyFolder(), Inventory()
    try:
        with Threads.running() as threads, Forwarder(options.where.context) as forwarder:
            await _fill(inventory, kube, namespace)
            for manifest in manifests:
                _overlay(inventory, manifest)
            world = Environment(
                kube,
                inventory,
                EventRecorder(kube, lambda: datetime.now(UTC)),
                _settings(inventory, namespace),
                threads,
                keys,
                reach=_ForwardReach(forwarder, inventory, namespace),
                pace=Pace(patience_s=PATIENCE_S),
                rng=random.Random(0),
            )
            meshes = sorted(mesh for mesh in inventory.meshes() if inventory.get("Router", namespace, mesh.name))
            wanted = [mesh for mesh in meshes if options.router in ("", mesh.name)]
            if options.router and not wanted:
                raise WaymeshError(f"there is no Router {options.router} in namespace {namespace}")
            return {mesh: await _plan(MeshWorker(mesh, world)) for mesh in wanted}
    except KubeError as error:
        raise WaymeshError(str(error)) from None
    finally:
        keys.close()
        await kube.close()


async def _plan(worker: MeshWorker) -> tuple[Action, ...]:
    try:
        return await worker.plan()
    finally:
        await worker.close()


async def _fill(inventory: Inventory, kube: DynamicKube, namespace: str) -> None:
    for kind in (*RESOURCES, *OWNED):
        for body in await list_present(kube, kind, namespace, "" if kind in RESOURCES else SELECTOR):
            inventory.see(None, body)


def _manifests(files: list[Path], namespace: str) -> list[dict[str, Any]]:
    """Read the manifests for one namespace from files, with defaults; kinds other than ours are ignored.

    Raises ManifestError with all errors.
    """
    if not files:
        return []
    documents, problems = read_files(files)
    if problems:
        raise ManifestError(problems)
    found = check_alone(documents, load_crds(), namespace)
    return [dict(manifest) for manifest in found if manifest["metadata"]["namespace"] == namespace]


def _overlay(inventory: Inventory, manifest: dict[str, Any]) -> None:
    """Put the manifest into `found` as if it had been applied."""
    metadata = manifest["metadata"]
    live = inventory.get(manifest["kind"], metadata["namespace"], metadata["name"]) or {"metadata": {}}
    former = live["metadata"]
    metadata = {
        "uid": "not-yet",
        "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **former,
        **metadata,
        "generation": former.get("generation", 0) + 1,
        "resourceVersion": str(int(former.get("resourceVersion", "0")) + 1),
    }
    inventory.see(None, {**manifest, "metadata": metadata, "status": live.get("status") or {}})


def _settings(inventory: Inventory, namespace: str) -> OperatorSettings:
    """Derive the operator's settings from the objects that it has created."""
    for mesh in inventory.meshes():
        live = inventory.get("StatefulSet", namespace, mesh.name)
        home = operator_namespace(inventory.get("NetworkPolicy", namespace, mesh.name) or {})
        for container in live["spec"]["template"]["spec"]["containers"] if live else ():
            if container["name"] == "router":
                policy = container.get("imagePullPolicy", "IfNotPresent")
                return OperatorSettings(container["image"], policy, operator_namespace=home)
    return OperatorSettings(UNKNOWN_IMAGE)


@dataclass(slots=True)
class _ForwardReach:
    """Reaches routers through the API server, on their loopback; certificates cannot be read this way."""

    forwarder: Forwarder
    inventory: Inventory
    namespace: str

    def client(self, address: str, tls: Tls) -> PodClient:
        """See Reach."""
        pods: Mapping[str, str] = {
            body.get("status", {}).get("podIP", ""): body["metadata"]["name"]
            for mesh in self.inventory.meshes()
            for key, body in self.inventory.of(mesh).items()
            if key[0] == "Pod"
        }
        return connect(f"amqp://127.0.0.1:{self.forwarder.port(self.namespace, pods[address], LOCAL_PORT)}", 10.0)

    def tls_view(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        """See Reach."""
        return TlsView()
