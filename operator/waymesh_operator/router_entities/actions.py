"""Actions on a running router, and the comparison of the entities that it should have with those it has, which returns
the actions that remove the differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from waymesh_schema.address_match import trimmed_match
from waymesh_schema.convert import convert
from waymesh_schema.entities import entity_type

from .names import (
    ADDRESS,
    AUTOLINK,
    CONNECTOR,
    EXCHANGE,
    LINKROUTE,
    LISTENER,
    MANAGED_TYPES,
    QUIESCING,
    VHOST,
    Entity,
    free_name,
    keeps_name,
    match_of,
    quiesces,
)
from .policies import same_groups


@dataclass(frozen=True)
class CreateEntity:
    """Create an entity on a running router. `replaces`: it replaces one with other values."""

    sign: ClassVar[str] = "+"
    router_id: str
    entity: Entity
    replaces: bool = False

    def describe(self) -> str:
        """The action in words."""
        return f"{self.router_id}: {'replace' if self.replaces else 'create'} {describe_entity(self.entity)}"


@dataclass(frozen=True)
class UpdateEntity:
    """Update an entity on a running router. `changes` is name → (present, desired)."""

    sign: ClassVar[str] = "~"
    router_id: str
    entity: Entity
    changes: Mapping[str, tuple[Any, Any]]

    def describe(self) -> str:
        """The action in words."""
        changes = ", ".join(_change(name, *values) for name, values in self.changes.items())
        return f"{self.router_id}: update {self.entity.type} {short_name(self.entity)}: {changes}"


def _change(name: str, old: Any, new: Any) -> str:
    """Describe a changed attribute; a map, such as the groups of a vhost, would be too long."""
    return name if isinstance(new, Mapping) else f"{name} {old} → {new}"


@dataclass(frozen=True)
class DeleteEntity:
    """Delete an entity of a running router. `replaced`: one with other values replaces it."""

    sign: ClassVar[str] = "-"
    router_id: str
    entity: Entity
    replaced: bool = False

    def describe(self) -> str:
        """The action in words."""
        what = "remove the old" if self.replaced else "delete"
        return f"{self.router_id}: {what} {describe_entity(self.entity)}"


@dataclass(frozen=True)
class QuiesceEntity:
    """Quiesce an entity: it accepts no more messages, and the router removes it when all deliveries are settled.
    `replaced`: one with other values replaces it.
    """

    sign: ClassVar[str] = "-"
    router_id: str
    entity: Entity
    replaced: bool = False

    def describe(self) -> str:
        """The action in words."""
        what = "the old " if self.replaced else ""
        return f"{self.router_id}: quiesce and remove {what}{describe_entity(self.entity)}"


@dataclass(frozen=True)
class DrainRouter:
    """Set `draining` and `drainTimeoutSeconds` of a router. The next observations show its progress."""

    sign: ClassVar[str] = "-"
    router_id: str
    timeout_s: int

    def describe(self) -> str:
        """The action in words."""
        return f"drain router {self.router_id} (at most {self.timeout_s} s)"


@dataclass(frozen=True)
class UndrainRouter:
    """Reset `draining`: the router is desired again before it was removed."""

    sign: ClassVar[str] = "+"
    router_id: str

    def describe(self) -> str:
        """The action in words."""
        return f"take router {self.router_id} back into service"


@dataclass(frozen=True)
class MoveClients:
    """Set `clientShare` of a router: it closes connections of clients above it that were open `older_s` before."""

    sign: ClassVar[str] = "~"
    router_id: str
    share: int
    older_s: int

    def describe(self) -> str:
        """The action in words."""
        return f"router {self.router_id}: move clients above {self.share} to other routers"


def short_name(entity: Entity) -> str:
    """The name for display, without the prefix of the resource."""
    return entity.base_name.split("/", 3)[-1] if entity.owned else entity.name.removeprefix(f"{entity.type}/")


def describe_entity(entity: Entity) -> str:
    """Describe an entity: type, name and the most important attributes."""
    attributes = entity.attributes
    if entity.type == ADDRESS:
        kind, match = match_of(entity)
        return f"address {short_name(entity)} ({kind} {match}, {attributes.get('distribution')})"
    if entity.type in (LISTENER, CONNECTOR):
        return f"{entity.type} {short_name(entity)} ({attributes.get('host')}:{attributes.get('port')})"
    if entity.type == VHOST:
        return f"vhost {short_name(entity)} ({attributes.get('hostname')})"
    return f"{entity.type} {short_name(entity)}"


EntityAction = CreateEntity | UpdateEntity | DeleteEntity | QuiesceEntity
RouterAction = EntityAction | DrainRouter | UndrainRouter | MoveClients


def changed_attributes(wanted: Entity, live: Entity) -> dict[str, tuple[Any, Any]]:
    """Return attributes of `wanted` whose live value differs in meaning: name → (live, wanted). Names are not compared.

    Values are compared after parsing by the schema: `"5672"` and 5672, or an absent value and its default, are the
    same.
    """
    table = entity_type(wanted.type).attributes
    changed = {}
    for name, value in wanted.attributes.items():
        if value == live.attributes.get(name) or name in SECRETS or (name in LATER and name not in live.attributes):
            continue
        if wanted.type == VHOST and name == "groups" and same_groups(live.attributes.get(name), value):
            continue
        attribute = table[name]
        if value == attribute.default and live.attributes.get(name) is None:
            continue
        present, desired = (
            attribute.default if v is None else convert(attribute, v) for v in (live.attributes.get(name), value)
        )
        if present != desired and not _phase_default(wanted, name, present, desired):
            changed[name] = (present, desired)
    if live.attributes.get(QUIESCING):
        changed[QUIESCING] = (True, False)
    return changed


LATER = ("peerNames", "recheckPeers")
"""Attributes that routers of older images lack: a listener is not recreated because of them."""
SECRETS = ("saslPassword", "password")
"""Attributes that a router does not report. They hold the path of a file, which follows from the entity's name."""


