"""Router entities that stand for resources: their names, their attributes, and when two values mean the same.

Names of ours are `k8s/<namespace>/<kind>/<name>`, with a further part where a resource needs several entities. A
replacement that is made while its predecessor still exists gets the suffix `~1`, which no resource name can have; its
own replacement gets the name without suffix again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_schema.convert import convert
from waymesh_schema.entities import entity_type
from waymesh_schema.loglevels import LOG_MODULES

from .specs import Address, Ref

OWNED_PREFIX = "k8s/"
ALTERNATE_SUFFIX = "~1"

ADDRESS, CONNECTOR, LISTENER, LOG, ROUTER = "router.config.address", "connector", "listener", "log", "router"
MANAGED_TYPES = (LISTENER, CONNECTOR, ADDRESS, LOG)
"""Types whose live entities are compared with what is wanted."""


@dataclass(frozen=True)
class Entity:
    """An entity as it is wanted, or as a router reports it. `type` is the short name in the schema."""

    type: str
    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def base_name(self) -> str:
        """The name without the suffix of a replacement."""
        return self.name.removesuffix(ALTERNATE_SUFFIX)

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same when the entity is replaced."""
        return self.type, self.base_name

    @property
    def owned(self) -> bool:
        """Whether the name says that a resource asked for it."""
        return self.name.startswith(OWNED_PREFIX)


def entity_name(ref: Ref, kind: str, *parts: str) -> str:
    """`k8s/<namespace>/<kind>/<name>`, with parts appended for a resource that needs several entities."""
    return OWNED_PREFIX + "/".join((ref.namespace, kind, ref.name, *parts))


def alternate_name(taken: str) -> str:
    """The name for a replacement of the entity called `taken`."""
    base = taken.removesuffix(ALTERNATE_SUFFIX)
    return base + ALTERNATE_SUFFIX if taken == base else base


def router_entity(router_id: str, mode: str) -> Entity:
    """The router itself; the only entity that needs a restart to change."""
    return Entity(ROUTER, router_id, {"id": router_id, "mode": mode})


def listener_entity(ref: Ref, part: str, host: str, port: int, role: str) -> Entity:
    """A listener of a Router; `part` tells its listeners apart."""
    attributes = {
        "host": host,
        "port": str(port),
        "role": role,
        "authenticatePeer": False,
        "saslMechanisms": "ANONYMOUS",
    }
    return Entity(LISTENER, entity_name(ref, "Router", part), attributes)


def connector_entity(ref: Ref, peer: str, host: str, port: int) -> Entity:
    """A connector to another router of the mesh."""
    attributes = {"host": host, "port": str(port), "role": "inter-router", "saslMechanisms": "ANONYMOUS"}
    return Entity(CONNECTOR, entity_name(ref, "Router", "to", peer), attributes)


def log_entities(level: str, levels: Mapping[str, str]) -> tuple[Entity, ...]:
    """One for each log module, so that a level taken out of the manifest goes back to the default live too."""
    wanted = {"DEFAULT": level, **levels}
    return tuple(_log_entity(module, wanted.get(module, "default")) for module in LOG_MODULES)


def _log_entity(module: str, level: str) -> Entity:
    enable = level if level in ("default", "none") else f"{level}+"
    return Entity(LOG, f"log/{module}", {"module": module, "enable": enable})


def address_entity(address: Address) -> Entity:
    """The entity of an Address. It gives every attribute: one taken out of the manifest is taken back live too."""
    return Entity(
        ADDRESS,
        entity_name(address.ref, "Address"),
        {
            "prefix": address.prefix,
            "pattern": address.pattern,
            "distribution": address.distribution,
            "waypoint": address.waypoint,
            "ingressPhase": address.ingress_phase,
            "egressPhase": address.egress_phase,
            "priority": address.priority,
            "enableFallback": address.enable_fallback,
        },
    )


def changed_attributes(wanted: Entity, live: Entity) -> dict[str, tuple[Any, Any]]:
    """Attributes of `wanted` whose live value means something else: name → (live, wanted). Names are not compared.

    Values are compared as the schema reads them: `"5672"` and 5672, or an absent value and its default, are the same.
    """
    table = entity_type(wanted.type).attributes
    changed = {}
    for name, value in wanted.attributes.items():
        attribute = table[name]
        is_, should = (
            attribute.default if v is None else convert(attribute, v) for v in (live.attributes.get(name), value)
        )
        if is_ != should and not (_phase_default(wanted, name, is_, should)):
            changed[name] = (is_, should)
    return changed


def _phase_default(wanted: Entity, name: str, is_: Any, should: Any) -> bool:
    """Whether a phase that the manifest leaves open is reported as the number that it comes out at."""
    if should is not None or name not in ("ingressPhase", "egressPhase"):
        return False
    return bool(is_ == (1 if name == "egressPhase" and wanted.attributes.get("waypoint") else 0))


def exclusive_key(entity: Entity) -> tuple[str, ...]:
    """What no two entities of a router may share, besides the name: an address its match, a listener its port."""
    attributes = entity.attributes
    if entity.type == ADDRESS:
        kind = "prefix" if attributes.get("prefix") is not None else "pattern"
        return (entity.type, kind, str(attributes.get(kind)))
    if entity.type == LISTENER:
        return (entity.type, str(attributes.get("port")))
    if entity.type == CONNECTOR:
        return (entity.type, str(attributes.get("host")), str(attributes.get("port")))
    return (entity.type, entity.name)


def creatable(entity: Entity) -> bool:
    """Whether entities of this type can be made at run time; the others a router has from its start."""
    return "CREATE" in entity_type(entity.type).operations


def updatable(entity: Entity, attributes: Mapping[str, Any]) -> bool:
    """Whether all these attributes of a live entity can be changed by UPDATE."""
    kind = entity_type(entity.type)
    return "UPDATE" in kind.operations and all(kind.attributes[name].update for name in attributes)
