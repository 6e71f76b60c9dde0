"""Reports refused connections, links and management requests to telemetry, and counts those that policy refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS

if TYPE_CHECKING:
    from waymesh_router.core.context import Context
    from waymesh_router.core.model import RouterConnection

DENIALS = (UNAUTHORIZED_ACCESS, RESOURCE_LIMIT_EXCEEDED)
"""Error conditions of policy refusals; others mean that the request cannot be fulfilled."""


class Refusals:
    """`denied`: number of connections, links and management requests that policy refused."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.denied = dict.fromkeys(("connection", "link", "management"), 0)

    def report(self, kind: str, about: str, condition: str, description: str, conn: RouterConnection) -> None:
        """Report a refused `connection`, `link` or `management` request."""
        denied = condition in DENIALS
        if denied:
            self.denied[kind] += 1
        detail = {"kind": kind, "condition": condition, "description": description, "connection": str(conn.id)}
        self._context.telemetry.event("policy.denied" if denied else f"{kind}.refused", "warning", about, detail)
