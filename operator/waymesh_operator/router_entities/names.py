"""Router entities that represent resources, and their names.

The names are `k8s/<namespace>/<kind>/<name>`, with a further part where a resource needs several entities. A
replacement that is created while its predecessor still exists gets a suffix like `~1`, which no resource name can have.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from waymesh_operator.resources.dependents import Address, AutoLink, LinkRoute
from waymesh_operator.resources.router import Ref

OWNED_PREFIX = "k8s/"
IMMEDIATE = "immediate"
"""Last part of the name of an autolink that is deleted at once; others are quiesced first."""
_PLAIN = 3
"""Slashes in the name of an entity that has no further part."""
_ALTERNATE = re.compile(r"~\d+$")
QUIESCING = "quiescing"
"""Attribute of an autolink that is being quiesced: the router removes it when no delivery is under way."""
ADDRESS, CONNECTOR, LISTENER, LOG, ROUTER = "router.config.address", "connector", "listener", "log", "router"
AUTOLINK, LINKROUTE, SSL_PROFILE = "router.config.autoLink", "router.config.linkRoute", "sslProfile"
EXCHANGE, BINDING = "router.config.exchange", "router.config.binding"
TELEMETRY, POLICY, VHOST, TOKEN_PROFILE = "telemetry", "policy", "vhost", "tokenProfile"
MANAGED_TYPES = (
    SSL_PROFILE, TOKEN_PROFILE, VHOST, LISTENER, CONNECTOR, ADDRESS, AUTOLINK, LINKROUTE, EXCHANGE, BINDING, LOG,
    TELEMETRY, POLICY, ROUTER,
)  # fmt: skip
"""Types whose live entities are compared with the desired ones, in the order of creation."""
_SINGLE = frozenset({ROUTER, TELEMETRY, POLICY})
STANDING_TYPES = (LOG, TELEMETRY, POLICY, ROUTER)
"""Types whose entities every router creates at its start, with names that it chooses."""
MESH_PROFILE = "mesh"
CREDENTIALS, CERTIFICATES = "/etc/waymesh/credentials", "/etc/waymesh/tls"
TELEMETRY_FOLDER = "/var/lib/waymesh/telemetry"
"""Folders in a router's pod: passwords and keys from users, the mesh's certificate, and exported files."""
USERS_NAME = "waymesh"
"""Name of the SASL configuration: the user file is `<CREDENTIALS>/waymesh.users`."""
SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(slots=True)
class Known:
    """What was computed from an entity, which does not change. With thousands of them, nearly all are the same objects
    in each turn."""

    # Why routers refuse it (`entities.refusal`); None: not computed.
    refusal: str | None = None
    # Its line in a seed (`planning.mesh.render`).
    line: str | None = None
    # The desired entity with which this live one agrees (`actions.agrees`).
    agrees_with: Entity | None = None
    # The verdict on the Address of this desired one, if no other Address claims the same (`verdicts.judge`).
    verdict: Any = None


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity, desired or as a router reports it. `type` is its short name in the schema."""

    type: str
    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    known: Known = field(default_factory=Known, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash((self.type, self.name))

    @property
    def base_name(self) -> str:
        """The name without the suffix of a replacement."""
        return _ALTERNATE.sub("", self.name) if "~" in self.name else self.name

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the entity across replacements. For some types, a router has exactly one entity, with any name."""
        if self.type in _SINGLE:
            return self.type, ""
        return self.type, self.name if "~" not in self.name else self.base_name

    @property
    def owned(self) -> bool:
        """Whether the entity was made for a resource, by its name."""
        return self.name.startswith(OWNED_PREFIX)


def unowned(entities: Iterable[Entity]) -> list[Entity]:
    """Return those that are not `owned`, without a call for each: they are few among thousands."""
    return [entity for entity in entities if not entity.name.startswith(OWNED_PREFIX)]


_Numerous = TypeVar("_Numerous", Address, AutoLink, LinkRoute)
_Made = TypeVar("_Made")


def made_once(make: Callable[[_Numerous], _Made]) -> Callable[[_Numerous], _Made]:
    """Decorate the builder of what represents a resource: the same resource always has the same entities, as objects,
    too."""

    @functools.wraps(make)
    def kept(resource: _Numerous) -> _Made:
        if not resource.made:
            resource.made.append(make(resource))
        found: _Made = resource.made[0]
        return found

    return kept


def entity_name(ref: Ref, kind: str, *parts: str) -> str:
    """`k8s/<namespace>/<kind>/<name>`, with parts appended for a resource that needs several entities."""
    return OWNED_PREFIX + "/".join((ref.namespace, kind, ref.name, *parts))


def resource_of(name: str) -> Ref:
    """Return the resource for which an entity with this name was made; without a name, if it was made for none."""
    parts = name.split("/")
    return Ref(parts[1], parts[3]) if name.startswith(OWNED_PREFIX) and len(parts) > _PLAIN else Ref("", "")


def free_name(name: str, taken: Collection[str]) -> str:
    """The name for one more entity with this base name."""
    names = (name, *(f"{name}~{number}" for number in range(1, len(taken) + 1)))
    return next(candidate for candidate in names if candidate not in taken)


OPERATORS, POD, CONSOLE = "management", "local", "console"
"""A router's management listeners: for the operator, and for users who may run commands in its pod."""


def broker_name(ref: Ref) -> str:
    """The name of a Broker's connector, by which autolinks and link routes refer to it."""
    return entity_name(ref, "Broker")


def link_name(ref: Ref) -> str:
    """The name of a RouterLink's connector."""
    return entity_name(ref, "RouterLink")


def link_file(link: Ref, part: str) -> str:
    """The key in the credentials Secret, and so the file name, of something that belongs to a RouterLink."""
    return f"link.{link.name}.{part}"


def credential_file(broker: Ref, part: str) -> str:
    """The key in the credentials Secret, and so the file name, of something that belongs to a Broker."""
    return f"broker.{broker.name}.{part}"


def listener_file(listener: str, part: str) -> str:
    """The key in the credentials Secret, and so the file name, of something that belongs to a listener."""
    return f"listener.{listener}.{part}"


SERVICE_ACCOUNT_KEYS = "service-accounts.jwks"
"""The key in the credentials Secret, and so the file name, of the keys of ServiceAccount tokens."""


def token_file(profile: str, part: str) -> str:
    """The key in the credentials Secret, and so the file name, of something that belongs to a token profile."""
    return f"token.{profile}.{part}"


def match_of(entity: Entity) -> tuple[str, Any]:
    """Return the attribute by which an address or a link route matches addresses, `prefix` or `pattern`, and its
    value."""
    attribute = "prefix" if entity.attributes.get("prefix") is not None else "pattern"
    return attribute, entity.attributes.get(attribute)


def keeps_name(entity: Entity) -> bool:
    """Return whether a replacement must have the same name: others refer to it, or both would connect to the same
    router."""
    return entity.type in (SSL_PROFILE, TOKEN_PROFILE) or leads_out(entity)


def of_broker(entity: Entity) -> bool:
    """Whether it is the connector of a Broker."""
    return entity.type == CONNECTOR and entity.attributes.get("role") == "route-container"


def leads_out(entity: Entity) -> bool:
    """Whether it is the connector of a Broker or a RouterLink."""
    return of_broker(entity) or of_link(entity)


def of_link(entity: Entity) -> bool:
    """Whether it is the connector of a RouterLink."""
    return entity.type == CONNECTOR and entity.owned and entity.name.split("/")[2:3] == ["RouterLink"]


def quiesces(entity: Entity) -> bool:
    """Whether an entity is quiesced before it is deleted."""
    return entity.type == AUTOLINK and entity.owned and entity.base_name.count("/") == _PLAIN
