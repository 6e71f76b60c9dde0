"""What is: the routers and objects of one mesh as they were last seen."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waymesh_operator.router_entities.entities import Entity


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


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """One mesh in a cluster.

    `objects` are the live ones with the Router's label, by (kind, name). `mesh` has every router whose pod exists, also
    one that ends. `draining` is the drainStatus (none, draining, drained) of each router that answers; for a router
    that does not, there is no entry. `hindrances` has the trouble of routers that do not run, those without a pod too.
    `fresh` are running routers that have not had all of the configuration yet.
    """

    objects: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    mesh: ObservedMesh = ObservedMesh()
    draining: Mapping[str, str] = field(default_factory=dict)
    hindrances: Mapping[str, Trouble] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
