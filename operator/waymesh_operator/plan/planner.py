"""The planner.

What always holds for a plan:
- the same desired and observed state give the same plan, and once it is carried out the next one is empty;
- a router that runs is never restarted: what changes, changes live;
- routers come lowest ordinal first and go highest ordinal first, one at a time, and they go after all else is done;
- an entity that is replaced exists in its new form before the old one goes, unless both want the same port or match;
- what no resource asked for (a name without our prefix) is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable

from waymesh_operator.desired import DesiredMesh, DesiredRouter, seed_text
from waymesh_operator.entities import (
    Entity,
    alternate_name,
    changed_attributes,
    creatable,
    exclusive_key,
    updatable,
)

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
from .observed import ObservedMesh, ObservedRouter, RouterState


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
        return _plan_entities(router, live) if repair else []
    # The seed comes last: as long as it is the old one, the change counts as not carried out.
    return [*_plan_entities(router, live), WriteSeed(router.id, seed)]


def _plan_entities(router: DesiredRouter, live: ObservedRouter) -> list[EntityAction]:
    """Entity steps of one router: what stands in the way goes, then the new comes, then updates, then the rest goes."""
    updates: list[EntityAction] = []
    creates: list[CreateEntity] = []
    kept: set[tuple[str, str]] = set()
    by_key: dict[tuple[str, str], list[Entity]] = {}
    for entity in live.entities:
        by_key.setdefault(entity.key, []).append(entity)
    for wanted in router.entities:
        same_key = by_key.get(wanted.key, [])
        match, update = _match(router.id, wanted, same_key)
        if match is None and creatable(wanted):
            creates.append(_create(router.id, wanted, same_key))
        elif match is not None:
            kept.add((match.type, match.name))
            updates.extend(update)
    surplus = [e for e in live.entities if e.owned and (e.type, e.name) not in kept]
    replaced = {create.entity.key for create in creates}
    deletes = [DeleteEntity(router.id, entity, entity.key in replaced) for entity in surplus]
    needed = {exclusive_key(create.entity) for create in creates} | {(c.entity.type, c.entity.name) for c in creates}
    first = [d for d in deletes if exclusive_key(d.entity) in needed or (d.entity.type, d.entity.name) in needed]
    return [*first, *creates, *updates, *(d for d in deletes if d not in first)]


def _match(router_id: str, wanted: Entity, candidates: list[Entity]) -> tuple[Entity | None, list[EntityAction]]:
    """The live entity that is, or by an update becomes, the wanted one; and that update."""
    for live in candidates:
        if not changed_attributes(wanted, live):
            return live, []
    for live in candidates:
        changes = changed_attributes(wanted, live)
        if updatable(wanted, changes):
            return live, [UpdateEntity(router_id, live, changes)]
    return None, []


def _create(router_id: str, wanted: Entity, same_key: list[Entity]) -> CreateEntity:
    """Make an entity under a name that is free; if none is, its bearer goes first."""
    if not same_key:
        return CreateEntity(router_id, wanted)
    key = exclusive_key(wanted)
    coexists = all(exclusive_key(live) != key for live in same_key)
    name = alternate_name(same_key[0].name) if coexists and len(same_key) == 1 else wanted.name
    return CreateEntity(router_id, Entity(wanted.type, name, wanted.attributes), replaces=True)
