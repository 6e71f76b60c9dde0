"""An in-memory cluster that executes plans: API server, StatefulSet controller and routers."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.kit.seeds import shared_rows
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.actions import Action, ApplyObject, DeleteObject, Scale
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    DrainRouter,
    QuiesceEntity,
    UndrainRouter,
    UpdateEntity,
    exclusive_key,
)
from waymesh_operator.router_entities.names import LOG, ROUTER, TELEMETRY, Entity
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterFacts, RouterState
from waymesh_operator.tls.rollover import MeshTls, TlsRequest, next_tls
from waymesh_schema.loglevels import LOG_MODULES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MESH = Ref("ns", "mesh")
SETTINGS = OperatorSettings("registry/router:1")
TLS: MeshTls = next_tls(TlsRequest("mesh", "ns"), {}, {}, NOW)


def router(size: int = 3, **fields: Any) -> Router:
    """A Router of the model's mesh."""
    return Router(MESH, size=size, uid="u-1", **fields)


def context(**fields: Any) -> ClusterContext:
    """A context with certificates."""
    return ClusterContext(**{"settings": SETTINGS, "tls": TLS, **fields})


class ModelCluster:
    """Applies actions. `log` holds what was done; `refuses` are entity names that routers do not take."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.routers: dict[str, ObservedRouter] = {}
        self.draining: dict[str, str] = {}
        self.log: list[Action] = []
        self.refuses: set[str] = set()
        self.secrets: dict[str, Mapping[str, bytes] | None] = {}
        self.restarts = 0
        self.busy = False
        self.neighbours: dict[str, tuple[str, ...]] = {}

    # what the operator sees

    @property
    def observed(self) -> ObservedState:
        return ObservedState(dict(self.objects), ObservedMesh(dict(self.routers)), dict(self.draining))

    @property
    def replicas(self) -> int | None:
        live = self.objects.get(("StatefulSet", "mesh"))
        return None if live is None else int(live["spec"]["replicas"])

    def desire(self, resources: Resources, **fields: Any) -> DesiredState:
        return desired_cluster(resources, context(size_now=self.replicas, secrets=self.secrets, **fields))

    # what the operator does

    def reconcile(self, resources: Resources, steps: int | None = None, **fields: Any) -> tuple[Action, ...]:
        """One turn, broken off after some steps; then the cluster goes on by itself. Returns the whole plan."""
        actions = plan(self.desire(resources, **fields), self.observed)
        for action in actions[:steps]:
            self.apply(action)
        self.settle()
        return actions

    def converge(self, resources: Resources, limit: int = 300, **fields: Any) -> list[Action]:
        """Turns until nothing is left to do."""
        done: list[Action] = []
        for _ in range(limit):
            actions = self.reconcile(resources, **fields)
            done += actions
            if not actions and "draining" not in self.draining.values():
                return done
            if actions and all(getattr(getattr(a, "entity", None), "name", "") in self.refuses for a in actions):
                return done
        raise AssertionError(f"still to do: {[a.describe() for a in actions]}")

    def apply(self, action: Action) -> None:
        """Carry out one action."""
        self.log.append(action)
        match action:
            case ApplyObject() | Scale():
                self._server_side_apply(action.manifest)
            case DeleteObject():
                del self.objects[action.kind, action.name]
            case DrainRouter():
                self.draining[action.router_id] = "draining"
            case UndrainRouter():
                self.draining[action.router_id] = "none"
            case CreateEntity():
                self._create(action.router_id, action.entity)
            case UpdateEntity():
                new = {name: wanted for name, (_, wanted) in action.changes.items()}
                live = self.routers[action.router_id].entities
                self._set(
                    action.router_id,
                    [Entity(e.type, e.name, {**e.attributes, **new}) if e is action.entity else e for e in live],
                )
            case QuiesceEntity():
                assert not action.entity.attributes.get("quiescing")
                live = self.routers[action.router_id].entities
                gone = Entity(action.entity.type, action.entity.name, {**action.entity.attributes, "quiescing": True})
                self._set(action.router_id, [gone if e is action.entity else e for e in live])
            case DeleteEntity():
                live = self.routers[action.router_id].entities
                kept = [e for e in live if (e.type, e.name) != (action.entity.type, action.entity.name)]
                assert len(kept) == len(live) - 1
                self._set(action.router_id, kept)

    def _create(self, router_id: str, entity: Entity) -> None:
        if entity.name in self.refuses:
            return
        live = self.routers[router_id].entities
        assert all((e.type, e.name) != (entity.type, entity.name) for e in live), f"name taken: {entity}"
        assert all(exclusive_key(e) != exclusive_key(entity) for e in live), f"conflict: {entity}"
        self._set(router_id, [*live, entity])

    def _set(self, router_id: str, entities: list[Entity]) -> None:
        self.routers[router_id] = replace(self.routers[router_id], entities=tuple(entities))

    def _server_side_apply(self, manifest: Mapping[str, Any]) -> None:
        """One manager alone owns everything: what it sets no more goes. The server adds defaults of its own."""
        key = (manifest["kind"], manifest["metadata"]["name"])
        live = copy.deepcopy(dict(manifest))
        live["metadata"]["resourceVersion"] = str(len(self.log))
        if key[0] == "Service":
            live["spec"].setdefault("clusterIP", "10.0.0.1")
        if key[0] == "StatefulSet":
            container = live["spec"]["template"]["spec"]["containers"][0]
            container["terminationMessagePath"] = "/dev/termination-log"
            before = self.objects.get(key)
            if before and before["spec"]["template"] != live["spec"]["template"]:
                self.restarts += 1
        self.objects[key] = live

    # what the cluster does

    def settle(self) -> None:
        """The StatefulSet has its pods, and what drains or quiesces gets on."""
        for router in list(self.routers.values()):
            at_rest = [e for e in router.entities if not e.attributes.get("quiescing")]
            if not self.busy and len(at_rest) < len(router.entities):
                self._set(router.id, at_rest)
        for name, state in self.draining.items():
            if state == "draining":
                self.draining[name] = "drained"
        count = self.replicas or 0
        for name, live in list(self.routers.items()):
            if live.ordinal >= count:
                assert self.draining.pop(name, "") == "drained" or live.state is not RouterState.RUNNING, (
                    "lost messages"
                )
                del self.routers[name]
        for ordinal in range(count):
            self.draining.setdefault(f"mesh-{ordinal}", "none")
            if f"mesh-{ordinal}" not in self.routers:
                self.boot(ordinal)

    def boot(self, ordinal: int) -> None:
        """A pod starts from its ConfigMap, alone."""
        name = f"mesh-{ordinal}"
        seeds = self.objects["ConfigMap", "mesh-seed"]
        shared = shared_rows(lambda name: self.objects.get(("ConfigMap", name)))
        entities = [_entity(row) for row in [*json.loads(seeds["data"][f"{name}.json"]), *shared]]
        said = {e.attributes["module"] for e in entities if e.type == LOG}
        entities += [_entity(["log", {"module": m, "enable": "default"}]) for m in LOG_MODULES if m not in said]
        taken = tuple(entity for entity in entities if entity.name not in self.refuses)
        facts = RouterFacts(neighbours=self.neighbours.get(name, ()), ready=True)
        self.routers[name] = ObservedRouter(name, ordinal, RouterState.RUNNING, entities=taken, facts=facts)
        self.draining[name] = "none"

    def stop(self, name: str) -> None:
        """The router does not answer."""
        self.routers[name] = replace(self.routers[name], state=RouterState.STARTING, entities=())
        self.draining.pop(name, None)

    def entities(self, name: str) -> dict[str, Entity]:
        """The entities of a router by name."""
        return {entity.name: entity for entity in self.routers[name].entities}


_OWN_NAMES: dict[str, tuple[str, ...]] = {LOG: ("module",), ROUTER: ("id",), TELEMETRY: ()}
"""Which attributes routers make the names of their own entities of."""


def _entity(row: list[Any]) -> Entity:
    kind, attributes = row
    name = attributes.get("name") or "/".join([kind, *(attributes[key] for key in _OWN_NAMES[kind])])
    assert kind != ROUTER or attributes["saslConfigDir"]
    return Entity(kind, name, {**attributes, "name": name})
