"""Router entities that stand for resources, and their names.

The names are `k8s/<namespace>/<kind>/<name>`, with a further part where a resource needs several entities. A
replacement that is created while its predecessor still exists gets a suffix like `~1`, which no resource name can have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.router import Ref

OWNED_PREFIX = "k8s/"
IMMEDIATE = "immediate"
"""Last part of the name of an autolink that goes at once; the others let deliveries under way end first."""
_PLAIN = 3
"""Slashes in the name of an entity that has no further part."""
_ALTERNATE = re.compile(r"~\d+$")
QUIESCING = "quiescing"
"""Attribute of an autolink that is on its way out: the router removes it when nothing of it is under way."""
ADDRESS, CONNECTOR, LISTENER, LOG, ROUTER = "router.config.address", "connector", "listener", "log", "router"
AUTOLINK, LINKROUTE, SSL_PROFILE = "router.config.autoLink", "router.config.linkRoute", "sslProfile"
TELEMETRY = "telemetry"
MANAGED_TYPES = (SSL_PROFILE, LISTENER, CONNECTOR, ADDRESS, AUTOLINK, LINKROUTE, LOG, TELEMETRY, ROUTER)
"""Types whose live entities are compared with what is wanted, in the order in which they are made."""
STANDING_TYPES = (LOG, TELEMETRY, ROUTER)
"""Types whose entities every router has from its start, under names of its own."""
MESH_PROFILE = "mesh"
CREDENTIALS, CERTIFICATES = "/etc/waymesh/credentials", "/etc/waymesh/tls"
TELEMETRY_FOLDER = "/var/lib/waymesh/telemetry"
"""Folders in a router's pod: passwords and keys given by users, the mesh's own certificate, and exported files."""
USERS_NAME = "waymesh"
"""Name of the SASL configuration: the user file is `<CREDENTIALS>/waymesh.users`."""
SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Entity:
    """An entity as it is wanted, or as a router reports it. `type` is the short name in the schema."""

    type: str
    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.type, self.name))

    @property
    def base_name(self) -> str:
        """The name without the suffix of a replacement."""
        return _ALTERNATE.sub("", self.name)

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same when the entity is replaced. Of some there is one, whatever the router calls it."""
        return self.type, "" if self.type in (ROUTER, TELEMETRY) else self.base_name

    @property
    def owned(self) -> bool:
        """Whether the name says that a resource asked for it."""
        return self.name.startswith(OWNED_PREFIX)


def entity_name(ref: Ref, kind: str, *parts: str) -> str:
    """`k8s/<namespace>/<kind>/<name>`, with parts appended for a resource that needs several entities."""
    return OWNED_PREFIX + "/".join((ref.namespace, kind, ref.name, *parts))


def free_name(name: str, taken: Collection[str]) -> str:
    """The name for one more entity with this base name."""
    names = (name, *(f"{name}~{number}" for number in range(1, len(taken) + 1)))
    return next(candidate for candidate in names if candidate not in taken)


OPERATORS, POD = "management", "local"
"""The listeners of a router over which it is managed: by the operator, and by whoever may run commands in its pod."""


def broker_name(ref: Ref) -> str:
    """The name of a Broker's connector, by which autolinks and link routes refer to it."""
    return entity_name(ref, "Broker")


def credential_file(broker: Ref, part: str) -> str:
    """The key in the credentials Secret, and so the file name, of something that belongs to a Broker."""
    return f"broker.{broker.name}.{part}"


def keeps_name(entity: Entity) -> bool:
    """Whether others refer to the entity by name, so that a replacement must have the very same one."""
    return entity.type == SSL_PROFILE or of_broker(entity)


def of_broker(entity: Entity) -> bool:
    """Whether it is the connector of a Broker."""
    return entity.type == CONNECTOR and entity.attributes.get("role") == "route-container"


def quiesces(entity: Entity) -> bool:
    """Whether an entity is to end what is under way before it goes."""
    return entity.type == AUTOLINK and entity.owned and entity.base_name.count("/") == _PLAIN
