"""What the reconciler of a mesh needs of the place where its routers run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from waymesh_operator.planning.actions import Action
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.parts import Obstacle
from waymesh_operator.planning.plan import Drift, ObservedState
from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.routers.observed import ObservedMesh, Trouble, VhostCounts

Facts = TypeVar("Facts")
_T = TypeVar("_T")
State = Literal["done", "late", "busy"]
"""Of a mesh after a reconcile: nothing is in progress; the same, but a status is written later; something is."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The routers of a mesh as they were observed."""

    mesh: ObservedMesh = field(default_factory=ObservedMesh)
    # drainStatus (none, draining, drained) of each router that answers.
    draining: Mapping[str, str] = field(default_factory=dict)
    # The current start of each router.
    start_ids: Mapping[str, str] = field(default_factory=dict)
    # Why routers do not run, those that do not exist included.
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    # Routers that were told to drain so that they can be stopped, if no object records it.
    leaving: frozenset[str] = frozenset()
    # Consumers by mobile address, if they were asked for, and what routers count.
    consumers: Mapping[str, int] = field(default_factory=Counter)
    vhosts: VhostCounts = field(default_factory=VhostCounts)


@dataclass(frozen=True, slots=True)
class Refused:
    """An action that a router refused, and its reason."""

    action: Action
    error: str


@dataclass(slots=True)
class Result:
    """The result of applying a plan."""

    taken: list[Action] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    # Descriptions of failures.
    errors: list[str] = field(default_factory=list)
    # The subset that persists until a person acts: an object of the Router is refused, or its name is taken.
    obstacles: list[Obstacle] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of observing and planning."""

    resources: Resources
    # What the place knows besides the routers: its `Facts`.
    facts: Any
    observation: Observation
    desired: DesiredState
    observed: ObservedState
    actions: tuple[Action, ...]
    drift: Drift
    # Steps that wait while the mesh is paused.
    withheld: tuple[Action, ...] = ()


class Place(Protocol[Facts]):
    """Where the routers of one mesh run. A pass calls `observe`, `facts`, `desired` and `apply` in this order; the last
    pass of a reconcile is followed by `write_status`."""

    @property
    def passes(self) -> int:
        """Maximum number of passes of a reconcile, which continues while there is something to do."""

    @property
    def was_converged(self) -> bool:
        """Whether the routers had received their configuration before the first observation."""

    async def observe(self, resources: Resources) -> Observation:
        """Observe the routers."""

    async def facts(self, resources: Resources) -> Facts:
        """Return what the desired state depends on besides the resources: equal facts, equal desired state."""

    def desired(self, resources: Resources, facts: Facts) -> DesiredState:
        """Return the desired state. Pure; may be called in another thread."""

    def objects(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Return the observed objects of the mesh by kind and name; may be called in another thread."""

    def versions(self) -> object:
        """Return a value that differs when a resource or an object has changed."""

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Do a long computation."""

    async def apply(self, this_pass: Pass, steps: Sequence[Action]) -> Result:
        """Apply these actions of the pass as far as possible."""

    async def write_status(self, this_pass: Pass, result: Result, seen: MeshSnapshot) -> State:
        """Show the state of the resources."""
