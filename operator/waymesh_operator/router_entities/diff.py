"""Steps that make the entities of one running router those that are wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from waymesh_operator.cluster.actions import CreateEntity, DeleteEntity, EntityAction, QuiesceEntity, UpdateEntity

from .entities import (
    MANAGED_TYPES,
    QUIESCING,
    Entity,
    changed_attributes,
    creatable,
    exclusive_key,
    free_name,
    keeps_name,
    quiesces,
    updatable,
)

_RANK = {kind: rank for rank, kind in enumerate(MANAGED_TYPES)}
Name = tuple[str, str]
"""Type and name of an entity: no router has two with the same."""


def plan_entities(router_id: str, wanted: Iterable[Entity], live: Collection[Entity]) -> list[EntityAction]:
    """What stands in the way goes, then the new comes, then updates, then the rest goes.

    What others refer to comes before them, and goes after them. What is to end its work first is only told to go.
    """
    updates: list[EntityAction] = []
    creates: list[CreateEntity] = []
    kept: set[Name] = set()
    by_key: dict[tuple[str, str], list[Entity]] = {}
    for entity in live:
        by_key.setdefault(entity.key, []).append(entity)
    for entity in wanted:
        same_key = by_key.get(entity.key, [])
        match, update = _match(router_id, entity, same_key)
        if match is not None:
            kept.add(_name(match))
            updates.extend(update)
        elif creatable(entity):
            creates.append(_create(router_id, entity, same_key))
    creates.sort(key=lambda create: _RANK[create.entity.type])
    deletes = _deletes(router_id, [e for e in live if _name(e) not in kept], creates)
    needed = {exclusive_key(create.entity) for create in creates} | {_name(create.entity) for create in creates}
    first = [d for d in deletes if exclusive_key(d.entity) in needed or _name(d.entity) in needed]
    early = {_name(d.entity) for d in first}
    removals = (_removal(delete) for delete in deletes if _name(delete.entity) not in early)
    return [*first, *creates, *updates, *(removal for removal in removals if removal is not None)]


def _removal(delete: DeleteEntity) -> DeleteEntity | QuiesceEntity | None:
    """How an entity goes; None for one that is on its way."""
    if not quiesces(delete.entity):
        return delete
    told = delete.entity.attributes.get(QUIESCING)
    return None if told else QuiesceEntity(delete.router_id, delete.entity, delete.replaced)


def _deletes(router_id: str, left: Iterable[Entity], creates: Iterable[CreateEntity]) -> list[DeleteEntity]:
    """What goes: what we made and want no more, and what has the name of something that we have to make."""
    replaced = {create.entity.key for create in creates}
    names = {_name(create.entity) for create in creates}
    surplus = [entity for entity in left if entity.owned or _name(entity) in names]
    surplus.sort(key=lambda entity: -_RANK[entity.type])
    return [DeleteEntity(router_id, entity, entity.key in replaced) for entity in surplus]


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
    """Make an entity beside its predecessors under a name that is free; where they must go first, under its own."""
    if not same_key:
        return CreateEntity(router_id, wanted)
    key = exclusive_key(wanted)
    coexists = not keeps_name(wanted) and all(exclusive_key(live) != key for live in same_key)
    name = free_name(wanted.name, {live.name for live in same_key}) if coexists else wanted.name
    return CreateEntity(router_id, Entity(wanted.type, name, wanted.attributes), replaces=True)


def _name(entity: Entity) -> Name:
    return entity.type, entity.name
