"""One pass of a reconcile: what was observed, and from it the desired state and the plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from waymesh_operator.kube import RESOURCES
from waymesh_operator.places.kubernetes.apply import DeliveredSeeds, RefusalKey
from waymesh_operator.places.kubernetes.context import ClusterContext
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.objects import seed_name
from waymesh_operator.planning.actions import Action, ApplyObject
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.manifests import MANIFEST_ANNOTATION
from waymesh_operator.planning.plan import Drift, ObservedState, drift, entity_actions, plan
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.router_entities.actions import EntityAction
from waymesh_operator.routers.observed import Trouble

from .inventory import Key, Object
from .live_mesh import LiveMesh

_RESOURCES = frozenset(kind.kind for kind in RESOURCES)


@dataclass(frozen=True, slots=True)
class ReconcilePass:
    """One pass of observing and planning."""

    context: ClusterContext
    live: LiveMesh
    desired: DesiredState
    observed: ObservedState
    actions: tuple[Action, ...]
    drift: Drift
    # Steps that wait while the mesh is paused.
    withheld: tuple[Action, ...] = ()
    # Secrets whose desired contents have changed since the last pass.
    changed_secrets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Observation:
    """The routers of the mesh, why some do not run, the current start of each, the entities that they refused, and the
    namespaces of other operators that leave the mesh alone."""

    live: LiveMesh
    troubles: Mapping[str, Trouble]
    start_ids: Mapping[str, str]
    refused: Mapping[RefusalKey, str]
    others: tuple[str, ...] = ()


def planned(
    resources: Resources,
    context: ClusterContext,
    objects: Mapping[Key, Object],
    observation: Observation,
    delivered: DeliveredSeeds,
    former: ReconcilePass | None = None,
) -> ReconcilePass:
    """Compute the pure part of a pass; run in a thread. Updates `delivered`. `former`: an earlier pass with the same
    resources, whose desired state is still the right one if the context has not changed."""
    live = observation.live
    body = objects["Router", resources.router.ref.namespace, resources.router.ref.name]
    same = former is not None and replace(context, entropy=former.context.entropy) == former.context
    desired = former.desired if former is not None and same else desired_cluster(resources, context)
    owned = {(kind, name): body for (kind, _, name), body in objects.items() if kind not in _RESOURCES}
    was_converged = holds(body.get("status") or {}, "Converged")
    fresh = delivered.fresh(desired, live.mesh, observation.start_ids, was_converged)
    observed = ObservedState(owned, live.mesh, live.draining, {**live.silent, **observation.troubles}, fresh)
    steps = [] if desired.mesh.paused else entity_actions(desired, observed)
    actions, found = plan(desired, observed, steps), drift(desired, observed, steps)
    if desired.objects:
        delivered.note(desired, live.mesh, observation.start_ids, actions, found, observation.refused)
    withheld = plan(replace(desired, mesh=replace(desired.mesh, paused=False)), observed) if desired.mesh.paused else ()
    return ReconcilePass(context, live, desired, observed, actions, found, withheld)


def repairs(action: Action, this_pass: ReconcilePass, router: Object) -> bool:
    """Whether an action repairs drift. `router` is the Router before the reconcile."""
    if isinstance(action, EntityAction):
        return this_pass.drift.current > 0 and action.router_id in this_pass.drift.routers
    if not isinstance(action, ApplyObject):
        return False
    metadata = action.manifest["metadata"]
    if action.manifest["kind"] == "Secret" and metadata["name"] in this_pass.changed_secrets:
        return False
    live = this_pass.observed.objects.get((action.manifest["kind"], metadata["name"]))
    wanted = (metadata.get("annotations") or {}).get(MANIFEST_ANNOTATION)
    if live is None and _is_for_growth(action, this_pass):
        return False
    if live is None:
        status = router.get("status") or {}
        return holds(status, "Programmed") and status.get("observedGeneration") == router["metadata"]["generation"]
    return bool(wanted == (live["metadata"].get("annotations") or {}).get(MANIFEST_ANNOTATION))


def _is_for_growth(action: ApplyObject, this_pass: ReconcilePass) -> bool:
    """Whether the object is a further ConfigMap for seeds that are spread anew, which changes the first one, too."""
    names = {step.manifest["metadata"]["name"] for step in this_pass.actions if isinstance(step, ApplyObject)}
    first = seed_name(this_pass.desired.mesh.ref.name, 1)
    return action.manifest["kind"] == "ConfigMap" and action.manifest["metadata"]["name"] != first and first in names


def growth(action: Action, this_pass: ReconcilePass) -> str:
    """Return the text of the Event for an action that scales the mesh up; empty for others."""
    if not isinstance(action, ApplyObject) or action.manifest["kind"] != "StatefulSet":
        return ""
    former, size = this_pass.context.size_now or 0, int(action.manifest["spec"]["replicas"])
    return f"scale {action.manifest['metadata']['name']} from {former} to {size} routers" if size > former else ""


def holds(status: Mapping[str, Any], condition: str) -> bool:
    """Return whether a condition of a status is True."""
    conditions = status.get("conditions") or ()
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)
