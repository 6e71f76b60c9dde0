"""Router entities that stand for resources: their names, their attributes, and when two values mean the same.

Names of ours are `k8s/<namespace>/<kind>/<name>`, with a further part where a resource needs several entities. A
replacement that is made while its predecessor still exists gets a suffix like `~1`, which no resource name can have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.model import Address, AutoLink, Broker, LinkRoute, Ref, Telemetry
from waymesh_schema.convert import convert
from waymesh_schema.entities import entity_type
from waymesh_schema.loglevels import LOG_MODULES

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


def router_entity(router_id: str, mode: str) -> Entity:
    """The router itself, as it is seeded; id and mode need a restart to change."""
    return Entity(ROUTER, router_id, {"id": router_id, "mode": mode})


@dataclass(frozen=True, slots=True)
class Security:
    """How a listener or connector is protected: TLS with the mesh's certificate; auth none, plain, scram or mtls.

    `peers`: DNS names of which a client's certificate must have one, to come in at a listener; empty: any will do.
    """

    tls: bool = False
    auth: str = "none"
    peers: tuple[str, ...] = ()


OPEN, MUTUAL = Security(), Security(tls=True, auth="mtls")
_MECHANISMS = {
    "none": "ANONYMOUS",
    "plain": "PLAIN",
    "scram": "SCRAM-SHA-512 SCRAM-SHA-256",
    "mtls": "EXTERNAL",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """What clients of a listener find besides the mesh: the broker that an address leads to, further capabilities."""

    route_address: str = ""
    capabilities: tuple[str, ...] = ()


NOTHING_MORE = Offer()
OPERATORS, POD = "management", "local"
"""The listeners of a router over which it is managed: by the operator, and by whoever may run commands in its pod."""


def listener_entity(
    ref: Ref, part: str, place: tuple[str, int], role: str, security: Security = OPEN, offer: Offer = NOTHING_MORE
) -> Entity:
    """A listener of a Router at (host, port); `part` tells its listeners apart."""
    attributes = {
        "host": place[0],
        "port": str(place[1]),
        "role": role,
        "authenticatePeer": security.auth != "none",
        "saslMechanisms": _MECHANISMS[security.auth],
        "routeAddress": offer.route_address or None,
        "openCapabilities": " ".join(offer.capabilities) or None,
        "peerNames": " ".join(security.peers) or None,
        "management": "write" if part in (OPERATORS, POD) else "none",
        "managementFiles": part == OPERATORS,
    }
    if security.tls:
        attributes |= {"sslProfile": MESH_PROFILE, "requireSsl": True}
    return Entity(LISTENER, entity_name(ref, "Router", part), attributes)


def http_entity(ref: Ref, port: int) -> Entity:
    """The listener for probes and metrics."""
    attributes = {"host": "", "port": str(port), "role": "normal", "http": True, "management": "none"}
    return Entity(LISTENER, entity_name(ref, "Router", "http"), attributes)


def connector_entity(ref: Ref, peer: str, place: tuple[str, int], security: Security = OPEN) -> Entity:
    """A connector to another router of the mesh at (host, port)."""
    attributes: dict[str, Any] = {
        "host": place[0],
        "port": str(place[1]),
        "role": "inter-router",
        "saslMechanisms": _MECHANISMS[security.auth],
    }
    if security.tls:
        attributes |= {"sslProfile": MESH_PROFILE, "verifyHostname": True}
    return Entity(CONNECTOR, entity_name(ref, "Router", "to", peer), attributes)


def mesh_profile() -> Entity:
    """The certificate of the mesh, for its own listeners and connectors."""
    files = {
        "certFile": f"{CERTIFICATES}/tls.crt",
        "privateKeyFile": f"{CERTIFICATES}/tls.key",
        "caCertFile": f"{CERTIFICATES}/ca.crt",
    }
    return Entity(SSL_PROFILE, MESH_PROFILE, files)


def log_entities(level: str, levels: Mapping[str, str]) -> tuple[Entity, ...]:
    """One for each log module, so that a level taken out of the manifest goes back to the default live too."""
    wanted = {"DEFAULT": level, **levels}
    return tuple(_log_entity(module, wanted.get(module, "default")) for module in LOG_MODULES)


def _log_entity(module: str, level: str) -> Entity:
    enable = level if level in ("default", "none") else f"{level}+"
    return Entity(LOG, f"log/{module}", {"module": module, "enable": enable})


def telemetry_entity(telemetry: Telemetry, mesh: str, folder: str) -> Entity:
    """What routers export, into a folder. To a router it is sampleOneIn that says that no delivery is sampled."""
    sampled = telemetry.samples_per_second > 0
    return Entity(
        TELEMETRY,
        TELEMETRY,
        {
            "path": None if telemetry.target == "Off" else folder,
            "mesh": mesh,
            "intervalSeconds": telemetry.interval_s,
            "rotateSeconds": telemetry.rotate_s,
            "sampleOneIn": telemetry.sample_one_in if sampled else 0,
            "samplesPerSecond": max(1, telemetry.samples_per_second),
            "maxMegabytes": telemetry.max_megabytes,
        },
    )


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


def broker_name(ref: Ref) -> str:
    """The name of a Broker's connector, by which autolinks and link routes refer to it."""
    return entity_name(ref, "Broker")


