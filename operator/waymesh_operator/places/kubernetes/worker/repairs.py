"""Which actions of a pass repair drift, and which make the mesh larger. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.places.kubernetes.objects import seed_name
from waymesh_operator.places.place import Pass
from waymesh_operator.planning.actions import Action, ApplyObject
from waymesh_operator.planning.manifests import MANIFEST_ANNOTATION
from waymesh_operator.router_entities.actions import EntityAction

from .inventory import Object


def repairs(action: Action, this_pass: Pass, router: Object, changed_secrets: frozenset[str]) -> bool:
    """Whether an action repairs drift. `router` is the Router before the pass; `changed_secrets`: Secrets whose desired
    contents have changed since the last pass."""
    if isinstance(action, EntityAction):
        return this_pass.drift.current > 0 and action.router_id in this_pass.drift.routers
    if not isinstance(action, ApplyObject):
        return False
    metadata = action.manifest["metadata"]
    if action.manifest["kind"] == "Secret" and metadata["name"] in changed_secrets:
        return False
    live = this_pass.observed.objects.get((action.manifest["kind"], metadata["name"]))
    wanted = (metadata.get("annotations") or {}).get(MANIFEST_ANNOTATION)
    if live is None and _is_for_growth(action, this_pass):
        return False
    if live is None:
        status = router.get("status") or {}
        return holds(status, "Programmed") and status.get("observedGeneration") == router["metadata"]["generation"]
    return bool(wanted == (live["metadata"].get("annotations") or {}).get(MANIFEST_ANNOTATION))


def _is_for_growth(action: ApplyObject, this_pass: Pass) -> bool:
    """Whether the object is a further ConfigMap for seeds that are spread anew, which changes the first one, too."""
    names = {step.manifest["metadata"]["name"] for step in this_pass.actions if isinstance(step, ApplyObject)}
    first = seed_name(this_pass.desired.mesh.ref.name, 1)
    return action.manifest["kind"] == "ConfigMap" and action.manifest["metadata"]["name"] != first and first in names


def growth(action: Action, this_pass: Pass) -> str:
    """Return the text of the Event for an action that scales the mesh up; empty for others."""
    if not isinstance(action, ApplyObject) or action.manifest["kind"] != "StatefulSet":
        return ""
    former, size = this_pass.facts.size_now or 0, int(action.manifest["spec"]["replicas"])
    return f"scale {action.manifest['metadata']['name']} from {former} to {size} routers" if size > former else ""


def holds(status: Mapping[str, Any], condition: str) -> bool:
    """Return whether a condition of a status is True."""
    conditions = status.get("conditions") or ()
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)
