"""From what should be and what is to what must be done. Pure."""

from __future__ import annotations

from .actions import (
    Action,
    CreateEntity,
    CreateRouter,
    DeleteEntity,
    EntityAction,
    RestartRouter,
    StopRouter,
    UpdateEntity,
    WriteSeed,
)
from .compose import router_entities, seed_text
from .observed import ObservedMesh, ObservedRouter, RouterState
from .planner import plan

__all__ = [
    "Action",
    "CreateEntity",
    "CreateRouter",
    "DeleteEntity",
    "EntityAction",
    "ObservedMesh",
    "ObservedRouter",
    "RestartRouter",
    "RouterState",
    "StopRouter",
    "UpdateEntity",
    "WriteSeed",
    "plan",
    "router_entities",
    "seed_text",
]
