"""Failover servers that a server announces to its clients in the open: `failover-server-list`.

Source: protocol/inter-router.md "Connection".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from waymesh_amqp.types import Symbol

PROPERTY = "failover-server-list"
DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "ws": 80, "wss": 443}
WEB_SOCKET = ("ws", "wss")

Target = tuple[str, int]
"""Host and port."""


def server_list(urls: str) -> list[dict[Symbol, Any]]:
    """The connection property for `failoverUrls` (URLs separated by commas). Raises ValueError."""
    found = []
    for text in filter(None, (part.strip() for part in urls.split(","))):
        parts = urlsplit(text if "://" in text else f"amqp://{text}")
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"failoverUrls: {text}: expected SCHEME://host:port, by amqp, amqps, ws or wss")
        port = str(parts.port or DEFAULT_PORTS[parts.scheme])
        entry = {Symbol("network-host"): parts.hostname, Symbol("port"): port}
        found.append(entry | ({Symbol("scheme"): parts.scheme} if "://" in text else {}))
    return found


def targets_of(properties: object) -> list[Target]:
    """The failover targets that a peer announced. Invalid entries are ignored, and those for WebSocket, which
    connectors do not support."""
    listed = properties.get(PROPERTY) if isinstance(properties, Mapping) else None
    found: list[Target] = []
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, Mapping) or entry.get("scheme") in WEB_SOCKET:
            continue
        host, port = entry.get("network-host"), entry.get("port", DEFAULT_PORTS["amqp"])
        number = DEFAULT_PORTS.get(str(port)) or (int(str(port)) if str(port).isdecimal() else 0)
        if isinstance(host, str) and host and 0 < number <= 65535:
            found.append((host, number))
    return found
