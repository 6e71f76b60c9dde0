"""Creates the connection of a transport, with the settings of its listener or connector. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from waymesh_amqp.limits import UNLIMITED_LINKS
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.addresses.keys import bare_address
from waymesh_router.core.attaching import COST_PROPERTY, STREAMING_CAPABILITY, VERSION_PROPERTY
from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import MANAGEMENT_RIGHTS, NO_MANAGEMENT, READ_MANAGEMENT, UNDECIDED_MANAGEMENT
from waymesh_router.core.model import RouterConnection
from waymesh_router.peers.failover import PROPERTY as FAILOVER_PROPERTY
from waymesh_router.peers.failover import server_list
from waymesh_router.peers.peer import Peer

PRODUCT = "waymesh-router"
ANNOTATIONS_VERSION = 1
LINKS_AT_ONCE = 16
"""A client connection with more links than this is cleaned up in several turns."""
MOST_REFUSED = 1000
"""Links of a client that were refused and whose detach it has not answered. A client answers when it reads, so one with
more does not read, or is no client. Each takes about 150 octets, and refusing is as much work as attaching."""
CONTAINER_IDLE_S = 4.0
"""Minimum idle time-out toward brokers, which then get heartbeats every 2 s: some refuse or miss shorter intervals."""

HANDSHAKE_S = 15.0


def settings_of(attrs: Mapping[str, Any], core: Core, version: str) -> ConnectionSettings:
    """The settings that listeners and connectors have in common; the callers add SASL."""
    capacity = attrs.get("linkCapacity") or 250
    frames = attrs.get("maxSessionFrames")
    settings = ConnectionSettings(
        container_id=attrs.get("openContainerId") or core.router_id,
        max_frame_size=attrs.get("maxFrameSize") or 16384,
        channel_max=(attrs.get("maxSessions") or 32768) - 1,
        idle_timeout_s=_idle_timeout_s(attrs),
        handshake_timeout_s=handshake_timeout_s(attrs),
        window=frames or max(256, capacity),
        window_opens=not frames and attrs.get("role") in (None, "normal", ROUTE_CONTAINER),
        offered_capabilities=_capabilities(core),
        desired_capabilities=_capabilities(core),
    )
    if attrs.get("role") in ("inter-router", ROUTE_CONTAINER):
        settings.max_links = UNLIMITED_LINKS  # these connections carry the links of many clients
    else:
        settings.max_links = attrs.get("maxLinks") or settings.max_links
        settings.links_at_once = LINKS_AT_ONCE
    if attrs.get("role") in (None, "normal"):
        settings.max_refused = MOST_REFUSED
    settings.properties = {
        Symbol("product"): PRODUCT,
        Symbol("version"): version,
        Symbol("qd.conn-id"): core.connection_table.next_id,
    }
    if attrs.get("role") in ("inter-router", "edge"):
        settings.properties[Symbol(VERSION_PROPERTY)] = ANNOTATIONS_VERSION
        if (attrs.get("cost") or 1) > 1:
            settings.properties[Symbol(COST_PROPERTY)] = int(attrs["cost"])
    if attrs.get("failoverUrls"):
        settings.properties[Symbol(FAILOVER_PROPERTY)] = server_list(str(attrs["failoverUrls"]))
    settings.properties.update({Symbol(k): v for k, v in (attrs.get("openProperties") or {}).items()})
    return settings


def _capabilities(core: Core) -> list[str]:
    return [Symbol("ANONYMOUS-RELAY"), *([Symbol(STREAMING_CAPABILITY)] if core.context.streaming else [])]


def new_connection(settings: ConnectionSettings, attrs: Mapping[str, Any], peer: Peer, core: Core) -> RouterConnection:
    """Create the connection for a transport of a listener or connector, and add it to the core."""
    conn = RouterConnection(settings, core, core.now)
    conn.role = attrs.get("role") or "normal"
    conn.uplink = conn.role == "edge" and settings.client
    if conn.uplink:
        settings.max_links = UNLIMITED_LINKS
    conn.origin = attrs["name"]
    conn.route_address = bare_address(attrs.get("routeAddress") or "")
    conn.durable_names = attrs.get("durableNames") or ""
    conn.peer = peer
    conn.cost = attrs.get("cost") or 1
    conn.link_capacity = attrs.get("linkCapacity") or 250
    strip = attrs.get("stripAnnotations") or "both"
    conn.strip_in = strip in ("in", "both")
    conn.strip_out = strip in ("out", "both")
    conn.policy_vhost = attrs.get("policyVhost") or ""
    conn.for_managers = attrs.get("management") == "write"
    conn.multi_tenant = bool(attrs.get("multiTenant"))
    conn.management = _management_of(attrs)
    conn.management_files = bool(attrs.get("managementFiles"))
    core.connection_table.add(conn)
    return conn


def _management_of(attrs: Mapping[str, Any]) -> int:
    """The right that a listener or connector gives; UNDECIDED_MANAGEMENT: its default. Tenants never write."""
    value = attrs.get("management")
    right = UNDECIDED_MANAGEMENT if value is None else MANAGEMENT_RIGHTS[value]
    return right if not attrs.get("multiTenant") else max(NO_MANAGEMENT, min(right, READ_MANAGEMENT))


def handshake_timeout_s(attrs: Mapping[str, Any]) -> float:
    """Time limit for the peer's open; inf without a limit."""
    seconds = attrs.get("initialHandshakeTimeoutSeconds")
    return HANDSHAKE_S if seconds is None else float(seconds) or math.inf


def _idle_timeout_s(attrs: Mapping[str, Any]) -> float:
    """Idle time-out for connections of a listener or connector; 0 for none."""
    seconds = float(attrs.get("idleTimeoutSeconds") or 0)
    return max(seconds, CONTAINER_IDLE_S) if seconds and attrs.get("role") == ROUTE_CONTAINER else seconds


def opened_text(conn: RouterConnection) -> str:
    """`connectionMsg` of an open connection, in the format of Dispatch."""
    facts = {
        "dir": "out" if conn.settings.client else "in",
        "host": conn.peer.host,
        "vhost": conn.settings.hostname or "",
        "encrypted": conn.peer.tls_proto or "no",
        "auth": conn.mechanism or "no",
        "user": conn.user or "",
        "container_id": "" if conn.remote is None else conn.remote.container_id,
    }
    return f"[C{conn.id}] Connection Opened: " + " ".join(f"{name}={value}" for name, value in facts.items())
