"""Connections and links that are refused are reported to telemetry; those that policy refuses are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS

if TYPE_CHECKING:
    from waymesh_router.core.context import Context
    from waymesh_router.core.model import RouterConnection

DENIALS = (UNAUTHORIZED_ACCESS, RESOURCE_LIMIT_EXCEEDED)
"""Conditions of policy; with any other one the request cannot be fulfilled."""


class Refusals:
    """`denied`: how many connections and links policy has refused."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.denied = dict.fromkeys(("connection", "link"), 0)

    def report(self, kind: str, about: str, condition: str, description: str, conn: RouterConnection) -> None:
        """A peer was refused a `connection` or a `link`."""
        denied = condition in DENIALS
        if denied:
            self.denied[kind] += 1
        detail = {"kind": kind, "condition": condition, "description": description, "connection": str(conn.id)}
        self._context.telemetry.event("policy.denied" if denied else f"{kind}.refused", "warning", about, detail)