def _phase_default(wanted: Entity, name: str, present: Any, desired: Any) -> bool:
    """Return whether the difference is only a phase that the manifest omits and the router reports as the default
    number."""
    if desired is not None or name not in ("ingressPhase", "egressPhase", "phase"):
        return False
    if name == "phase":
        return bool(present == (1 if wanted.attributes.get("direction") == "in" else 0))
    return bool(present == (1 if name == "egressPhase" and wanted.attributes.get("waypoint") else 0))


def exclusive_key(entity: Entity) -> tuple[str, ...]:
    """Return the value besides the name that must be unique in a router: the match of an address (separators at its
    ends do not count), the address of an exchange, the port of a listener."""
    attributes = entity.attributes
    if entity.type == ADDRESS:
        kind, match = match_of(entity)
        return (entity.type, kind, trimmed_match(str(match)))
    if entity.type == VHOST:
        return (entity.type, str(attributes.get("hostname")))
    if entity.type == LISTENER:
        return (entity.type, str(attributes.get("port")))
    if entity.type == EXCHANGE:
        return (entity.type, str(attributes.get("address")), str(attributes.get("phase")))
    if entity.type == LINKROUTE:
        kind, match = match_of(entity)
        return (entity.type, kind, trimmed_match(str(match)), str(attributes.get("direction")), _target(entity))
    if entity.type == AUTOLINK:
        return (entity.type, entity.name, *(str(attributes.get(name)) for name in _SET_BY_CREATE))
    if entity.type == CONNECTOR and not keeps_name(entity):
        return (entity.type, str(attributes.get("host")), str(attributes.get("port")))
    return (entity.type, entity.name)


_SET_BY_CREATE = tuple(
    name
    for name, attribute in entity_type(AUTOLINK).attributes.items()
    if attribute.create and not attribute.update and name not in ("name", "type")
)
"""Attributes that only CREATE sets. If one changes, it is a different link, which can exist beside the old one."""


def _target(entity: Entity) -> str:
    return str(entity.attributes.get("connection") or entity.attributes.get("containerId"))


def creatable(entity: Entity) -> bool:
    """Whether entities of this type can be created at run time; a router has the others from its start."""
    return "CREATE" in entity_type(entity.type).operations


def updatable(entity: Entity, attributes: Mapping[str, Any]) -> bool:
    """Whether all these attributes of a live entity can be changed by UPDATE."""
    kind = entity_type(entity.type)
    return "UPDATE" in kind.operations and all(kind.attributes[name].update for name in attributes)


