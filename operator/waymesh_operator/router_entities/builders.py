"""Builders of router entities: which attributes each resource sets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.resources.dependents import Address, AutoLink, Broker, LinkRoute
from waymesh_operator.resources.listener import LIMITS, Http, Listener, http_attributes
from waymesh_operator.resources.router import Ref, Router, Telemetry
from waymesh_operator.resources.router_link import ROLES, RouterLink
from waymesh_schema.loglevels import LOG_MODULES

from .names import (
    ADDRESS,
    AUTOLINK,
    CERTIFICATES,
    CONNECTOR,
    CREDENTIALS,
    IMMEDIATE,
    LINKROUTE,
    LISTENER,
    LOG,
    MESH_PROFILE,
    OPERATORS,
    POD,
    ROUTER,
    SSL_PROFILE,
    SYSTEM_AUTHORITIES,
    TELEMETRY,
    Entity,
    broker_name,
    credential_file,
    entity_name,
    link_file,
    link_name,
    listener_file,
    made_once,
)


def router_entity(router_id: str, mode: str, worker_threads: int = 1) -> Entity:
    """The `router` entity of the seed; a change of it needs a restart. The default number of threads is left out, so
    that the seed stays as it was."""
    threads = {"workerThreads": worker_threads} if worker_threads > 1 else {}
    return Entity(ROUTER, router_id, {"id": router_id, "mode": mode, **threads})


def router_settings(router: Router) -> dict[str, Any]:
    """The attributes of the `router` entity that change while it runs."""
    return {"maxMemory": router.max_memory, "stuckAfterSeconds": router.stuck_after_s}


@dataclass(frozen=True, slots=True)
class Security:
    """How a listener or connector is secured."""

    # Whether it uses TLS with the certificate of the mesh.
    tls: bool = False
    # none, plain, scram, mtls or token
    auth: str = "none"
    # A client's certificate must have one of these DNS names; empty: any name.
    peers: tuple[str, ...] = ()
    # Name of the sslProfile, with TLS.
    profile: str = MESH_PROFILE
    # The vhost of all connections; empty: each peer names it.
    vhost: str = ""
    # Name of the tokenProfile entity; empty: no tokens are accepted.
    tokens: str = ""

    @property
    def mechanisms(self) -> str:
        """SASL mechanisms, separated by blanks."""
        return " ".join(filter(None, (_MECHANISMS[self.auth], BEARER if self.tokens else "")))


_MESH_FILES = {
    "certFile": f"{CERTIFICATES}/tls.crt",
    "privateKeyFile": f"{CERTIFICATES}/tls.key",
    "caCertFile": f"{CERTIFICATES}/ca.crt",
}
OPEN, MUTUAL = Security(), Security(tls=True, auth="mtls")
_MECHANISMS = {
    "none": "ANONYMOUS",
    "plain": "PLAIN",
    "scram": "SCRAM-SHA-512 SCRAM-SHA-256",
    "mtls": "EXTERNAL",
    "token": "",
}
BEARER = "OAUTHBEARER XOAUTH2"


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """Options of a listener: address of the broker behind it, additional offered capabilities, and permissions.

    `recheck`: routers of other meshes connect; their open connections are closed when they would be refused.
    `tenants`: each virtual host has a separate address space, with `alias_spaces` each of its aliases, too.
    `management`: none or read; write only for those who run the mesh.
    `connection_rate`: limit of new connections, as connections/seconds.
    """

    route_address: str = ""
    capabilities: tuple[str, ...] = ()
    tenants: bool = False
    alias_spaces: bool = False
    recheck: bool = False
    management: str = "none"
    connection_rate: str = ""
    # Attributes by name; attributes of LIMITS that are missing here have their defaults.
    limits: tuple[tuple[str, int], ...] = ()
    # None: AMQP over TCP.
    http: Http | None = None
    # The failover list: URLs for clients that lose this router.
    failover: tuple[str, ...] = ()
    # user or container, for brokers; empty: not set.
    durable_names: str = ""
    # Whether edge routers without a user group are refused.
    strict_edges: bool = False


NO_OPTIONS = ListenerOptions()


def options_of(listener: Listener, failover: tuple[str, ...] = ()) -> ListenerOptions:
    """The options of a listener of the manifest."""
    return ListenerOptions(
        listener.route_address,
        listener.open_capabilities,
        listener.tenants,
        listener.alias_spaces,
        listener.role in ROLES,
        listener.management,
        listener.connection_rate,
        listener.limits,
        listener.http,
        failover,
        listener.durable_names,
        listener.strict_edges,
    )


def listener_entity(
    ref: Ref,
    part: str,
    place: tuple[str, int],
    role: str,
    security: Security = OPEN,
    offer: ListenerOptions = NO_OPTIONS,
) -> Entity:
    """Build the listener of a Router at (host, port); `part` identifies it among the Router's listeners."""
    attributes = {
        "host": place[0],
        "port": str(place[1]),
        "role": role,
        "authenticatePeer": security.auth != "none",
        "saslMechanisms": security.mechanisms,
        "tokenProfile": security.tokens or None,
        "routeAddress": offer.route_address or None,
        "openCapabilities": " ".join(offer.capabilities) or None,
        "durableNames": offer.durable_names or None,  # routers of older images do not have this attribute
        "connectionRate": offer.connection_rate or None,
        "failoverUrls": ",".join(offer.failover) or None,
        "peerNames": " ".join(security.peers) or None,
        "policyVhost": security.vhost or None,
        "strictEdges": offer.strict_edges or None,  # nor this one
        "multiTenant": offer.tenants or None,  # nor this one
        "aliasSpaces": offer.alias_spaces or None,  # nor this one
        "recheckPeers": offer.recheck or None,  # nor this one
        "management": "write" if part in (OPERATORS, POD) else offer.management,
        "managementFiles": part == OPERATORS,
        **http_attributes(offer.http),
        **{name: dict(offer.limits).get(name) for name in LIMITS},
    }
    if security.tls:
        attributes |= {"sslProfile": security.profile, "requireSsl": True}
    return Entity(LISTENER, entity_name(ref, "Router", part), attributes)


