"""The planner of a cluster.

What always holds for a plan:
- the same desired and observed state give the same plan, and once all of it has come true the next one is empty;
- any step may fail, or the operator end after any step: the next plan goes on from what is there;
- what running routers are told comes before what they boot with next time, so that a change counts as handed out only
  when both are done; both come before any pod is made or goes;
- routers leave highest ordinal first, one at a time, and drained; what is placed on single routers is on its new place
  before it goes from the old one;
- what no resource asked for is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from waymesh_operator.desired import LEAVING_ANNOTATION, DesiredCluster, Manifest, router_id, with_replicas
from waymesh_operator.entities import STANDING_TYPES, Entity

from .actions import (
    ApplyObject,
    ClusterAction,
    DeleteEntity,
    DeleteObject,
    DrainRouter,
    EntityAction,
    QuiesceEntity,
    Scale,
    UndrainRouter,
)
from .entities import plan_entities
from .needs import needs_apply
from .observed import ObservedCluster, ObservedRouter, RouterState

STATEFUL_SET, CONFIG_MAP = "StatefulSet", "ConfigMap"
REMOVABLE = ("Service", "NetworkPolicy", "PodDisruptionBudget", "Issuer", "Certificate")
"""Kinds of which an object of ours that is wanted no more is deleted. Secrets stay: others may write them by then."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Entities on the routers: `current` differ from what they boot with, `unmanaged` no resource asked for."""

    current: int = 0
    unmanaged: int = 0


def plan_cluster(desired: DesiredCluster, observed: ObservedCluster) -> tuple[ClusterAction, ...]:
    """The steps, in order, that make `observed` into `desired`, as far as they can be taken now.

    Empty when nothing is to do, when only time can help, and when the mesh is paused or stalled.
    """
    if desired.mesh.paused or desired.stalled:
        return ()
    *others, seeds, workload = (_applied(manifest, observed) for manifest in desired.objects)
    actions: list[ClusterAction] = [action for action in others if action is not None]
    if desired.mesh.repair or seeds is not None:
        # With the seeds as they should be, what was asked for has been handed out: a difference now is drift.
        actions += _entity_actions(desired, observed)
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
    current = 0
    if not needs_apply(seeds, _live(observed, seeds)):
        current = len({(action.router_id, action.entity.key) for action in _entity_actions(desired, observed)})
    unmanaged = 0
    for router in desired.mesh.routers:
        known = {entity.key for entity in router.entities}
        live = observed.mesh.routers.get(router.id)
        unmanaged += sum(_foreign(e) and e.key not in known for e in (live.entities if live else ()))
    return Drift(current, unmanaged)


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


def _replicas(desired: DesiredCluster, observed: ObservedCluster) -> tuple[int, str]:
    """The replicas of the live StatefulSet (those wanted if there is none), and the router marked as leaving."""
    live = _live(observed, desired.objects[-1])
    if live is None:
        return desired.size, ""
    annotations = live["metadata"].get("annotations") or {}
    return int(live["spec"].get("replicas", 1)), annotations.get(LEAVING_ANNOTATION, "")


def _returning(desired: DesiredCluster, observed: ObservedCluster) -> Iterable[UndrainRouter]:
    """The router that was to leave and is wanted again. Others that drain do so because a person or their end wants
    it."""
    replicas, leaving = _replicas(desired, observed)
    router = observed.mesh.routers.get(leaving)
    if router is None or replicas > desired.size or router.state is not RouterState.RUNNING:
        return ()
    drains = observed.draining.get(leaving, "none") != "none"
    return (UndrainRouter(leaving),) if drains and router.ordinal < desired.size else ()


def _leaving(desired: DesiredCluster, observed: ObservedCluster) -> Iterable[DrainRouter | Scale]:
    """The next step of the highest router that is too many. One that is on its way out is waited for."""
    replicas, _ = _replicas(desired, observed)
    if replicas <= desired.size or any(r.ordinal >= replicas for r in observed.mesh.routers.values()):
        return ()
    name = router_id(desired.mesh.ref, replicas - 1)
    if _must_drain(name, observed.mesh.routers.get(name), observed):
        return (DrainRouter(name, desired.mesh.drain_timeout_s),)
    if observed.draining.get(name) == "draining":
        return ()
    return (Scale(replicas - 1, with_replicas(desired.objects[-1], replicas - 1)),)


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
