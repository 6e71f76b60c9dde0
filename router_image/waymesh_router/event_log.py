"""Log lines about listeners, connectors, connections, links, autolinks and link routes, as of Qpid Dispatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.core.link_health import deliveries_of
from waymesh_router.core.telemetry_hooks import TelemetryHooks

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.containers.autolink import AutoLink
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import Address, RouterConnection, RouterLink

MODULE = "ROUTER_CORE"
MOST_CHARACTERS = 200
"""Maximum length in the log of names that a peer has chosen."""


class EventLog(TelemetryHooks):
    """Writes a line for each event, then passes the event to `records`."""

    def __init__(self, log: Callable[[str, str, str], None], records: TelemetryHooks) -> None:
        """`log(module, level, text)` writes a line if the level is enabled. `records` may be replaced at any time."""
        self._log = log
        self.records = records
        self._attached: set[int] = set()

    def configured(self, kind: str, attrs: Mapping[str, Any]) -> None:
        """A listener or connector was configured."""
        host = attrs.get("host") or ""
        place = f"[{host}]" if ":" in host else host
        tls = f", sslProfile={attrs['sslProfile']}" if attrs.get("sslProfile") else ""
        text = f"Configured {kind}: {place}:{attrs['port']} proto=any, role={attrs['role']}{tls}, name={attrs['name']}"
        self._log("CONN_MGR", "info", text)

    def connection_opened(self, connection: RouterConnection) -> None:
        peer, remote = connection.peer, connection.remote
        container = "" if remote is None else remote.container_id
        vhost = None if remote is None else remote.hostname
        encrypted = peer.tls_proto if peer.tls else "no"
        self._log(
            MODULE,
            "info",
            f"[C{connection.id}] Connection Opened: dir={'out' if connection.settings.client else 'in'} "
            f"host={peer.host} vhost={short(vhost)} encrypted={encrypted} auth={connection.mechanism or 'no'} "
            f"user={short(connection.user)} container_id={short(container)} role={connection.role}",
        )
        self.records.connection_opened(connection)

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        if connection.remote is not None:
            self._log(MODULE, "info", f"[C{connection.id}] Connection Closed")
        self.records.connection_closed(connection, error)

    def link_attached(self, link: RouterLink) -> None:
        connection: RouterConnection = link.connection  # type: ignore[assignment]
        if link.id not in self._attached:
            self._attached.add(link.id)
            way = "out" if link.is_sender else "in"
            address = "" if link.address is None else f" address={short(link.address.key)}"
            what = f"Link attached: dir={way} name={short(link.name)}{address}"
            self._log(MODULE, "info", f"[C{connection.id}][L{link.id}] {what}")
        self.records.link_attached(link)

    def link_detached(self, link: RouterLink) -> None:
        if link.id in self._attached:
            self._attached.discard(link.id)
            connection: RouterConnection = link.connection  # type: ignore[assignment]
            what = "lost" if connection.over else "detached"
            self._log(
                MODULE,
                "info",
                f"[C{connection.id}][L{link.id}] Link {what}: del={deliveries_of(link)} presett={link.presettled} "
                f"psdrop={link.dropped_presettled} acc={link.accepted} rej={link.rejected} rel={link.released} "
                f"mod={link.modified}",
            )
        self.records.link_detached(link)

    def address_gone(self, address: Address) -> None:
        self.records.address_gone(address)

    def autolink(self, auto: AutoLink, before: str | None, after: str | None) -> None:
        if before is not None and after is not None:
            error = f": {short(auto.last_error)}" if after == "failed" and auto.last_error else ""
            at = auto.attrs.get("connection") or auto.attrs.get("containerId")
            self._log(
                MODULE,
                "info",
                f"autolink {auto.attrs['direction']} {short(auto.address)} at {short(at)}: {before} to {after}{error}",
            )
        self.records.autolink(auto, before, after)

    def linkroute(self, route: LinkRoute, before: str | None, after: str | None) -> None:
        if before is not None and after is not None:
            match = route.attrs.get("prefix") or route.attrs.get("pattern")
            self._log(MODULE, "info", f"link route {route.attrs['direction']} {short(match)}: {before} to {after}")
        self.records.linkroute(route, before, after)

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        self.records.event(name, severity, about, detail)

    def topology_changed(self, change_id: int, since: float) -> None:
        self.records.topology_changed(change_id, since)


def short(text: str | None) -> str:
    """The text, truncated if it is long; "" for None. The log escapes unprintable characters."""
    if text is None or len(text) <= MOST_CHARACTERS:
        return text or ""
    return text[:MOST_CHARACTERS] + "…"