def http_entity(ref: Ref, port: int) -> Entity:
    """Build the listener for probes and metrics only: clients use other listeners."""
    attributes = {
        "host": "", "port": str(port), "role": "normal", "http": True, "websockets": False, "management": "none",
    }  # fmt: skip
    return Entity(LISTENER, entity_name(ref, "Router", "http"), attributes)


def connector_entity(ref: Ref, peer: str, place: tuple[str, int], security: Security = OPEN) -> Entity:
    """A connector to another router of the mesh at (host, port)."""
    attributes: dict[str, Any] = {
        "host": place[0],
        "port": str(place[1]),
        "role": "inter-router",
        "saslMechanisms": security.mechanisms,
    }
    if security.tls:
        attributes |= {"sslProfile": MESH_PROFILE, "verifyHostname": True}
    return Entity(CONNECTOR, entity_name(ref, "Router", "to", peer), attributes)


def mesh_profile() -> Entity:
    """The certificate of the mesh, for its own listeners and connectors."""
    return Entity(SSL_PROFILE, MESH_PROFILE, dict(_MESH_FILES))


def listener_profile(ref: Ref, listener: Listener, folder: str = CREDENTIALS) -> Entity | None:
    """Build the sslProfile of a listener that has its own certificate, client authorities or TLS settings; None for
    others.

    As for a Broker, its name contains a digest of its values. The contents of the files may change. `folder`: the
    folder with its files; local mode uses another one, and has no certificates of the mesh.
    """
    files = dict(_MESH_FILES) if folder == CREDENTIALS else {}
    own = {"certFile": "tls.crt", "privateKeyFile": "tls.key"} if listener.certificate else {}
    own |= {"caCertFile": "ca.crt"} if listener.authorities else {}
    own |= {"crlFile": "ca.crl"} if listener.authorities and listener.revocation else {}
    if not listener.tls or not (own or listener.tls_settings):
        return None
    files |= {name: f"{folder}/{listener_file(listener.name, part)}" for name, part in own.items()}
    files |= dict(listener.tls_settings)
    return Entity(SSL_PROFILE, entity_name(ref, "Router", "listener", listener.name, f"tls-{digest(files)}"), files)


def log_entities(level: str, levels: Mapping[str, str]) -> tuple[Entity, ...]:
    """Build one for each log module, so that removing a level from the manifest restores the default on running
    routers."""
    wanted = {"DEFAULT": level, **levels}
    return tuple(_log_entity(module, wanted.get(module, "default")) for module in LOG_MODULES)


def _log_entity(module: str, level: str) -> Entity:
    enable = level if level in ("default", "none") else f"{level}+"
    return Entity(LOG, f"log/{module}", {"module": module, "enable": enable})


def telemetry_entity(telemetry: Telemetry, mesh: str, folder: str) -> Entity:
    """Telemetry settings. For a router, sampleOneIn 0 means that no delivery is sampled."""
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


@made_once
def address_entity(address: Address) -> Entity:
    """Build the entity of an Address. It sets every attribute: one that is removed from the manifest is reset at run
    time."""
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
            "exclusive": address.exclusive or None,  # routers of older images do not have this attribute
            "messageGroups": address.message_groups or None,  # nor this
            "concurrency": address.concurrency,  # nor this
            "expired": address.expired,
        },
    )


