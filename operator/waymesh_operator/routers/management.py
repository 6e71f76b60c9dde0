"""Reading the managed entities of a router, and carrying out one step of a plan on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_client.errors import ClientError, ManagementError
from waymesh_operator.cluster.actions import CreateEntity, DeleteEntity, EntityAction, QuiesceEntity, UpdateEntity
from waymesh_operator.errors import LiveError
from waymesh_operator.router_entities.entities import LOG, MANAGED_TYPES, QUIESCING, ROUTER, Entity

from .client import LiveClient

NOT_FOUND, NOT_IMPLEMENTED = 404, 501


def read_entities(client: LiveClient, types: Iterable[str] = MANAGED_TYPES) -> tuple[Entity, ...]:
    """All entities of these types, ours and others'; none of a type that the router does not know. Raises LiveError."""
    entities = []
    for kind in types:
        try:
            rows = client.query(kind)
        except ManagementError as error:
            if error.status != NOT_IMPLEMENTED:
                raise LiveError(f"{kind}: {error}", refused=str(error)) from error
            continue
        except ClientError as error:
            raise LiveError(str(error)) from error
        entities += [_entity(kind, row) for row in rows]
    return tuple(entities)


def apply_entity(client: LiveClient, action: EntityAction) -> Entity | None:
    """Carry out one step; returns the entity as it is then, None for one that is gone.

    Raises LiveError with the router's own reason; what is gone already counts as deleted. One that was to change may
    have come to rest and removed itself since it was read: it is gone then, and what is planned next makes it anew.
    """
    entity = action.entity
    try:
        match action:
            case CreateEntity():
                given = {name: value for name, value in entity.attributes.items() if value is not None}
                return _entity(
                    entity.type, {"name": entity.name, **client.create(entity.type, given, name=entity.name)}
                )
            case UpdateEntity():
                return _updated(client, entity, {name: new for name, (_, new) in action.changes.items()})
            case QuiesceEntity():
                return _updated(client, entity, {QUIESCING: True})
            case DeleteEntity():
                client.delete(entity.type, name=entity.name)
    except ManagementError as error:
        if isinstance(action, CreateEntity) or error.status != NOT_FOUND:
            raise LiveError(f"{action.describe()}: {error}", refused=str(error)) from error
    except ClientError as error:
        raise LiveError(f"{action.describe()}: {error}") from error
    return None


def _updated(client: LiveClient, entity: Entity, wanted: Mapping[str, Any]) -> Entity:
    name = str(entity.attributes.get("name") or entity.name)
    return _entity(entity.type, {"name": name, **client.update(wanted, entity.type, name=name)})


def set_draining(client: LiveClient, name: str, timeout_s: int | None) -> None:
    """Have the router of this name drain within a time, or serve again for None. Raises LiveError."""
    changes: dict[str, Any] = {"draining": timeout_s is not None}
    if timeout_s is not None:
        changes["drainTimeoutSeconds"] = timeout_s
    try:
        client.update(changes, ROUTER, name=name)
    except ManagementError as error:
        raise LiveError(f"draining: {error}", refused=str(error)) from error
    except ClientError as error:
        raise LiveError(str(error)) from error


def _entity(kind: str, row: Mapping[str, Any]) -> Entity:
    # A log module is called by its name alone in some versions, by type and name in others.
    name = f"log/{row.get('module')}" if kind == LOG else str(row.get("name") or row.get("identity"))
    return Entity(kind, name, row)
