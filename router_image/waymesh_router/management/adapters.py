"""Adapters: each reads and changes the entities of one type for the management agent.

Three kinds: `ConfiguredEntities` stores configuration (listener, connector, address, sslProfile, log, router …) and
calls callbacks on changes; `TableEntities` shows live objects of the core (connection, router.link, router.address,
router.node); anything else subclasses `EntityAdapter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, Generic, TypeVar

from waymesh_router.management.errors import conflict, not_allowed, not_found
from waymesh_router.management.identity import make_identity
from waymesh_schema.entities import EntityType

Attributes = dict[str, Any]
T = TypeVar("T")

IDENTIFYING = ("name", "identity", "type")
"""Attributes of every entity, set by the router and never by an UPDATE."""


class EntityAdapter:
    """Reads and changes the entities of one type. A read-only type only needs `rows`."""

    def __init__(self, entity_type: EntityType) -> None:
        self.entity_type = entity_type

    def rows(self, now: float) -> Iterable[Attributes]:
        """All entities with all their attributes, including `name`, `identity` and `type`."""
        raise NotImplementedError

    def select(self, names: Sequence[str], now: float, start: int, stop: int | None) -> Iterator[list[Any]]:
        """Values of the named attributes (None for a missing one) of the entities from index `start` to before `stop`.

        The entities are those that exist at the call, even if others are created or deleted while rows are read.
        """
        rows = list(islice(self.rows(now), start, stop))
        return ([row.get(name) for name in names] for row in rows)

    def find(self, key: str, value: str, now: float) -> Attributes | None:
        """The entity whose `key` ("name" or "identity") is `value`; None if there is none."""
        return next((row for row in self.rows(now) if row.get(key) == value), None)

    def create(self, attributes: Attributes) -> str:
        """Create an entity with validated attributes; returns its identity. Raises ManagementError."""
        raise not_allowed(f"{self.entity_type.name} cannot be created")

    def update(self, identity: str, attributes: Attributes) -> None:
        """Change the given (validated) attributes of an entity. Raises ManagementError."""
        raise not_allowed(f"{self.entity_type.name} cannot be updated")

    def delete(self, identity: str) -> None:
        """Delete an entity."""
        raise not_allowed(f"{self.entity_type.name} cannot be deleted")

    def publish(self) -> None:
        """Perform the operation PUBLISH on the entity."""
        raise not_allowed(f"{self.entity_type.name} cannot be published")


class ConfiguredEntities(EntityAdapter):
    """Configuration entities, whose attributes are stored here.

    `on_create(attributes)`, `on_update(attributes, changed)` and `on_delete(attributes)` apply a change; if one raises
    `ManagementError`, nothing is stored. `live(attributes, now)` returns operational attributes when entities are read.
    """

    def __init__(
        self,
        entity_type: EntityType,
        *,
        on_create: Callable[[Attributes], None] | None = None,
        on_update: Callable[[Attributes, Attributes], None] | None = None,
        on_delete: Callable[[Attributes], None] | None = None,
        live: Callable[[Attributes, float], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(entity_type)
        self.entities: dict[str, Attributes] = {}
        self._on_create = on_create
        self._on_update = on_update
        self._on_delete = on_delete
        self._live = live
        self._unique = [name for name, attribute in entity_type.attributes.items() if attribute.unique]
        self._taken: dict[tuple[str, Any], str] = {}
        self._numbers = count()

    def rows(self, now: float) -> Iterable[Attributes]:
        return [self._row(attributes, now) for attributes in self.entities.values()]

    def select(self, names: Sequence[str], now: float, start: int, stop: int | None) -> Iterator[list[Any]]:
        entities = list(islice(self.entities.values(), start, stop))
        return ([row.get(name) for name in names] for row in (self._row(entity, now) for entity in entities))

    def find(self, key: str, value: str, now: float) -> Attributes | None:
        if key == "identity":
            found = self.entities.get(value)
        else:
            found = self.entities.get(self._taken.get(("name", value), ""))
        return None if found is None else self._row(found, now)

    def setting(self, name: str, attribute: str) -> Any:
        """An attribute of the entity of that name, as it was configured; None if there is no such entity."""
        return self.entities.get(self._taken.get(("name", name), ""), {}).get(attribute)

    def create(self, attributes: Attributes) -> str:
        short = self.entity_type.name
        if self.entity_type.singleton and self.entities:
            raise conflict(f"there is already a {short} and there can be only one")
        identity = make_identity(short, attributes, self.entities, self._numbers)
        entity = attributes | {"identity": identity, "type": self.entity_type.long_name}
        entity["name"] = attributes.get("name") or (f"{short}/{identity}" if identity.isdigit() else identity)
        self._check_unique(entity, None)
        if self._on_create is not None:
            self._on_create(entity)
        self._store(entity)
        return identity

    def update(self, identity: str, attributes: Attributes) -> None:
        old = self._get(identity)
        entity = old | attributes
        self._check_unique(entity, identity)
        if self._on_update is not None:
            self._on_update(entity, attributes)
        self._forget(old)
        self._store(entity)

    def delete(self, identity: str) -> None:
        entity = self._get(identity)
        if self._on_delete is not None:
            self._on_delete(entity)
        self._forget(entity)
        del self.entities[identity]

    def _get(self, identity: str) -> Attributes:
        entity = self.entities.get(identity)
        if entity is None:
            raise not_found(f"no entity with identity={identity}")
        return entity

    def _row(self, entity: Attributes, now: float) -> Attributes:
        return dict(entity) if self._live is None else {**entity, **self._live(entity, now)}

    def _keys(self, entity: Attributes) -> list[tuple[str, Any]]:
        """The values that must be unique."""
        return [(name, entity[name]) for name in self._unique if entity.get(name) is not None]

    def _check_unique(self, entity: Attributes, own: str | None) -> None:
        """`own`: identity of the entity that changes, None for a new one."""
        for name, value in self._keys(entity):
            if self._taken.get((name, value), own) != own:
                raise conflict(f"{self.entity_type.name}: there is already one with {name}={value}")

    def _store(self, entity: Attributes) -> None:
        self.entities[entity["identity"]] = entity
        self._taken.update((key, entity["identity"]) for key in self._keys(entity))

    def _forget(self, entity: Attributes) -> None:
        for key in self._keys(entity):
            self._taken.pop(key, None)


class TableEntities(EntityAdapter, Generic[T]):
    """Live objects, read by one function per attribute; a QUERY calls only those of the requested attributes.

    `columns` must have `identity`; the default of `name` is the identity. `on_update(object, changed)` and
    `on_delete(object)` are optional.
    """

    def __init__(
        self,
        entity_type: EntityType,
        objects: Callable[[], Iterable[T]],
        columns: Mapping[str, Callable[[T, float], Any]],
        *,
        on_update: Callable[[T, Attributes], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
    ) -> None:
        super().__init__(entity_type)
        unknown = set(columns) - set(entity_type.attributes) - set(IDENTIFYING)
        if unknown:
            raise ValueError(f"{entity_type.name} has no attributes {sorted(unknown)}")
        self._objects = objects
        self._columns: dict[str, Callable[[T, float], Any]] = {"name": columns["identity"], **columns}
        self._columns["type"] = lambda _object, _now: entity_type.long_name
        self._on_update = on_update
        self._on_delete = on_delete

    def rows(self, now: float) -> Iterable[Attributes]:
        return (self._row(item, now) for item in self._objects())

    def select(self, names: Sequence[str], now: float, start: int, stop: int | None) -> Iterator[list[Any]]:
        columns = [self._columns.get(name, _absent) for name in names]
        items = list(islice(self._objects(), start, stop))
        return ([column(item, now) for column in columns] for item in items)

    def find(self, key: str, value: str, now: float) -> Attributes | None:
        item = self._item(key, value, now)
        return None if item is None else self._row(item, now)

    def update(self, identity: str, attributes: Attributes) -> None:
        if self._on_update is None:
            super().update(identity, attributes)
        else:
            self._on_update(self._existing(identity), attributes)

    def delete(self, identity: str) -> None:
        if self._on_delete is None:
            super().delete(identity)
        else:
            self._on_delete(self._existing(identity))

    def _row(self, item: T, now: float) -> Attributes:
        return {name: column(item, now) for name, column in self._columns.items()}

    def _item(self, key: str, value: str, now: float) -> T | None:
        column = self._columns[key]
        return next((item for item in self._objects() if column(item, now) == value), None)

    def _existing(self, identity: str) -> T:
        item = self._item("identity", identity, 0.0)
        if item is None:
            raise not_found(f"no entity with identity={identity}")
        return item


def _absent(_item: object, _now: float) -> None:
    return None
