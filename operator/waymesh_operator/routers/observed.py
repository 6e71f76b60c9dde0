"""The observed state of routers. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waymesh_operator.router_entities.names import Entity


class RouterState(enum.Enum):
    """The state of a router's process or pod."""

    STARTING = "starting"
    """Exists, does not answer management requests (yet)."""
    RUNNING = "running"
    """Answers; its entities are known."""
    SILENT = "silent"
    """Has not answered the last request. For a short time, what it reported last counts; it is not changed."""
    EXITED = "exited"
    """Ended unexpectedly, and may be restarted now."""
    WAITING = "waiting"
    """Ended unexpectedly, and must not be restarted yet."""
    DRAINING = "draining"
    """Received SIGTERM, and has not ended yet."""


RUNS = frozenset({RouterState.RUNNING, RouterState.SILENT})
"""States in which what a router reported counts."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a router does not run: one word, and a sentence for users."""

    word: str = ""
    message: str = ""
    # Whether waiting does not help.
    lasting: bool = True

    def __bool__(self) -> bool:
        return bool(self.word)

    def __str__(self) -> str:
        return f"{self.word}: {self.message}" if self.message else self.word


NO_TROUBLE = Trouble()
JUST_STARTED = Trouble("Starting", "the router is starting", lasting=False)
"""Of a router that has not had the time to answer yet."""


@dataclass(frozen=True, slots=True)
class RouterFacts:
    """A router's data for statuses, besides its entities."""

    # The other routers to which it has a path, and those to which it is connected.
    known: frozenset[str] = frozenset()
    neighbours: tuple[str, ...] = ()
    # Unsettled deliveries on it.
    unsettled: int = 0
    # Container-ids of the brokers that have connected to it.
    containers: frozenset[str] = frozenset()
    # The Ready condition of its pod.
    ready: bool = False
    # When the certificate that it presents expires.
    certificate_not_after: datetime | None = None
    # Edge routers at it that no user group of a VhostPolicy names.
    edges_without_group: int = 0
    # Whether it refuses clients because it uses `memory_limit` bytes of memory.
    memory_full: bool = False
    memory_limit: int = 0


@dataclass(frozen=True, slots=True)
class VhostCounts:
    """What routers count: open and refused connections by host name of the vhost, other refusals also by group."""

    connections: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    denied: Counter[tuple[str, str]] = field(default_factory=Counter)
    dry_run: Counter[str] = field(default_factory=Counter)
    """Connections and links that dry runs allowed."""

    def add(self, other: VhostCounts) -> None:
        """Add another router's counters."""
        self.connections.update(other.connections)
        self.refused.update(other.refused)
        self.denied.update(other.denied)
        self.dry_run.update(other.dry_run)


@dataclass(frozen=True, slots=True)
class ObservedRouter:
    """One router as last observed."""

    id: str
    ordinal: int
    state: RouterState
    # Local mode: the configuration with which it boots next time. In a cluster the seed ConfigMap has it.
    seed: str = ""
    # Live entities of the managed types.
    entities: tuple[Entity, ...] = ()
    reason: str = ""
    facts: RouterFacts = RouterFacts()


@dataclass(frozen=True, slots=True)
class ObservedMesh:
    """All routers that exist, by id, desired or not."""

    routers: Mapping[str, ObservedRouter] = field(default_factory=dict)