def broker_entities(broker: Broker, username: str = "", credentials: str = CREDENTIALS) -> tuple[Entity, ...]:
    """The connector of a Broker and, with TLS, its profile. `username` is what its Secret says; what else it says is in
    files in the folder `credentials`.

    The name of the profile tells its contents, so that another one is made beside it and the connector moves over.
    """
    profile = _broker_profile(broker, credentials)
    (host, port), *others = broker.endpoints
    attributes: dict[str, Any] = {"host": host, "port": str(port), "role": "route-container"}
    attributes["saslMechanisms"] = broker.mechanism or "ANONYMOUS"
    if broker.hostname:
        attributes["openHostname"] = broker.hostname
    if broker.container_id:
        attributes["openContainerId"] = broker.container_id
    if others:
        attributes["failoverUrls"] = ",".join(_url(place, broker.tls is not None) for place in others)
    if profile is not None and broker.tls is not None:
        attributes |= {"sslProfile": profile.name, "verifyHostname": broker.tls.verify_hostname}
    if username:
        password = f"file:{credentials}/{credential_file(broker.ref, 'password')}"
        attributes |= {"saslUsername": username, "saslPassword": password}
    connector = Entity(CONNECTOR, broker_name(broker.ref), attributes)
    return (connector,) if profile is None else (profile, connector)


def credential_file(broker: Ref, part: str) -> str:
    """The key in the credentials Secret, and so the file name, of something that belongs to a Broker."""
    return f"broker.{broker.name}.{part}"


def _broker_profile(broker: Broker, credentials: str) -> Entity | None:
    if broker.tls is None:
        return None
    files = {"caCertFile": SYSTEM_AUTHORITIES}
    if broker.tls.ca_secret:
        files["caCertFile"] = f"{credentials}/{credential_file(broker.ref, 'ca.crt')}"
    if broker.mechanism == "EXTERNAL":
        files["certFile"] = f"{credentials}/{credential_file(broker.ref, 'tls.crt')}"
        files["privateKeyFile"] = f"{credentials}/{credential_file(broker.ref, 'tls.key')}"
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:8]
    return Entity(SSL_PROFILE, entity_name(broker.ref, "Broker", f"tls-{digest}"), files)


def _url(place: tuple[str, int], tls: bool) -> str:
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    return f"{'amqps' if tls else 'amqp'}://{host}:{place[1]}"


def autolink_entities(autolink: AutoLink) -> tuple[Entity, ...]:
    """The entity of an AutoLink. Its name tells what is to happen to deliveries under way when it goes."""
    parts = (IMMEDIATE,) if autolink.deletion_policy == "Immediate" else ()
    attributes = {
        "address": autolink.address,
        "direction": autolink.direction,
        "phase": autolink.phase,
        "externalAddress": autolink.external_address,
        "fallback": autolink.fallback,
        **_container(autolink),
    }
    return (Entity(AUTOLINK, entity_name(autolink.ref, "AutoLink", *parts), attributes),)


def linkroute_entities(linkroute: LinkRoute) -> tuple[Entity, ...]:
    """The entities of a LinkRoute, one for each direction."""
    common = {
        "prefix": linkroute.prefix,
        "pattern": linkroute.pattern,
        "addExternalPrefix": linkroute.add_external_prefix,
        "delExternalPrefix": linkroute.del_external_prefix,
        **_container(linkroute),
    }
    return tuple(
        Entity(LINKROUTE, entity_name(linkroute.ref, "LinkRoute", way), {**common, "direction": way})
        for way in linkroute.directions
    )


