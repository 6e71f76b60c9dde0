"""Reports refused connections, links and management requests to telemetry, and counts those that policy refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS
from waymesh_router.events.event import about, short
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.attaching import Refusal
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.model import RouterConnection, RouterLink

DENIALS = (UNAUTHORIZED_ACCESS, RESOURCE_LIMIT_EXCEEDED)
"""Error conditions of policy refusals; with others, the request cannot be fulfilled."""


class Refusals:
    """`denied`: number of connections, links and management requests that policy refused."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self.denied = dict.fromkeys(("connection", "link", "management"), 0)

    def link(self, lk: RouterLink, refusal: Refusal) -> None:
        """Log and report a refused link."""
        conn: RouterConnection = lk.connection
        if not refusal.logged:
            name, reason = short(lk.name), short(refusal.description)
            text = f"[C{conn.id}] Link refused: name={name}: {refusal.condition}: {reason}"
            event = LogEvent.POLICY_DENIED if refusal.condition in DENIALS else LogEvent.LINK_REFUSED
            detail = {"kind": "link", "link": name, "condition": refusal.condition, "reason": reason}
            self._context.log("ROUTER_CORE", "info", text, about(event, conn, **detail))
        self.report("link", lk.name, refusal.condition, refusal.description, conn)

    def report(self, kind: str, about: str, condition: str, description: str, conn: RouterConnection) -> None:
        """Report a refused `connection`, `link` or `management` request."""
        denied = condition in DENIALS
        if denied:
            self.denied[kind] += 1
        detail = {"kind": kind, "condition": condition, "description": description, "connection": str(conn.id)}
        self._context.telemetry.event("policy.denied" if denied else f"{kind}.refused", "warning", about, detail)
