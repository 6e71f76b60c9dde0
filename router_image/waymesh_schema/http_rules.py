"""Rules of listeners with `http: yes`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .errors import SchemaError

ANY_ORIGIN = "*"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,*]+", re.IGNORECASE)
"""Scheme, host and port, as browsers send them."""
FOR_AMQP = ("usersFile", "saslPlugin", "tokenProfile", "maxConnections", "connectionRate")
"""Attributes that concern AMQP connections alone."""


def http_site(entity: str, values: dict[str, Any]) -> None:
    """As in Qpid Dispatch, httpRootDir implies `http: yes`. Raises SchemaError for settings that have no effect."""
    root = values["httpRootDir"]
    if root and not root.startswith("/"):
        raise SchemaError(entity, "httpRootDir", f"must be an absolute path, not {root!r}")
    if root:
        values["http"] = True
    if values["console"] and not (values["http"] and values["websockets"]):
        raise SchemaError(entity, "console", "needs http: yes and websockets: yes")
    if values["allowedOrigins"] is None:
        return
    if not (values["http"] and values["websockets"]):
        raise SchemaError(entity, "allowedOrigins", "needs http: yes and websockets: yes")
    for origin in values["allowedOrigins"].split():
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            reason = f"{origin!r} is neither * nor an origin of the form https://HOST[:PORT]"
            raise SchemaError(entity, "allowedOrigins", reason)


def http_without_amqp(entity: str, values: Mapping[str, Any]) -> None:
    """A listener with pages only accepts no settings for AMQP connections; raises SchemaError."""
    if not values["http"] or values["websockets"]:
        return
    for name in FOR_AMQP:
        if values[name] is not None:
            raise SchemaError(entity, name, "is for AMQP, not possible with http: yes and websockets: no")