def broker_entities(broker: Broker, username: str = "", credentials: str = CREDENTIALS) -> tuple[Entity, ...]:
    """The connector of a Broker and, with TLS, its sslProfile.

    `username` comes from the Broker's Secret; its other values are files in the folder `credentials`. The name of the
    profile contains a digest of its values: a changed profile is created before the connector uses it.
    """
    profile = _broker_profile(broker, credentials)
    (host, port), *others = broker.endpoints
    attributes: dict[str, Any] = {"host": host, "port": str(port), "role": "route-container"}
    attributes["saslMechanisms"] = broker.mechanism or "ANONYMOUS"
    if broker.hostname:
        attributes["openHostname"] = broker.hostname
    if broker.container_id:
        attributes["openContainerId"] = broker.container_id
    attributes["durableNames"] = broker.durable_names or None  # routers of older images do not have this attribute
    attributes["policyVhost"] = broker.policy_vhost or None
    attributes["failoverUrls"] = ",".join(_url(place, broker.tls is not None) for place in others) or None
    if profile is not None and broker.tls is not None:
        attributes |= {"sslProfile": profile.name, "verifyHostname": broker.tls.verify_hostname}
    if username:
        password = f"file:{credentials}/{credential_file(broker.ref, 'password')}"
        attributes |= {"saslUsername": username, "saslPassword": password}
    connector = Entity(CONNECTOR, broker_name(broker.ref), attributes)
    return (connector,) if profile is None else (profile, connector)


def _broker_profile(broker: Broker, credentials: str) -> Entity | None:
    if broker.tls is None:
        return None
    files = {"caCertFile": SYSTEM_AUTHORITIES}
    if broker.tls.ca_secret:
        files["caCertFile"] = f"{credentials}/{credential_file(broker.ref, 'ca.crt')}"
    if broker.mechanism == "EXTERNAL":
        files["certFile"] = f"{credentials}/{credential_file(broker.ref, 'tls.crt')}"
        files["privateKeyFile"] = f"{credentials}/{credential_file(broker.ref, 'tls.key')}"
    files |= dict(broker.tls.settings)
    return Entity(SSL_PROFILE, entity_name(broker.ref, "Broker", f"tls-{digest(files)}"), files)


def router_link_entities(
    link: RouterLink, endpoints: tuple[tuple[str, int], ...], credentials: str = CREDENTIALS
) -> tuple[Entity, ...]:
    """The connector of a RouterLink to the endpoints and, with TLS, its sslProfile."""
    (host, port), *others = endpoints
    attributes: dict[str, Any] = {
        "host": host,
        "port": str(port),
        "role": link.role,
        "cost": link.cost,
        "saslMechanisms": "EXTERNAL" if link.secret else "ANONYMOUS",
        "failoverUrls": ",".join(_url(place, bool(link.secret)) for place in others) or None,
    }
    if not link.secret:
        return (Entity(CONNECTOR, link_name(link.ref), attributes),)
    parts = {"caCertFile": "ca.crt", "certFile": "tls.crt", "privateKeyFile": "tls.key"}
    files = {name: f"{credentials}/{link_file(link.ref, part)}" for name, part in parts.items()}
    profile = Entity(SSL_PROFILE, entity_name(link.ref, "RouterLink", f"tls-{digest(files)}"), files)
    attributes |= {"sslProfile": profile.name, "verifyHostname": link.verify_hostname}
    return (profile, Entity(CONNECTOR, link_name(link.ref), attributes))


def digest(values: Mapping[str, Any]) -> str:
    """Return eight hex digits that differ when the values do."""
    return hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]


def _url(place: tuple[str, int], tls: bool) -> str:
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    return f"{'amqps' if tls else 'amqp'}://{host}:{place[1]}"


@made_once
def autolink_entities(autolink: AutoLink) -> tuple[Entity, ...]:
    """Build the entity of an AutoLink. Its name shows whether it is quiesced before it is deleted."""
    parts = (IMMEDIATE,) if autolink.deletion_policy == "Immediate" else ()
    attributes = {
        "address": autolink.address,
        "direction": autolink.direction,
        "phase": autolink.phase,
        "externalAddress": autolink.external_address,
        "fallback": autolink.fallback,
        "selector": autolink.selector,
        "noLocal": autolink.no_local or None,  # routers of older images do not have this attribute
        "distributionMode": autolink.distribution_mode,
        "capabilities": " ".join(autolink.capabilities) or None,
        "linkProperties": dict(autolink.link_properties) or None,
        **_container(autolink),
    }
    return (Entity(AUTOLINK, entity_name(autolink.ref, "AutoLink", *parts), attributes),)


@made_once
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
    """Return the attribute for its connections: the Broker's connector, or all containers with that id."""
    connection = broker_name(resource.broker) if resource.broker else None
    return {"connection": connection, "containerId": resource.container_id}