def _container(resource: AutoLink | LinkRoute) -> dict[str, Any]:
    """At whose connections it is: the Broker's connector, or every container of that id."""
    connection = broker_name(resource.broker) if resource.broker else None
    return {"connection": connection, "containerId": resource.container_id}


def changed_attributes(wanted: Entity, live: Entity) -> dict[str, tuple[Any, Any]]:
    """Attributes of `wanted` whose live value means something else: name → (live, wanted). Names are not compared.

    Values are compared as the schema reads them: `"5672"` and 5672, or an absent value and its default, are the same.
    """
    table = entity_type(wanted.type).attributes
    changed = {}
    for name, value in wanted.attributes.items():
        if value == live.attributes.get(name) or name in SECRETS or (name in LATER and name not in live.attributes):
            continue
        attribute = table[name]
        is_, should = (
            attribute.default if v is None else convert(attribute, v) for v in (live.attributes.get(name), value)
        )
        if is_ != should and not (_phase_default(wanted, name, is_, should)):
            changed[name] = (is_, should)
    if live.attributes.get(QUIESCING):
        changed[QUIESCING] = (True, False)
    return changed


LATER = ("peerNames",)
"""Attributes that routers of older images do not have: a listener is not made anew, in vain, because of them."""
SECRETS = ("saslPassword", "password")
"""Attributes that a router does not tell. They hold the path of a file, which follows from the entity's name."""


def _phase_default(wanted: Entity, name: str, is_: Any, should: Any) -> bool:
    """Whether a phase that the manifest leaves open is reported as the number that it comes out at."""
    if should is not None or name not in ("ingressPhase", "egressPhase", "phase"):
        return False
    if name == "phase":
        return bool(is_ == (1 if wanted.attributes.get("direction") == "in" else 0))
    return bool(is_ == (1 if name == "egressPhase" and wanted.attributes.get("waypoint") else 0))


def exclusive_key(entity: Entity) -> tuple[str, ...]:
    """What no two entities of a router may share, besides the name: an address its match, a listener its port."""
    attributes = entity.attributes
    if entity.type == ADDRESS:
        kind = "prefix" if attributes.get("prefix") is not None else "pattern"
        return (entity.type, kind, str(attributes.get(kind)))
    if entity.type == LISTENER:
        return (entity.type, str(attributes.get("port")))
    if entity.type == LINKROUTE:
        kind = "prefix" if attributes.get("prefix") is not None else "pattern"
        return (entity.type, kind, str(attributes.get(kind)), str(attributes.get("direction")), _target(entity))
    if entity.type == AUTOLINK:
        return (entity.type, entity.name, *(str(attributes.get(name)) for name in _OF_AUTOLINK))
    if entity.type == CONNECTOR and not keeps_name(entity):
        return (entity.type, str(attributes.get("host")), str(attributes.get("port")))
    return (entity.type, entity.name)


_OF_AUTOLINK = ("address", "direction", "phase", "externalAddress", "fallback", "connection", "containerId")
"""With another value of one of these it is another link, for which there is room beside the former."""


def _target(entity: Entity) -> str:
    return str(entity.attributes.get("connection") or entity.attributes.get("containerId"))


def keeps_name(entity: Entity) -> bool:
    """Whether others refer to the entity by name, so that a replacement must have the very same one."""
    return entity.type == SSL_PROFILE or of_broker(entity)


def of_broker(entity: Entity) -> bool:
    """Whether it is the connector of a Broker."""
    return entity.type == CONNECTOR and entity.attributes.get("role") == "route-container"


def quiesces(entity: Entity) -> bool:
    """Whether an entity is to end what is under way before it goes."""
    return entity.type == AUTOLINK and entity.owned and entity.base_name.count("/") == _PLAIN


def creatable(entity: Entity) -> bool:
    """Whether entities of this type can be made at run time; the others a router has from its start."""
    return "CREATE" in entity_type(entity.type).operations


def updatable(entity: Entity, attributes: Mapping[str, Any]) -> bool:
    """Whether all these attributes of a live entity can be changed by UPDATE."""
    kind = entity_type(entity.type)
    return "UPDATE" in kind.operations and all(kind.attributes[name].update for name in attributes)
