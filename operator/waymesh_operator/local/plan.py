"""The planner of local mode.

What always holds for a plan:
- the same desired and observed state give the same plan, and once it is carried out the next one is empty;
- a router that runs is never restarted: what changes, changes live;
- routers come lowest ordinal first and go highest ordinal first, one at a time, and they go after all else is done;
- an entity that is replaced exists in its new form before the old one goes, unless both want the same port, match or
  name;
- what no resource asked for (a name without our prefix) is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable

from waymesh_operator.cluster.actions import Action, CreateRouter, RestartRouter, StopRouter, WriteSeed
from waymesh_operator.cluster.mesh import DesiredMesh, DesiredRouter, seed_text
from waymesh_operator.router_entities.diff import plan_entities
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState


def plan(desired: DesiredMesh, observed: ObservedMesh) -> tuple[Action, ...]:
    """The steps, in order, that make `observed` into `desired`. Empty when nothing is to do or the mesh is paused."""
    if desired.paused:
        return ()
    actions: list[Action] = []
    for router in desired.routers:
        actions.extend(_plan_router(router, observed.routers.get(router.id), desired.repair))
    wanted = {router.id for router in desired.routers}
    surplus = [r for r in observed.routers.values() if r.id not in wanted and r.state is not RouterState.DRAINING]
    for gone in sorted(surplus, key=lambda router: router.ordinal, reverse=True):
        actions.append(StopRouter(gone.id, desired.drain_timeout_s))
    return tuple(actions)


def _plan_router(router: DesiredRouter, live: ObservedRouter | None, repair: bool) -> Iterable[Action]:
    seed = seed_text(router)
    if live is None:
        return [CreateRouter(router, seed)]
    if live.state is RouterState.EXITED:
        return [RestartRouter(router, seed, live.reason)]
    if live.state is not RouterState.RUNNING:
        return []
    if live.seed == seed:
        # What was asked for last has been carried out: a difference now is drift.
        return plan_entities(router.id, router.entities, live.entities) if repair else []
    # The seed comes last: as long as it is the old one, the change counts as not carried out.
    return [*plan_entities(router.id, router.entities, live.entities), WriteSeed(router.id, seed)]
