"""The plan of a mesh: from the desired and the observed state to actions. Pure; the same for a cluster and local mode.

Invariants of a plan:
- the same desired and observed state give the same plan, and after it has been applied the next plan is empty, except
for updates of the files of pods whose Secrets were written;
- any action may fail, or the operator stop after any action: the next plan continues from the observed state;
- running routers are changed before their boot configuration, so that a change counts as delivered only when both
are done; both come before any router is started or stopped;
- access from outside the cluster is closed before the listeners of running routers change, and opened after that:
it must not lead to a listener without the protection that the manifest requires;
- a router that runs is not restarted to change an entity: entities change live;
- routers are removed highest ordinal first and after draining, several at a time if each keeps a neighbour that stays;
entities placed on single routers are created in the new place before they are deleted from the old one;
- entities and objects that no resource requested are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.router import router_id
from waymesh_operator.router_entities.actions import (
    DeleteEntity,
    DrainRouter,
    EntityAction,
    QuiesceEntity,
    UndrainRouter,
    plan_entities,
)
from waymesh_operator.router_entities.names import STANDING_TYPES, unowned
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState, Trouble

from .actions import (
    Action,
    ApplyObject,
    CreateRouter,
    DeleteObject,
    RestartRouter,
    Scale,
    StopRouter,
    UpdateFiles,
    WriteSeed,
)
from .balance import moves
from .desired import DesiredState
from .manifests import LEAVING_ANNOTATION, Manifest, is_exposure, needs_apply, opens, with_replicas
from .pods import outdated_pods, replaced_pods


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observed state of one mesh, in a cluster or in local mode."""

    # Live objects with the Router's label, by (kind, name). Empty in local mode.
    objects: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    # Every router that has a pod (or process), terminating ones included.
    mesh: ObservedMesh = field(default_factory=ObservedMesh)
    # drainStatus (none, draining, drained) of each router that answers.
    draining: Mapping[str, str] = field(default_factory=dict)
    # Why routers do not run, those without a pod included.
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    # Running routers that have not received all of the configuration yet.
    fresh: frozenset[str] = frozenset()
    # Entities that routers have refused so far, by router id and `Entity.key`: they have not received these.
    refused: frozenset[tuple[str, tuple[str, str]]] = frozenset()
    # Local mode: routers that were told to drain so that they can be stopped. In a cluster the StatefulSet records it.
    leaving: frozenset[str] = frozenset()


CONFIG_MAP = "ConfigMap"
REMOVABLE = ("Service", "Issuer", "Certificate", "TLSRoute", "TCPRoute", "Route", "Ingress")
"""Kinds whose objects are deleted when they are no longer desired. Secrets are kept: others may write them by then. A
mesh needs the other kinds as long as its Router exists, and they are deleted with it."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences on running routers that no change of a resource explains."""

    # Entities that differ from the configuration that the routers received.
    current: int = 0
    # Entities that no resource requested.
    unmanaged: int = 0
    # Ids of the routers with such differences.
    routers: frozenset[str] = frozenset()


def plan(
    desired: DesiredState, observed: ObservedState, at_routers: Sequence[EntityAction] | None = None
) -> tuple[Action, ...]:
    """Return the actions, in order, that turn `observed` into `desired`, as far as they are possible now.

    Empty if there is nothing to do or only to wait, and if the mesh is paused. `at_routers`: the `entity_actions`, if
    they are known: with thousands of entities, they are most of the work.
    """
    if desired.mesh.paused:
        return ()
    if at_routers is None:
        at_routers = entity_actions(desired, observed)
    *others, workload = [_applied(manifest, observed) for manifest in desired.objects] or [None]
    seed_maps = [step for step in _given(*others) if step.manifest["kind"] == CONFIG_MAP]
    given = [step for step in _given(*others) if step.manifest["kind"] != CONFIG_MAP]
    removed = list(_removed(desired, observed))
    closing = [step for step in removed if is_exposure(observed.objects[step.kind, step.name])]
    writable = seed_maps if not desired.obstacles.of("configuration") else []
    seeds: list[ApplyObject | WriteSeed] = [*writable, *_changed_seeds(desired, observed)]
    # A router with the seed that it should have has received the configuration: a difference now is drift, except on
    # routers that booted with an older seed.
    every = desired.mesh.repair or bool(seed_maps)
    behind = observed.fresh | {action.router_id for action in seeds}
    return (
        *closing,
        *(step for step in given if not opens(step.manifest)),
        *(action for action in at_routers if every or action.router_id in behind or _key(action) in observed.refused),
        *seeds,
        *(step for step in given if opens(step.manifest)),
        *_returning(desired, observed),
        *(_given(workload) if _may_start(desired, observed) else []),
        *_starting(desired, observed),
        *_leaving(desired, observed),
        *(step for step in removed if step not in closing),
        *moves(desired.mesh, observed),
        *(UpdateFiles(pod) for pod in outdated_pods(desired.mesh.ref.name, observed.objects, observed.mesh)),
    )


