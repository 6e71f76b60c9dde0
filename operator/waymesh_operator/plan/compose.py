"""A desired router as entities, and as the configuration that it boots with."""

from __future__ import annotations

import functools
import json
from typing import Any

from waymesh_operator.desired import DesiredRouter
from waymesh_operator.entities import (
    LOG,
    Entity,
    address_entity,
    connector_entity,
    listener_entity,
    log_entities,
    router_entity,
)


@functools.lru_cache(maxsize=1024)
def router_entities(router: DesiredRouter) -> tuple[Entity, ...]:
    """All entities of a router that can change while it runs."""
    ref = router.ref
    return (
        *(listener_entity(ref, item.part, item.host, item.port, item.role) for item in router.listeners),
        *(connector_entity(ref, item.peer, item.host, item.port) for item in router.connectors),
        *log_entities(router.log_level, dict(router.log_levels)),
        *(address_entity(address) for address in router.addresses),
    )


@functools.lru_cache(maxsize=1024)
def seed_text(router: DesiredRouter) -> str:
    """The configuration that a router boots with: a JSON list of [type, attributes], as the schema's reader takes it.

    Log modules that only say what is the default anyway are left out.
    """
    entities = [e for e in router_entities(router) if e.type != LOG or e.attributes["enable"] != "default"]
    rows = [_seed_row(entity) for entity in (router_entity(router.id, router.mode), *entities)]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def _seed_row(entity: Entity) -> list[Any]:
    attributes = {name: value for name, value in entity.attributes.items() if value is not None}
    named = {"name": entity.name, **attributes} if entity.owned else attributes
    return [entity.type, named]
