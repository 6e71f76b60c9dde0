"""`waymesh-router --dump`: the configuration of a running router as a configuration file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient
from waymesh_schema.config import PROCESSING_ORDER
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.model import EntityType

REQUEST_S = 5.0
USER_GROUP = ENTITY_TYPES["vhostUserGroupSettings"]


def dump(url: str) -> int:
    """Print the configuration of the router that listens at `url`; returns the exit code: 0, or 1 with the reason on
    stderr."""
    try:
        client = ManagementClient(url, timeout_s=REQUEST_S)
        try:
            entities = [
                (kind, row)
                for kind in (ENTITY_TYPES[name] for name in PROCESSING_ORDER)
                if not kind.refused
                for row in client.query(kind.long_name)
            ]
        finally:
            client.close()
    except (ClientError, ValueError) as error:
        sys.stderr.write(f"waymesh-router: dump: {error}\n")
        return 1
    sys.stdout.writelines(configuration(entities))
    return 0


def configuration(entities: Iterable[tuple[EntityType, Mapping[str, Any]]]) -> Iterator[str]:
    """The lines of a *.json configuration file with these entities, without default values.

    A router does not report passwords: comments mark where one may be missing.
    """
    found = [(kind, written(kind, row)) for kind, row in entities]
    kept = [(kind, values) for kind, values in found if values]
    yield "[\n"
    for index, (kind, values) in enumerate(kept):
        for attribute in kind.attributes.values():
            if attribute.hidden:
                yield f"  # {kind.name} {values.get('name', '')}: {attribute.name} is not reported; add it if set\n"
        comma = "," if index + 1 < len(kept) else ""
        yield f"  {json.dumps([kind.name, values], ensure_ascii=False)}{comma}\n"
    yield "]\n"


def written(kind: EntityType, row: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an entity to write: those that can be set at creation and differ from the default."""
    values = _changed(kind, row)
    if kind.name in ("log", "router", "telemetry", "policy"):  # singletons need no name
        values.pop("name", None)
    if kind.name == "policy":
        values.pop("policyDir", None)  # its vhosts are written like all others
    if kind.name == "vhost" and "groups" in values:
        values["groups"] = {name: _changed(USER_GROUP, group) for name, group in values["groups"].items()}
    return {} if kind.name == "log" and values.keys() <= {"module"} else values


def _changed(kind: EntityType, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: row[name]
        for name, attribute in kind.attributes.items()
        if attribute.create and name != "type" and row.get(name) not in (None, attribute.default)
    }
