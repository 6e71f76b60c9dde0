"""What routers boot with: JSON lists of [type, attributes], as the schema's reader takes them."""

from __future__ import annotations

import functools
import gzip
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_operator.router_entities.entities import LOG, ROUTER, STANDING_TYPES, Entity, router_entity

from .mesh import DesiredRouter

SHARED_FILE = "shared.json.gz"


@functools.lru_cache(maxsize=1024)
def seed_text(router: DesiredRouter) -> str:
    """The whole configuration of one router in one text."""
    return render((router_entity(router.id, router.mode), *router.entities))


def shared_seed(entities: Iterable[Entity]) -> bytes:
    """What all routers of a mesh boot with, the same octets for the same entities."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as file:
        file.write(render(entities).encode())
    return packed.getvalue()


def own_seed(router: DesiredRouter, settings: Mapping[str, Any]) -> str:
    """What one router boots with besides; `settings` are further attributes of its router entity."""
    base = router_entity(router.id, router.mode)
    own = (entity for entity in router.own if entity.type != ROUTER)
    return render((Entity(ROUTER, base.name, {**base.attributes, **settings}), *own))


def render(entities: Iterable[Entity]) -> str:
    """Entities as text. Log modules that only say what is the default anyway are left out."""
    told = [e for e in entities if e.type != LOG or e.attributes["enable"] != "default"]
    return "[\n" + ",\n".join(json.dumps(_row(entity), ensure_ascii=False) for entity in told) + "\n]\n"


def _row(entity: Entity) -> list[Any]:
    attributes = {name: value for name, value in entity.attributes.items() if value is not None}
    named = entity.type not in STANDING_TYPES
    return [entity.type, {"name": entity.name, **attributes} if named else attributes]
