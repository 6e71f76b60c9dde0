"""`waymesh plan` for this machine: what `waymesh up` would do, as a table or as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waymesh_operator.cluster.actions import Action, CreateRouter
from waymesh_operator.local.mesh import Environment
from waymesh_operator.local.processes import SystemLauncher
from waymesh_operator.local.state import default_root
from waymesh_operator.local.supervisor import ManifestFiles, MeshPlan, Supervisor
from waymesh_operator.local.tables import plan_table
from waymesh_operator.local.terminal import make_console
from waymesh_operator.router_entities.names import Entity
from waymesh_operator.routers.management import connect

EXIT_CHANGES = 2
"""Exit code with --detailed-exitcode when there is something to do."""


@dataclass(frozen=True, slots=True)
class LocalPlanOptions:
    """The options of the command."""

    files: list[Path]
    state_dir: Path | None = None
    free_ports: bool = False
    as_json: bool = False
    detailed: bool = False
    no_color: bool = False


def run_local_plan(options: LocalPlanOptions) -> int:
    """Print the plan and return the exit code. Raises WaymeshError."""
    world = Environment(SystemLauncher(), connect, lambda event: None)
    root = options.state_dir or default_root()
    supervisor = Supervisor(ManifestFiles(options.files), root, world, any_port=options.free_ports)
    supervisor.load(lock=False)
    now = time.monotonic()
    supervisor.adopt(now)
    plans = supervisor.plans(now)
    supervisor.close()
    if options.as_json:
        rows = [{"mesh": str(ref), **row} for ref, found in plans.items() for row in _rows(found)]
        print(json.dumps(rows, indent=2))
    else:
        console = make_console(options.no_color)
        if not plans:
            console.print("no Router in the manifests: nothing to do")
        for ref, found in plans.items():
            console.print(plan_table(ref, found.actions) if found.actions else f"{ref}: nothing to do")
            for view in found.unresolved:
                console.print(f"{view.subject} will not work: {view.state}: {view.error}", style="red", soft_wrap=True)
    return EXIT_CHANGES if options.detailed and any(found.actions for found in plans.values()) else 0


def _rows(found: MeshPlan) -> Iterator[dict[str, Any]]:
    for view in found.unresolved:
        description = f"{view.subject} will not work: {view.error}"
        yield {"action": "Unresolved", "router": "", "reason": view.state, "description": description}
    for action in found.actions:
        yield action_row(action)


def _entity_row(entity: Entity) -> dict[str, Any]:
    return {"type": entity.type, "name": entity.name, "attributes": dict(entity.attributes)}


def action_row(action: Action) -> dict[str, Any]:
    """Return a step as a JSON object."""
    row: dict[str, Any] = {
        "action": type(action).__name__,
        "router": action.router_id,
        "description": action.describe(),
    }
    entity = getattr(action, "entity", None)
    if entity is not None:
        row["entity"] = _entity_row(entity)
    if isinstance(action, CreateRouter):
        row["entities"] = [_entity_row(entity) for entity in action.router.entities]
    return row
