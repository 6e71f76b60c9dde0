"""What is: the routers of one mesh as they were last seen."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.entities import Entity


class RouterState(enum.Enum):
    """How a router stands."""

    STARTING = "starting"
    """Exists, does not answer management requests yet (or for the moment)."""
    RUNNING = "running"
    """Answers; its entities are known."""
    EXITED = "exited"
    """Ended without being asked to, and may be started again now."""
    WAITING = "waiting"
    """Ended without being asked to, and must not be started again yet."""
    DRAINING = "draining"
    """On its way out: takes no new clients, waits for what is unsettled, then ends."""


@dataclass(frozen=True, slots=True)
class ObservedRouter:
    """One router. `entities` are the live ones of the managed types; `seed` is what it would boot with next time."""

    id: str
    ordinal: int
    state: RouterState
    seed: str = ""
    entities: tuple[Entity, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ObservedMesh:
    """All routers that exist, by id, wanted or not."""

    routers: Mapping[str, ObservedRouter] = field(default_factory=dict)
