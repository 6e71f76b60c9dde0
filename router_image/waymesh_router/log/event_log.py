"""Log lines about listeners, connectors, connections, links, autolinks and link routes, as of Qpid Dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_amqp.sasl import SaslServer
from waymesh_amqp.tables import shrink
from waymesh_router.core.link_health import LinkHealth
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.events.event import Event, Log, about, short
from waymesh_router.events.repeats import RepeatedLines
from waymesh_router.log.link_ends import LostLinks, detail_of, numbers_of
from waymesh_router.peers.peer import failed_text
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.containers.autolink import AutoLink
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import Address, RouterConnection, RouterLink

MODULE = "ROUTER_CORE"
STUCK = "Stuck delivery: At least one delivery on this link has been undelivered/unsettled for"
BLOCKED = "Link blocked with zero credit for"
"""The beginnings of these lines are those of Qpid Dispatch, which scripts look for."""


SHRINK_EVERY = 1_024
"""Number of links of a connection that end between two looks at the size of their table."""


class EventLog(TelemetryHooks):
    """Writes a line for each event, then passes the event to `records`."""

    def __init__(self, log: Log, health: LinkHealth, records: TelemetryHooks) -> None:
        """`records` may be replaced at any time."""
        self._log = log
        self._health = health
        self.records = records
        self._opened: set[int] = set()
        self._failures: dict[str, RepeatedLines] = {}  # by connector that is not connected
        self._attached: dict[int, set[int]] = {}  # links by connection
        self._lost: dict[int, LostLinks] = {}  # by connection that was lost

    def started(self, router_id: str, mode: str) -> None:
        """The router has started and serves clients."""
        event = Event(LogEvent.ROUTER_STARTED, {"router": router_id})
        self._log("ROUTER", "notice", f"Router {router_id} started, mode {mode}", event)

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
        way = "out" if connection.settings.client else "in"
        self._authenticated(connection)
        self._opened.add(connection.id)
        if connection.settings.client:
            self._failures.pop(connection.origin, None)
        self._log(
            MODULE,
            "info",
            f"[C{connection.id}] Connection Opened: dir={way} "
            f"host={peer.host} vhost={short(vhost)} encrypted={encrypted} auth={connection.mechanism or 'no'} "
            f"user={short(connection.user)} container_id={short(container)} role={connection.role}",
            about(
                LogEvent.CONNECTION_OPENED,
                connection,
                direction=way,
                role=connection.role,
                vhost=short(vhost),
                container=short(container),
                mechanism=connection.mechanism or "",
                tls=peer.tls_proto or "" if peer.tls else "",
            ),
        )
        self.records.connection_opened(connection)

    def _authenticated(self, connection: RouterConnection) -> None:
        """Log the login of a client, even if it never opens its connection."""
        mechanism = connection.mechanism
        if connection.user and not connection.settings.client and mechanism not in (None, "", "ANONYMOUS"):
            text = f"[C{connection.id}] Authenticated: user={short(connection.user)} auth={mechanism}"
            event = about(LogEvent.AUTHENTICATION_SUCCEEDED, connection, mechanism=str(mechanism))
            self._log("SERVER", "info", text, event)

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        opened = connection.id in self._opened
        if not opened:
            self._authenticated(connection)
        if error is not None and error.condition:
            text = f"[C{connection.id}] closed: {error.condition}: {error.description}"
            self._log("SERVER", "info", text, _ended_by(connection, error, opened))
        if opened:
            self._opened.discard(connection.id)
            self._links_lost(connection)  # others follow if their deliveries end in portions
            event = about(LogEvent.CONNECTION_CLOSED, connection)
            self._log(MODULE, "info", f"[C{connection.id}] Connection Closed", event)
        self.records.connection_closed(connection, error)

    def connection_unopened(self, connection: RouterConnection, reason: str) -> None:
        """A connection ended before its open, without an AMQP error: its peer disconnected, or TLS failed.

        If the peer sent no protocol header, as probes of load balancers do, the line has level debug.
        """
        if connection.settings.client:
            same = failed_text(connection.peer.host, "closed before its open")
            event = about(LogEvent.CONNECTOR_FAILED, connection, reason=reason)
            self._failed(connection.origin, f"{same}: {reason}", event, same)
            return
        level = "info" if connection.octets_in or connection.peer.tls else "debug"
        text = f"[C{connection.id}] closed before its open: {reason}"
        self._log("SERVER", level, text, about(LogEvent.CONNECTION_REFUSED, connection, reason=reason))

    def connector_failed(self, name: str, text: str) -> None:
        """An attempt of a connector to connect failed."""
        self._failed(name, text, Event(LogEvent.CONNECTOR_FAILED, {"connector": name}, {"reason": text}), text)

    def _failed(self, name: str, text: str, event: Event, same: str) -> None:
        """Write a line about a connector, unless it says again what the one before said; `same`: what is compared."""
        left_out = self._failures.setdefault(name, RepeatedLines()).left_out(same, self._health.now)
        if left_out is not None:
            more = f" ({left_out} more times since the last line)" if left_out else ""
            self._log("SERVER", "info", f"connector {name}: {text}{more}", event)

    def link_attached(self, link: RouterLink) -> None:
        connection: RouterConnection = link.connection
        attached = self._attached.setdefault(connection.id, set())
        if link.id not in attached:
            attached.add(link.id)
            way = "out" if link.is_sender else "in"
            name, key = short(link.name), "" if link.address is None else short(link.address.key)
            address = f" address={key}" if key else ""
            event = about(
                LogEvent.LINK_ATTACHED, connection, link_id=link.id, link=name, direction=way, address=key
            )
            what = f"Link attached: dir={way} name={name}{address}"
            self._log(MODULE, "info", f"[C{connection.id}][L{link.id}] {what}", event)
        self.records.link_attached(link)

    def link_detached(self, link: RouterLink) -> None:
        connection: RouterConnection = link.connection
        attached = self._attached.get(connection.id)
        if attached is not None and link.id in attached:
            attached.discard(link.id)
            if len(attached) % SHRINK_EVERY == 0:
                shrink(attached)
            if connection.over:
                self._link_lost(connection, link)
            else:
                self._link_ended(LogEvent.LINK_DETACHED, link, "detached")
            if not attached:
                del self._attached[connection.id]
                self._links_lost(connection)
                self._lost.pop(connection.id, None)
        self.records.link_detached(link)

    def _link_lost(self, connection: RouterConnection, link: RouterLink) -> None:
        """Write the line of a link that has ended with its connection, or add its numbers to those of others."""
        lost = self._lost.get(connection.id)
        if lost is None:
            lost = self._lost[connection.id] = LostLinks()
        if lost.has_line():
            self._link_ended(LogEvent.LINK_LOST, link, "lost")
        else:
            lost.add(numbers_of(link, self._health))

    def _link_ended(self, kind: LogEvent, link: RouterLink, verb: str) -> None:
        connection: RouterConnection = link.connection
        counts = detail_of(numbers_of(link, self._health))
        event = about(kind, connection, link_id=link.id, link=short(link.name), **counts)
        text = f"[C{connection.id}][L{link.id}] Link {verb}: {_counted(counts)}"
        self._log(MODULE, "info", text, event)

    def _links_lost(self, connection: RouterConnection) -> None:
        """Write one line for the links of a lost connection that have none."""
        lost = self._lost.get(connection.id)
        if lost is not None and lost.summed:
            links, numbers = lost.take()
            counts = detail_of(numbers)
            event = about(LogEvent.LINK_LOST, connection, links=links, **counts)
            self._log(MODULE, "info", f"[C{connection.id}] Link lost: {links} more links: {_counted(counts)}", event)

    def deliveries_stuck(self, link: RouterLink, count: int, oldest_s: float) -> None:
        late = f"more than {self._health.stalled.after_s:.0f} seconds"
        text = f"{STUCK} {late}: {count} deliveries are unsettled, the oldest for {oldest_s:.0f} s"
        self._stalled(LogEvent.DELIVERY_STUCK, link, text, deliveries=count, seconds=int(oldest_s))

    def link_blocked(self, link: RouterLink, waiting: int, for_s: float) -> None:
        text = f"{BLOCKED} {for_s:.0f} seconds: {waiting} deliveries wait for a link that takes none"
        self._stalled(LogEvent.LINK_BLOCKED, link, text, deliveries=waiting, seconds=int(for_s))

    def _stalled(self, kind: LogEvent, link: RouterLink, text: str, **detail: str | int) -> None:
        """Write a line and a record about an outgoing link on which nothing goes on."""
        connection: RouterConnection = link.connection
        name, address = short(link.name), short(_address(link))
        event = about(kind, connection, link_id=link.id, link=name, address=address, **detail)
        at = f" address={address}" if address else ""
        self._log(MODULE, "notice", f"[C{connection.id}][L{link.id}] {text}: name={name}{at}", event)
        fields = {key: str(value) for key, value in event.fields.items() if key != "event"}
        self.event(kind.value, "warning", link.name, fields)

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
                Event(
                    LogEvent.AUTOLINK_CHANGED,
                    detail={"identity": str(auto.attrs.get("identity")), "before": before, "after": after},
                ),
            )
        self.records.autolink(auto, before, after)

    def linkroute(self, route: LinkRoute, before: str | None, after: str | None) -> None:
        if before is not None and after is not None:
            match = route.attrs.get("prefix") or route.attrs.get("pattern")
            text = f"link route {route.attrs['direction']} {short(match)}: {before} to {after}"
            identity = str(route.attrs.get("identity"))
            detail = {"identity": identity, "before": before, "after": after}
            self._log(MODULE, "info", text, Event(LogEvent.LINKROUTE_CHANGED, detail=detail))
        self.records.linkroute(route, before, after)

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        self.records.event(name, severity, about, detail)

    def topology_changed(self, change_id: int, since: float) -> None:
        self.records.topology_changed(change_id, since)


def _counted(counts: Mapping[str, str | int]) -> str:
    return " ".join(f"{name}={count}" for name, count in counts.items())


def _address(link: RouterLink) -> str:
    """The key of an outgoing link's address; on a link route, the address that its receiver named."""
    if link.address is not None:
        return link.address.key
    return "" if link.source is None else str(link.source.address or "")


def _ended_by(connection: RouterConnection, error: ErrorInfo, opened: bool) -> Event:
    """The event of a connection that ended by an error."""
    text = short(error.description)
    if error.condition == UNAUTHORIZED_ACCESS and connection.remote is None and not connection.settings.client:
        event = about(LogEvent.AUTHENTICATION_FAILED, connection, reason=text)
        sasl = connection.settings.sasl
        known = sasl.claimed if isinstance(sasl, SaslServer) else ""
        return replace(event, who={"user": short(known), **event.who}) if known else event
    refused = not (opened or connection.settings.client)
    kind = LogEvent.CONNECTION_REFUSED if refused else LogEvent.CONNECTION_ERROR
    return about(kind, connection, condition=error.condition, description=text)
