"""A connection for a transport that is there: what a listener or connector says becomes its settings. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.addresses.keys import bare_address
from waymesh_router.core.attaching import COST_PROPERTY
from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.core.core import Core
from waymesh_router.core.model import RouterConnection
from waymesh_router.failover import PROPERTY as FAILOVER_PROPERTY
from waymesh_router.failover import server_list
from waymesh_router.host import Peer

PRODUCT = "waymesh-router"
ANNOTATIONS_VERSION = 1
UNLIMITED = 0x7FFFFFFF
LINKS_AT_ONCE = 256
"""A client's connection that ends with more links than this is cleared away bit by bit."""
CONTAINER_IDLE_S = 4.0
"""Brokers are asked for heartbeats at half of this, 2 s, at the soonest: some refuse or miss shorter ones."""


HANDSHAKE_S = 15.0


def settings_of(attrs: Mapping[str, Any], core: Core, version: str) -> ConnectionSettings:
    """What both listeners and connectors say about a connection; SASL is theirs to add."""
    capacity = attrs.get("linkCapacity") or 250
    frames = attrs.get("maxSessionFrames")
    settings = ConnectionSettings(
        container_id=attrs.get("openContainerId") or core.router_id,
        max_frame_size=attrs.get("maxFrameSize") or 16384,
        channel_max=(attrs.get("maxSessions") or 32768) - 1,
        idle_timeout_s=_idle_timeout_s(attrs),
        handshake_timeout_s=handshake_timeout_s(attrs),
        window=frames or max(256, capacity),
        offered_capabilities=[Symbol("ANONYMOUS-RELAY"), Symbol("qd.streaming-links")],
        desired_capabilities=[Symbol("ANONYMOUS-RELAY"), Symbol("qd.streaming-links")],
    )
    if attrs.get("role") in ("inter-router", ROUTE_CONTAINER):
        settings.max_links = UNLIMITED  # these carry the links of many clients
    else:
        settings.max_links = attrs.get("maxLinks") or settings.max_links
        settings.links_at_once = LINKS_AT_ONCE
    settings.properties = {
        Symbol("product"): PRODUCT,
        Symbol("version"): version,
        Symbol("qd.conn-id"): core.connection_table.next_id,
    }
    if attrs.get("role") == "inter-router":
        settings.properties[Symbol("qd.annotations-version")] = ANNOTATIONS_VERSION
        if (attrs.get("cost") or 1) > 1:
            settings.properties[Symbol(COST_PROPERTY)] = int(attrs["cost"])
    if attrs.get("failoverUrls"):
        settings.properties[Symbol(FAILOVER_PROPERTY)] = server_list(str(attrs["failoverUrls"]))
    settings.properties.update({Symbol(k): v for k, v in (attrs.get("openProperties") or {}).items()})
    return settings


def new_connection(settings: ConnectionSettings, attrs: Mapping[str, Any], peer: Peer, core: Core) -> RouterConnection:
    """The connection of a listener's or connector's transport; the core knows it from now on."""
    conn = RouterConnection(settings, core, core.now)
    conn.role = attrs.get("role") or "normal"
    conn.origin = attrs["name"]
    conn.route_address = bare_address(attrs.get("routeAddress") or "")
    conn.peer = peer
    conn.cost = attrs.get("cost") or 1
    conn.link_capacity = attrs.get("linkCapacity") or 250
    strip = attrs.get("stripAnnotations") or "both"
    conn.strip_in = strip in ("in", "both")
    conn.strip_out = strip in ("out", "both")
    conn.management = attrs.get("management") == "write"
    conn.management_files = bool(attrs.get("managementFiles"))
    core.connection_table.add(conn)
    return conn


def handshake_timeout_s(attrs: Mapping[str, Any]) -> float:
    """How long the peer may take until its open is there; inf for as long as it likes."""
    seconds = attrs.get("initialHandshakeTimeoutSeconds")
    return HANDSHAKE_S if seconds is None else float(seconds) or math.inf


def _idle_timeout_s(attrs: Mapping[str, Any]) -> float:
    """Of a listener's or connector's connections; 0 for none."""
    seconds = float(attrs.get("idleTimeoutSeconds") or 0)
    return max(seconds, CONTAINER_IDLE_S) if seconds and attrs.get("role") == ROUTE_CONTAINER else seconds
