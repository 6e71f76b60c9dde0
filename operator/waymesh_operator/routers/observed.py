"""The observed state of routers. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waymesh_operator.router_entities.names import Entity


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
class Trouble:
    """Why a router does not run: one word, and a sentence for a person. `lasting`: time alone does not help."""

    word: str = ""
    message: str = ""
    lasting: bool = True

    def __bool__(self) -> bool:
        return bool(self.word)

    def __str__(self) -> str:
        return f"{self.word}: {self.message}" if self.message else self.word


NO_TROUBLE = Trouble()


@dataclass(frozen=True, slots=True)
class RouterFacts:
    """What a router says of itself besides its entities, as far as a status shows it.

    `known` are the other routers it has a path to, `neighbours` those next to it, `unsettled` the deliveries that
    wait on it. `ready` is the pod's Ready condition, `certificate_not_after` the end of the certificate that it
    shows.
    """

    known: frozenset[str] = frozenset()
    neighbours: tuple[str, ...] = ()
    unsettled: int = 0
    ready: bool = False
    certificate_not_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class ObservedRouter:
    """One router. `entities` are the live ones of the managed types; `seed` is what it would boot with next time (local
    mode; in a cluster the seed ConfigMap says it)."""

    id: str
    ordinal: int
    state: RouterState
    seed: str = ""
    entities: tuple[Entity, ...] = ()
    reason: str = ""
    facts: RouterFacts = RouterFacts()


@dataclass(frozen=True, slots=True)
class ObservedMesh:
    """All routers that exist, by id, wanted or not."""

    routers: Mapping[str, ObservedRouter] = field(default_factory=dict)
