"""Reading the managed entities of a router, and carrying out one step of a plan on it."""

from __future__ import annotations

from waymesh_client.errors import ClientError, ManagementError
from waymesh_operator.entities import LOG, MANAGED_TYPES, Entity
from waymesh_operator.errors import LiveError
from waymesh_operator.plan import CreateEntity, DeleteEntity, EntityAction, UpdateEntity

from .client import LiveClient

NOT_FOUND = 404


def read_entities(client: LiveClient) -> tuple[Entity, ...]:
    """All entities of the managed types, ours and others'. Raises LiveError."""
    entities = []
    for kind in MANAGED_TYPES:
        try:
            rows = client.query(kind)
        except ClientError as error:
            raise LiveError(str(error)) from error
        for row in rows:
            # A log module is called by its name alone in some versions, by type and name in others.
            name = f"log/{row.get('module')}" if kind == LOG else str(row.get("name") or row.get("identity"))
            entities.append(Entity(kind, name, row))
    return tuple(entities)


def apply_entity(client: LiveClient, action: EntityAction) -> None:
    """Carry out one step. Raises LiveError with the router's own reason; what is gone already counts as deleted."""
    entity = action.entity
    try:
        match action:
            case CreateEntity():
                given = {name: value for name, value in entity.attributes.items() if value is not None}
                client.create(entity.type, given, name=entity.name)
            case UpdateEntity():
                wanted = {name: new for name, (_, new) in action.changes.items()}
                client.update(wanted, entity.type, name=str(entity.attributes.get("name") or entity.name))
            case DeleteEntity():
                client.delete(entity.type, name=entity.name)
    except ManagementError as error:
        if not (isinstance(action, DeleteEntity) and error.status == NOT_FOUND):
            raise LiveError(f"{action.describe()}: {error}") from error
    except ClientError as error:
        raise LiveError(f"{action.describe()}: {error}") from error
