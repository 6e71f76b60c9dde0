"""Draining: a router moves its clients to other routers before it stops, without losing deliveries.

A draining router accepts no new clients, links and messages, withdraws its addresses from the mesh and redirects
transit traffic. When no delivery is in progress, or at the time limit, it closes the connections of its clients, which
reconnect elsewhere, and announces to the mesh that no path uses it. Source: docs/architecture.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from waymesh_router.core import attaching
from waymesh_router.core.addresses.keys import MOBILE
from waymesh_router.core.core import Core
from waymesh_router.core.edge.uplink import Uplink
from waymesh_router.core.hang_up import hang_up
from waymesh_router.core.model import RouterConnection, RouterLink
from waymesh_router.core.unsettled import (
    Unsettled,
    at_rest,
    client_senders,
    count_unsettled,
    mobile_traffic,
    only_manages,
)
from waymesh_router.events.event import Event, Log
from waymesh_router.mesh import Mesh
from waymesh_schema.events import LogEvent

NONE, DRAINING, DRAINED = "none", "draining", "drained"
QUIET_S = 0.4
"""The drain ends after this time without deliveries: other routers need some milliseconds to learn about it."""
REPLY_S = 3.0
"""Maximum credit of anonymous senders and of senders to the address of a single client during a drain: servers need
them for replies to open requests."""
CREDIT_S = 0.5
"""Time for senders to return their credit. Those of python-qpid-proton do not return it; their connection is closed as
soon as it has no unsettled delivery. Otherwise the sender would continue to send and be refused, and the drain would
wait for it. Pre-settled messages may be lost."""


def grant_again(link: RouterLink) -> None:
    """Grant a client's sender its withdrawn credit again, unless it ends or its messages would have no receiver."""
    if not (link.accepting or link.retiring) and (link.address is None or link.address.reachable()):
        link.grant()


class Drain:
    """Drains one router. `status`: NONE, DRAINING, DRAINED; `timeout_s`: time limit for deliveries."""

    def __init__(self, core: Core, mesh: Mesh | Uplink | None) -> None:
        self.status = NONE
        self.timeout_s = 30.0
        self._core = core
        self._mesh = mesh
        self._since = -math.inf
        self._withdrawn_at = math.inf
        self._busy_at = -math.inf
        self._traffic = 0

    def start(self) -> None:
        """Start to drain. No effect if it has started."""
        if self.status != NONE:
            return
        core = self._core
        self.status = DRAINING
        self._since = self._busy_at = core.now
        text = f"draining, {self.timeout_s:g} s at most; {self.unsettled().clients} deliveries unsettled"
        self._log("notice", text, LogEvent.DRAIN_STARTED)
        self._withdrawn_at = math.inf
        core.context.drain_from = core.connection_table.next_id
        for link in self._senders():
            if link.address is not None and link.address.key.startswith(MOBILE):
                link.withdraw()
        if self._mesh is not None:
            self._mesh.withdraw()

    def configure(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Apply the attributes of the entity `router`; `changed`: those whose values are new."""
        self.timeout_s = float(attrs["drainTimeoutSeconds"])
        if changed.get("draining"):
            self.start()
        elif "draining" in changed:
            self.cancel()

    def cancel(self) -> None:
        """Return to normal service. Clients whose connections were closed reconnect by themselves."""
        if self.status == NONE:
            return
        self.status = NONE
        core = self._core
        core.context.drain_from = 0
        for link in self._senders():
            grant_again(link)
        if self._mesh is not None:
            self._mesh.rejoin()
        self._log("notice", "drain cancelled", LogEvent.DRAIN_CANCELLED)

    def tick(self, now: float) -> None:
        """Check whether the drain is complete; to be called several times a second."""
        core = self._core
        self._hang_up(core.endpoint_links.turned_away)
        core.endpoint_links.turned_away = []
        if self.status != DRAINING:
            return
        left = self.unsettled()
        traffic = mobile_traffic(core.addresses.values())
        if left or self._credit_is_out(now) or traffic != self._traffic:
            self._busy_at = now
        self._traffic = traffic
        quiet = now - self._busy_at >= QUIET_S
        if self._withdrawn_at == math.inf and (quiet or now - self._since >= REPLY_S):
            self._withdrawn_at = now
            for link in [link for link in self._senders() if link.accepting]:
                link.withdraw()
                self._busy_at = now
        if not self._credit_is_out(now):
            self._hang_up(self._keeping_credit())
        if now - self._busy_at >= QUIET_S:
            self._finish("all deliveries are settled")
        elif now - self._since >= self.timeout_s:
            what = f"{left.clients} deliveries of clients and {left.transit} in transit are unsettled"
            self._finish(f"time is up, {what}", "warning")

    def unsettled(self) -> Unsettled:
        """Deliveries in progress."""
        core = self._core
        return count_unsettled(core.connections.values(), core.links.values(), core.addresses.values())

    def _senders(self) -> list[RouterLink]:
        return client_senders(self._core.links.values())

    def _credit_is_out(self, now: float) -> bool:
        """Whether a sender may still return the credit that was withdrawn."""
        since = self._since if self._withdrawn_at == math.inf else self._withdrawn_at
        return now - since < CREDIT_S and any(link.credit and not link.accepting for link in self._senders())

    def _keeping_credit(self) -> list[RouterConnection]:
        """Connections of clients that do not return withdrawn credit and have no delivery in progress."""
        keeping = [link for link in self._senders() if link.credit and not link.accepting]
        connections: dict[int, RouterConnection] = {link.connection.id: link.connection for link in keeping}
        return [conn for conn in connections.values() if not conn.settings.client and at_rest(conn)]

    def _finish(self, why: str, level: str = "notice") -> None:
        """Close the clients' connections; management connections and those that the router opened stay.

        Connections that opened after the drain began also stay: on these, the router accepts only management links and
        closes the connection at the attach of any other link. Closing them here could interrupt the handshake of a
        management client.
        """
        self.status = DRAINED
        core = self._core
        clients = [
            connection
            for connection in core.connections.values()
            if connection.id < core.context.drain_from
            and connection.role != "inter-router"
            and not connection.settings.client
            and not only_manages(connection)
        ]
        self._hang_up(clients)
        if self._mesh is not None:
            self._mesh.leave()
        self._log(level, f"drained: {why}; {len(clients)} client connections closed", LogEvent.DRAIN_FINISHED)

    def _hang_up(self, connections: list[RouterConnection]) -> None:
        for connection in connections:
            if not connection.over:
                hang_up(connection, attaching.DRAINING)

    def _log(self, level: str, text: str, kind: LogEvent) -> None:
        log: Log = self._core.log
        log("ROUTER", level, text, Event(kind))
