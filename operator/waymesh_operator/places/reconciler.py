"""Reconciles one mesh, in whatever place: repeats observe → plan → apply, then writes the statuses.

It acts on the present state, not on events, and keeps nothing that a new reconciler could not do without: what it
remembers saves work, or tells drift from what routers have not received or have refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic

from waymesh_operator.errors import WaymeshError
from waymesh_operator.planning.actions import Action
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import ObservedState, drift, entity_actions, plan
from waymesh_operator.planning.status.conditions import MeshSnapshot, consumers_by_address
from waymesh_operator.resources.dependents import Resources

from .delivered import DeliveredSeeds
from .place import Facts, Observation, Pass, Place, Result, State
from .refusals import RefusalKey, Refusals
from .steady import FULL_S, SteadyState


@dataclass(frozen=True, slots=True)
class Clocks:
    """The monotonic clock, and the time of day with its time zone."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]


class Reconciler(Generic[Facts]):
    """Reconciles one mesh. A refused action is tried again after at most `again_s`; everything is computed again after
    `full_s`, even if nothing has changed."""

    def __init__(self, place: Place[Facts], clocks: Clocks, again_s: float, full_s: float = FULL_S) -> None:
        self._place = place
        self._now = clocks.now
        self._refusals = Refusals(clocks.monotonic, again_s)
        self._delivered = DeliveredSeeds()
        self._steady = SteadyState(clocks.monotonic, clocks.now, full_s)
        self._monotonic, self._full_s = clocks.monotonic, full_s
        self._desired: tuple[float, Resources, Facts, DesiredState] | None = None

    async def turn(self, resources: Resources) -> State:
        """Reconcile once. Raises WaymeshError when actions have failed; the statuses are written before."""
        busy = False
        this_pass: Pass | None = None
        for number in range(self._place.passes):
            observation, facts = await self._observe(resources)
            seen = self._all(observation, facts)
            if not number and self._steady.holds(seen):
                return "done"
            this_pass = await self._plan(resources, observation, facts)
            result = await self._place.apply(this_pass, self._refusals.due(this_pass.actions))
            self._refusals.note(this_pass.actions, result)
            busy = busy or bool(result.taken)
            if result.errors or not result.taken:
                break
        assert this_pass is not None
        state = await self._place.write_status(this_pass, result, self.snapshot(this_pass, result))
        if result.errors:
            raise WaymeshError("; ".join(result.errors))
        if busy or state == "busy" or self._refusals.soon:
            return "busy"
        if state == "done" and not self._refusals.reasons:
            self._steady.keep(seen)
        return "done"

    async def plan(self, resources: Resources) -> Pass:
        """Return the next pass without applying it."""
        return await self._plan(resources, *await self._observe(resources))

    def snapshot(self, this_pass: Pass, result: Result) -> MeshSnapshot:
        """Return what statuses are computed from, as far as all places know it."""
        return MeshSnapshot(
            this_pass.desired,
            this_pass.observed,
            self._now(),
            refused=self._refusals.reasons,
            errors=tuple(result.errors),
            obstacles=tuple(result.obstacles),
            pending=(*this_pass.withheld, *(action for action in this_pass.actions if action not in result.taken)),
            consumers=consumers_by_address(this_pass.resources.addresses, this_pass.observation.consumers),
            vhosts=this_pass.observation.vhosts,
            drift=this_pass.drift,
        )

    async def _observe(self, resources: Resources) -> tuple[Observation, Facts]:
        observation = await self._place.observe(resources)
        return observation, await self._place.facts(resources)

    async def _plan(self, resources: Resources, observation: Observation, facts: Facts) -> Pass:
        work = functools.partial(self._planned, resources, observation, facts, self._refusals.reasons)
        return await self._place.compute(work)

    def _planned(
        self,
        resources: Resources,
        seen: Observation,
        facts: Facts,
        refused: Mapping[RefusalKey, str],
    ) -> Pass:
        """Plan; in a thread where the place has one for it. The desired state of an earlier pass is still the right one
        if neither resources nor facts have changed."""
        desired = self._desired_state(resources, facts)
        fresh = self._delivered.fresh(desired, seen, self._place.was_converged)
        observed = ObservedState(
            self._place.objects(),
            seen.mesh,
            seen.draining,
            seen.troubles,
            fresh,
            refused=frozenset(refused),
            leaving=seen.leaving,
        )
        steps = [] if desired.mesh.paused else entity_actions(desired, observed)
        actions, found = plan(desired, observed, steps), drift(desired, observed, steps)
        self._delivered.note(desired, seen, actions, found, refused)
        withheld: tuple[Action, ...] = ()
        if desired.mesh.paused:
            withheld = plan(replace(desired, mesh=replace(desired.mesh, paused=False)), observed)
        return Pass(resources, facts, seen, desired, observed, actions, found, withheld)

    def _desired_state(self, resources: Resources, facts: Facts) -> DesiredState:
        known, now = self._desired, self._monotonic()
        if known is None or now >= known[0] or known[1:3] != (resources, facts):
            known = self._desired = now + self._full_s, resources, facts, self._place.desired(resources, facts)
        return known[3]

    def _all(self, observation: Observation, facts: Facts) -> object:
        """All on which plan and statuses depend."""
        return self._place.versions(), observation, self._refusals.reasons, facts