def _given(*actions: ApplyObject | None) -> list[ApplyObject]:
    return [action for action in actions if action is not None]


def _may_start(desired: DesiredState, observed: ObservedState) -> bool:
    """Return whether pods of the desired StatefulSet would find their certificates and their seeds."""
    certificates = not desired.obstacles.of("certificates") or _live(observed, desired.objects[-1]) is not None
    return certificates and not desired.obstacles.of("configuration")


def drift(
    desired: DesiredState, observed: ObservedState, at_routers: Sequence[EntityAction] | None = None
) -> Drift:
    """Return entities that differ although the routers received them, and entities that no resource requested.
    `at_routers` as in `plan`."""
    if desired.mesh.paused:
        return Drift()
    seeds = [manifest for manifest in desired.objects if manifest["kind"] == CONFIG_MAP]
    found: set[tuple[str, tuple[str, str]]] = set()
    if not any(needs_apply(manifest, _live(observed, manifest)) for manifest in seeds):
        steps = entity_actions(desired, observed) if at_routers is None else at_routers
        found = {_key(step) for step in steps if step.router_id not in observed.fresh} - observed.refused
    unmanaged = 0
    for router in desired.mesh.routers:
        live = observed.mesh.routers.get(router.id)
        present = unowned(live.entities if live else ())
        if foreign := [entity for entity in present if entity.type not in STANDING_TYPES]:
            known = {entity.key for entity in unowned(router.entities)}
            unmanaged += sum(entity.key not in known for entity in foreign)
    return Drift(len(found), unmanaged, frozenset(name for name, _ in found))


def _key(step: EntityAction) -> tuple[str, tuple[str, str]]:
    return step.router_id, step.entity.key


def _live(observed: ObservedState, manifest: Manifest) -> Any:
    return observed.objects.get((manifest["kind"], manifest["metadata"]["name"]))


def _applied(manifest: Manifest, observed: ObservedState) -> ApplyObject | None:
    live = _live(observed, manifest)
    restarts = replaced_pods(manifest, live) if live and manifest["kind"] == "StatefulSet" else 0
    return ApplyObject(manifest, live is None, restarts) if needs_apply(manifest, live) else None


def entity_actions(desired: DesiredState, observed: ObservedState) -> list[EntityAction]:
    """Return actions on the routers that run and stay."""
    planned: list[EntityAction] = []
    for router in desired.mesh.routers:
        live = observed.mesh.routers.get(router.id)
        if live is not None and live.state is RouterState.RUNNING:
            planned += plan_entities(router.id, router.entities, live.entities)
    if not planned:
        return []
    running = {
        name: {entity.base_name for entity in router.entities}
        for name, router in observed.mesh.routers.items()
        if router.state is RouterState.RUNNING
    }
    return [action for action in planned if not _stays(action, desired, running)]


def _stays(action: EntityAction, desired: DesiredState, running: dict[str, set[str]]) -> bool:
    """Return whether an entity that is no longer desired here has to stay for now."""
    if not isinstance(action, DeleteEntity | QuiesceEntity) or action.replaced:
        return False
    name = action.entity.base_name
    if any(name == held or name.startswith(f"{held}/") for held in desired.held):
        return True
    places = desired.placements.get(name)
    return places is not None and not any(name in running.get(place, ()) for place in places)


# Routers that local mode starts. In a cluster Kubernetes starts them from the StatefulSet.


def _changed_seeds(desired: DesiredState, observed: ObservedState) -> Iterable[WriteSeed]:
    for name, seed in desired.seeds.items():
        live = observed.mesh.routers.get(name)
        if live is not None and live.state is RouterState.RUNNING and live.seed != seed:
            yield WriteSeed(name, seed)


def _starting(desired: DesiredState, observed: ObservedState) -> Iterable[CreateRouter | RestartRouter]:
    for router in desired.mesh.routers:
        live = observed.mesh.routers.get(router.id)
        if router.id not in desired.seeds:
            continue
        if live is None:
            yield CreateRouter(router, desired.seeds[router.id])
        elif live.state is RouterState.EXITED:
            yield RestartRouter(router, desired.seeds[router.id], live.reason)


