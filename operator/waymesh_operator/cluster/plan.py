"""What is: the routers and objects of one mesh as they were last seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.router import router_id
from waymesh_operator.router_entities.actions import (
    DeleteEntity,
    DrainRouter,
    EntityAction,
    QuiesceEntity,
    UndrainRouter,
)
from waymesh_operator.router_entities.diff import plan_entities
from waymesh_operator.router_entities.names import STANDING_TYPES, Entity
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState, Trouble

from .actions import ApplyObject, ClusterAction, DeleteObject, Scale
from .desired import DesiredCluster
from .objects import LEAVING_ANNOTATION, Manifest, needs_apply, with_replicas


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """One mesh in a cluster.

    `objects` are the live ones with the Router's label, by (kind, name). `mesh` has every router whose pod exists, also
    one that ends. `draining` is the drainStatus (none, draining, drained) of each router that answers; for a router
    that does not, there is no entry. `hindrances` has the trouble of routers that do not run, those without a pod too.
    `fresh` are running routers that have not had all of the configuration yet.
    """

    objects: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    mesh: ObservedMesh = field(default_factory=ObservedMesh)
    draining: Mapping[str, str] = field(default_factory=dict)
    hindrances: Mapping[str, Trouble] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()


STATEFUL_SET, CONFIG_MAP = "StatefulSet", "ConfigMap"
REMOVABLE = ("Service", "NetworkPolicy", "PodDisruptionBudget", "Issuer", "Certificate")
"""Kinds of which an object of ours that is wanted no more is deleted. Secrets stay: others may write them by then."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Entities on the routers: `current` differ from what they boot with, on `routers`; `unmanaged` no resource asked
    for."""

    current: int = 0
    unmanaged: int = 0
    routers: frozenset[str] = frozenset()


def plan_cluster(desired: DesiredCluster, observed: ObservedCluster) -> tuple[ClusterAction, ...]:
    """The steps, in order, that make `observed` into `desired`, as far as they can be taken now.

    Empty when nothing is to do, when only time can help, and when the mesh is paused or stalled.
    """
    if desired.mesh.paused or desired.stalled:
        return ()
    *others, seeds, workload = (_applied(manifest, observed) for manifest in desired.objects)
    actions: list[ClusterAction] = [action for action in others if action is not None]
    # With the seeds as they should be, what was asked for has been handed out: a difference now is drift, except on
    # routers that booted with older seeds.
    every = desired.mesh.repair or seeds is not None
    actions += [step for step in _entity_actions(desired, observed) if every or step.router_id in observed.fresh]
    actions += [action for action in (seeds,) if action is not None]
    actions += _returning(desired, observed)
    actions += [action for action in (workload,) if action is not None]
    actions += _leaving(desired, observed)
    return (*actions, *_removed(desired, observed))


def drift(desired: DesiredCluster, observed: ObservedCluster) -> Drift:
    """What differs on the routers though it was handed out, and what no resource asked for (log modules aside)."""
    if desired.mesh.paused or desired.stalled:
        return Drift()
    seeds = next(manifest for manifest in desired.objects if manifest["kind"] == CONFIG_MAP)
    found: set[tuple[str, tuple[str, str]]] = set()
    if not needs_apply(seeds, _live(observed, seeds)):
        found = {(step.router_id, step.entity.key) for step in _entity_actions(desired, observed)}
        found = {(name, key) for name, key in found if name not in observed.fresh}
    unmanaged = 0
    for router in desired.mesh.routers:
        known = {entity.key for entity in router.entities}
        live = observed.mesh.routers.get(router.id)
        unmanaged += sum(_foreign(e) and e.key not in known for e in (live.entities if live else ()))
    return Drift(len(found), unmanaged, frozenset(name for name, _ in found))


def _foreign(entity: Entity) -> bool:
    return not entity.owned and entity.type not in STANDING_TYPES


def _live(observed: ObservedCluster, manifest: Manifest) -> Any:
    return observed.objects.get((manifest["kind"], manifest["metadata"]["name"]))


def _applied(manifest: Manifest, observed: ObservedCluster) -> ApplyObject | None:
    live = _live(observed, manifest)
    return ApplyObject(manifest, new=live is None) if needs_apply(manifest, live) else None


def _entity_actions(desired: DesiredCluster, observed: ObservedCluster) -> list[EntityAction]:
    """Steps on the routers that run and stay."""
    actions: list[EntityAction] = []
    running = {
        name: {entity.base_name for entity in router.entities}
        for name, router in observed.mesh.routers.items()
        if router.state is RouterState.RUNNING
    }
    for router in desired.mesh.routers:
        live = observed.mesh.routers.get(router.id)
        if live is not None and live.state is RouterState.RUNNING:
            planned = plan_entities(router.id, router.entities, live.entities)
            actions += [action for action in planned if not _stays(action, desired, running)]
    return actions


def _stays(action: EntityAction, desired: DesiredCluster, running: dict[str, set[str]]) -> bool:
    """Whether an entity that is wanted here no more has to stay for now."""
    if not isinstance(action, DeleteEntity | QuiesceEntity) or action.replaced:
        return False
    name = action.entity.base_name
    if any(name == held or name.startswith(f"{held}/") for held in desired.held):
        return True
    places = desired.placements.get(name)
    return places is not None and not any(name in running.get(place, ()) for place in places)


# Routers that leave.


def _replicas(desired: DesiredCluster, observed: ObservedCluster) -> tuple[int, int]:
    """Replicas of the live StatefulSet (those wanted if there is none), and the lowest ordinal marked as leaving."""
    live = _live(observed, desired.objects[-1])
    if live is None:
        return desired.size, desired.size
    replicas = int(live["spec"].get("replicas", 1))
    number = (live["metadata"].get("annotations") or {}).get(LEAVING_ANNOTATION, "").rpartition("-")[2]
    return replicas, int(number) if number.isdecimal() else replicas


def _returning(desired: DesiredCluster, observed: ObservedCluster) -> Iterable[UndrainRouter]:
    """Routers that were to leave and are wanted again. Others that drain do so because a person or their end wants
    it."""
    replicas, first = _replicas(desired, observed)
    for ordinal in range(first, min(desired.size, replicas)):
        name = router_id(desired.mesh.ref, ordinal)
        router = observed.mesh.routers.get(name)
        if router and router.state is RouterState.RUNNING and observed.draining.get(name, "none") != "none":
            yield UndrainRouter(name)


def _leaving(desired: DesiredCluster, observed: ObservedCluster) -> Iterable[DrainRouter | Scale]:
    """The next steps of the routers that are too many: drain as many as may go together, and take away those at the top
    that are drained. A router that does not answer cannot be told: its own end drains it."""
    replicas, _ = _replicas(desired, observed)
    if replicas <= desired.size:
        return
    names = {ordinal: router_id(desired.mesh.ref, ordinal) for ordinal in range(desired.size, replicas)}
    for ordinal in range(replicas - 1, _lowest_to_drain(desired.size, replicas, names, observed) - 1, -1):
        if _must_drain(names[ordinal], observed.mesh.routers.get(names[ordinal]), observed):
            yield DrainRouter(names[ordinal], desired.mesh.drain_timeout_s)
    left = replicas
    while left > desired.size and not _stays_for_now(names[left - 1], observed):
        left -= 1
    if left < replicas:
        yield Scale(left, with_replicas(desired.objects[-1], left))


def _lowest_to_drain(size: int, replicas: int, names: Mapping[int, str], observed: ObservedCluster) -> int:
    """The ordinal from which on routers may drain at the same time.

    No path leads over a router that is drained. So each of them must have a neighbour below them all; the routers below
    are connected without those above. The highest one may always go.
    """
    reach: list[int] = []
    lowest = replicas - 1
    for ordinal in range(replicas - 1, size - 1, -1):
        if _stays_for_now(names[ordinal], observed):
            known = observed.mesh.routers
            neighbours = [known[name].ordinal for name in known[names[ordinal]].facts.neighbours if name in known]
            reach.append(min((number for number in neighbours if number < ordinal), default=-1))  # -1: it needs none
        if all(number < ordinal for number in reach):
            lowest = ordinal
    return lowest


def _stays_for_now(name: str, observed: ObservedCluster) -> bool:
    """Whether a router that is too many still has to drain, or is not done with it."""
    router = observed.mesh.routers.get(name)
    draining = observed.draining.get(name)
    return _must_drain(name, router, observed) or draining == "draining"


def _must_drain(name: str, router: ObservedRouter | None, observed: ObservedCluster) -> bool:
    """Whether a router that is too many has to be told. One that does not answer cannot be: its own end drains it."""
    runs = router is not None and router.state is RouterState.RUNNING
    return runs and observed.draining.get(name, "none") == "none"


def _removed(desired: DesiredCluster, observed: ObservedCluster) -> Iterable[DeleteObject]:
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in desired.objects}
    for (kind, name), live in sorted(observed.objects.items(), key=lambda item: item[0]):
        owners = live["metadata"].get("ownerReferences") or ()
        ours = any(owner.get("uid") == desired.uid and owner.get("controller") for owner in owners)
        if ours and kind in REMOVABLE and (kind, name) not in wanted:
            yield DeleteObject(kind, name)
