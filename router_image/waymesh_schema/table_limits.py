"""Attributes of listeners that limit what their peers may use."""

from __future__ import annotations

from .model import INTEGER, STRING, setting

MAX_INT = 2**31 - 1

LISTENER_LIMITS = (
    setting(
        "initialHandshakeTimeoutSeconds",
        INTEGER,
        "Close the connection if no open (with http: no request) is received within this many seconds; 0: never.",
        default=15,
        minimum=0,
        maximum=MAX_INT,
    ),
    setting(
        "maxLinks",
        INTEGER,
        "Maximum number of links of a client connection, over all its sessions; with more it is closed. "
        "Connections with role inter-router or route-container, and those of edge routers, have no limit.",
        default=32768,
        minimum=1,
        maximum=MAX_INT,
    ),
    setting(
        "maxConnections",
        INTEGER,
        "Maximum number of open connections that the listener accepted; a further one is closed with "
        "amqp:resource-limit-exceeded. Absent: no limit. With http: for those over WebSocket.",
        minimum=1,
        maximum=MAX_INT,
    ),
    setting(
        "connectionRate",
        STRING,
        "Maximum rate of new connections of clients, as connections/seconds: 60/10 is 60 at once and 60 more in each "
        "10 seconds. A further one is closed with amqp:resource-limit-exceeded. Absent or none: no limit. With http: "
        "for those over WebSocket. Not for role inter-router. An extension of Waymesh.",
    ),
    setting(
        "maxOpeningConnections",
        INTEGER,
        "Maximum number of connections whose open (with http: whose request) has not arrived yet. One more closes the "
        "oldest one from the host that has most of them.",
        default=1000,
        minimum=1,
        maximum=MAX_INT,
    ),
)
