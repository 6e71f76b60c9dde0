"""`waymesh plan`: what `up` would do, as a table or as JSON."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waymesh_operator.cluster.actions import Action
from waymesh_operator.local.mesh import Environment
from waymesh_operator.local.processes import SystemLauncher
from waymesh_operator.local.state import default_root
from waymesh_operator.local.supervisor import ManifestFiles, Supervisor
from waymesh_operator.local.tables import make_console, plan_table
from waymesh_operator.routers.client import connect

CHANGES = 2
"""Exit code with --detailed-exitcode when there is something to do."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of the command."""

    files: list[Path]
    state_dir: Path | None = None
    free_ports: bool = False
    as_json: bool = False
    detailed: bool = False
    no_color: bool = False


def run_plan(options: PlanOptions) -> int:
    """Print the plan; returns the exit code. Raises WaymeshError."""
    world = Environment(SystemLauncher(), connect, lambda event: None)
    root = options.state_dir or default_root()
    supervisor = Supervisor(ManifestFiles(options.files), root, world, any_port=options.free_ports)
    supervisor.load(lock=False)
    now = time.monotonic()
    supervisor.adopt(now)
    plans = supervisor.plans(now)
    supervisor.close()
    if options.as_json:
        rows = [{"mesh": str(ref), **action_row(action)} for ref, actions in plans.items() for action in actions]
        print(json.dumps(rows, indent=2))
    else:
        console = make_console(options.no_color)
        for ref, actions in plans.items():
            console.print(plan_table(ref, actions) if actions else f"{ref}: nothing to do")
    return CHANGES if options.detailed and any(plans.values()) else 0


def action_row(action: Action | Action) -> dict[str, Any]:
    """A step as JSON."""
    row: dict[str, Any] = {
        "action": type(action).__name__,
        "router": action.router_id,
        "description": action.describe(),
    }
    entity = getattr(action, "entity", None)
    if entity is not None:
        row["entity"] = {"type": entity.type, "name": entity.name, "attributes": dict(entity.attributes)}
    return row