_RANK = {kind: rank for rank, kind in enumerate(MANAGED_TYPES)}
Name = tuple[str, str]
"""Type and name of an entity, unique within a router."""


def plan_entities(router_id: str, wanted: Iterable[Entity], live: Collection[Entity]) -> list[EntityAction]:
    """Return actions: delete what conflicts with new entities, create, update, then delete the rest.

    An entity that others refer to is created before them and deleted after them. Some are quiesced instead of deleted.
    """
    wanted, live = _without_known(list(wanted), live)
    updates: list[UpdateEntity] = []
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
    updates.sort(key=_gives_up_vhost)
    creates.sort(key=lambda create: _RANK[create.entity.type])
    deletes = _deletes(router_id, [e for e in live if _name(e) not in kept], creates)
    needed = {exclusive_key(create.entity) for create in creates} | {_name(create.entity) for create in creates}
    first = [d for d in deletes if exclusive_key(d.entity) in needed or _name(d.entity) in needed]
    early = {_name(d.entity) for d in first}
    removals = (_removal(delete) for delete in deletes if _name(delete.entity) not in early)
    return [*first, *creates, *updates, *(removal for removal in removals if removal is not None)]


def _without_known(wanted: list[Entity], live: Collection[Entity]) -> tuple[list[Entity], list[Entity]]:
    """Return the entities without the pairs that are known to agree: of thousands, these are nearly all."""
    known = {id(entity) for entity in wanted}
    rest = []
    for entity in live:
        other = entity.known.agrees_with
        if other is None or id(other) not in known:
            rest.append(entity)
        else:
            known.remove(id(other))
    return [entity for entity in wanted if id(entity) in known], rest


def _gives_up_vhost(update: UpdateEntity) -> bool:
    """Return whether a listener loses its vhost: this must follow the policy's deactivation, or the operator could be
    denied."""
    return update.entity.type == LISTENER and not update.changes.get("policyVhost", (None, True))[1]


def _removal(delete: DeleteEntity) -> DeleteEntity | QuiesceEntity | None:
    """How an entity is removed; None if it is being quiesced already."""
    if not quiesces(delete.entity):
        return delete
    quiescing = delete.entity.attributes.get(QUIESCING)
    return None if quiescing else QuiesceEntity(delete.router_id, delete.entity, delete.replaced)


def _deletes(router_id: str, left: Iterable[Entity], creates: Iterable[CreateEntity]) -> list[DeleteEntity]:
    """Return entities to delete: ours that are no longer desired, and any whose name a new entity needs."""
    replaced = {create.entity.key for create in creates}
    names = {_name(create.entity) for create in creates}
    surplus = [entity for entity in left if entity.owned or _name(entity) in names]
    surplus.sort(key=lambda entity: -_RANK[entity.type])
    return [DeleteEntity(router_id, entity, entity.key in replaced) for entity in surplus]


def agrees(wanted: Entity, live: Entity) -> bool:
    """Return whether there are no `changed_attributes`. The same two objects are compared once."""
    if live.known.agrees_with is wanted:
        return True
    if changed_attributes(wanted, live):
        return False
    live.known.agrees_with = wanted
    return True


def _match(router_id: str, wanted: Entity, candidates: list[Entity]) -> tuple[Entity | None, list[UpdateEntity]]:
    """Return the live entity that equals the desired one or can be updated to it, and the update."""
    for live in candidates:
        if agrees(wanted, live):
            return live, []
    for live in candidates:
        changes = changed_attributes(wanted, live)
        if updatable(wanted, changes):
            return live, [UpdateEntity(router_id, live, changes)]
    return None, []


def _create(router_id: str, wanted: Entity, same_key: list[Entity]) -> CreateEntity:
    """Create an entity beside its predecessors under a free name; if they must be deleted first, under the base
    name."""
    if not same_key:
        return CreateEntity(router_id, wanted)
    key = exclusive_key(wanted)
    coexists = not keeps_name(wanted) and all(exclusive_key(live) != key for live in same_key)
    name = free_name(wanted.name, {live.name for live in same_key}) if coexists else wanted.name
    return CreateEntity(router_id, Entity(wanted.type, name, wanted.attributes), replaces=True)


def _name(entity: Entity) -> Name:
    return entity.type, entity.name