# Routers being removed.


def _replicas(desired: DesiredState, observed: ObservedState) -> int:
    """Return the number of routers: replicas of the live StatefulSet, in local mode processes."""
    if not desired.objects:
        return max((router.ordinal + 1 for router in observed.mesh.routers.values()), default=0)
    live = _live(observed, desired.objects[-1])
    return desired.size if live is None else int(live["spec"].get("replicas", 1))


def _draining_to_shrink(desired: DesiredState, observed: ObservedState) -> frozenset[str]:
    """Return routers that drain because the mesh shrinks. Others drain on a person's request or because they
    terminate."""
    live = _live(observed, desired.objects[-1]) if desired.objects else None
    if live is None:
        return observed.leaving
    lowest = (live["metadata"].get("annotations") or {}).get(LEAVING_ANNOTATION, "").rpartition("-")[2]
    first = int(lowest) if lowest.isdecimal() else _replicas(desired, observed)
    return frozenset(router_id(desired.mesh.ref, k) for k in range(first, _replicas(desired, observed)))


def _returning(desired: DesiredState, observed: ObservedState) -> Iterable[UndrainRouter]:
    """Return routers that were being removed and are desired again."""
    leaving = _draining_to_shrink(desired, observed)
    for wanted in desired.mesh.routers:
        router = observed.mesh.routers.get(wanted.id)
        running = router is not None and router.state is RouterState.RUNNING
        if wanted.id in leaving and running and observed.draining.get(wanted.id, "none") != "none":
            yield UndrainRouter(wanted.id)


def _leaving(desired: DesiredState, observed: ObservedState) -> Iterable[DrainRouter | Scale | StopRouter]:
    """Return the next actions on surplus routers: drain as many as may drain together, and remove the highest ones that
    are drained. A router that does not answer cannot be drained by management: it drains when it is terminated."""
    replicas = _replicas(desired, observed)
    if replicas <= desired.size:
        return
    names = {ordinal: router_id(desired.mesh.ref, ordinal) for ordinal in range(desired.size, replicas)}
    for ordinal in range(replicas - 1, _lowest_to_drain(desired.size, replicas, names, observed) - 1, -1):
        if _must_drain(names[ordinal], observed.mesh.routers.get(names[ordinal]), observed):
            yield DrainRouter(names[ordinal], desired.mesh.drain_timeout_s)
    left = replicas
    while left > desired.size and not _stays_for_now(names[left - 1], observed):
        left -= 1
    if left < replicas and desired.objects:
        yield Scale(left, with_replicas(desired.objects[-1], left))
    elif left < replicas:
        yield from _stopped([names[ordinal] for ordinal in range(replicas - 1, left - 1, -1)], observed)


def _stopped(names: Iterable[str], observed: ObservedState) -> Iterable[StopRouter]:
    """Local mode: stop the running ones."""
    for name in names:
        router = observed.mesh.routers.get(name)
        if router is not None and router.state is not RouterState.DRAINING:
            yield StopRouter(name)


def _lowest_to_drain(size: int, replicas: int, names: Mapping[int, str], observed: ObservedState) -> int:
    """Return the lowest ordinal of the routers that may drain at the same time.

    No path leads through a drained router, so each of them must have a neighbour below all of them; the routers below
    are connected without those above. The highest one may always drain.
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


def _stays_for_now(name: str, observed: ObservedState) -> bool:
    """Return whether a surplus router still has to drain, is draining, or may answer again soon."""
    router = observed.mesh.routers.get(name)
    silent = router is not None and router.state is RouterState.SILENT
    return silent or _must_drain(name, router, observed) or observed.draining.get(name) == "draining"


def _must_drain(name: str, router: ObservedRouter | None, observed: ObservedState) -> bool:
    """Return whether to ask a surplus router to drain. One that does not answer drains when it is terminated."""
    runs = router is not None and router.state is RouterState.RUNNING
    return runs and observed.draining.get(name, "none") == "none"


def _removed(desired: DesiredState, observed: ObservedState) -> Iterable[DeleteObject]:
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in desired.objects}
    # Services last: routes of a listener are only looked for if its Service exists.
    for (kind, name), live in sorted(observed.objects.items(), key=lambda item: (item[0][0] == "Service", item[0])):
        owners = live["metadata"].get("ownerReferences") or ()
        ours = any(owner.get("uid") == desired.uid and owner.get("controller") for owner in owners)
        if ours and kind in REMOVABLE and (kind, name) not in wanted:
            yield DeleteObject(kind, name, live.get("apiVersion", ""))
