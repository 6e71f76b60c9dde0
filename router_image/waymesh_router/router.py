"""A router: configuration, core, control plane and management. Pure: the host does the I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from waymesh_amqp.connection import Connection
from waymesh_amqp.sasl import SaslClient
from waymesh_router.boot import configure, names_to_look_up, random_id
from waymesh_router.certificates.own import OwnCertificates
from waymesh_router.clients.access import ClientAccess, no_policy
from waymesh_router.clients.admission import Admission
from waymesh_router.clients.drain import DRAINING, NONE, Drain
from waymesh_router.clients.login_expiry import LoginExpiry
from waymesh_router.clients.logins import Logins
from waymesh_router.clients.policy_check import PolicyCheck
from waymesh_router.clients.readiness import Readiness
from waymesh_router.clients.share import ClientShare
from waymesh_router.connections.connector_state import ConnectorState, status_of
from waymesh_router.connections.transports import new_connection, settings_of
from waymesh_router.core import attaching
from waymesh_router.core.addresses.keys import OWN_MANAGEMENT_KEYS, names_management
from waymesh_router.core.addresses.reserved import ReservedAddresses
from waymesh_router.core.core import Core
from waymesh_router.core.link_health import LinkHealth
from waymesh_router.core.link_kinds import TREATMENTS
from waymesh_router.core.link_routing.offers import pass_on
from waymesh_router.core.model import RouterConnection
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.core.unsettled import is_expensive_to_count
from waymesh_router.due_work import DueWork
from waymesh_router.host import Host
from waymesh_router.log.event_log import EventLog
from waymesh_router.management.assembly import build_agent
from waymesh_router.management.errors import conflict
from waymesh_router.management.look_ups import KnownNames, LookUps
from waymesh_router.management.rights import Rights
from waymesh_router.management.service import ManagementService
from waymesh_router.mesh import Mesh
from waymesh_router.peers.failover import server_list, targets_of
from waymesh_router.peers.mechanisms import (
    check_connector,
    check_listener,
    check_unused,
    connector_warnings,
    mechanisms_of,
)
from waymesh_router.peers.peer import Peer, failed_text
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.settings import routing_settings
from waymesh_router.telemetry.collector import Collector
from waymesh_router.telemetry.export import TelemetryExport
from waymesh_router.ticks import TICK_S, LongWork, Part, Ticks
from waymesh_schema.config import ConfigEntry


class Router:
    """A router, built from a configuration. The host calls `accepted`, `connected`, `lost` and `tick`.

    `dirty`: connections to flush or write.
    """

    def __init__(
        self, config: Sequence[ConfigEntry], host: Host, now: float, rng: attaching.Rng, version: str = "",
        boot: int = 0,
    ) -> None:  # fmt: skip
        self.host, self.config, self.rng, self.version = host, config, rng, version
        self.recent_log, self.certificates, self.host_names = host.recent_log, host.certificates, KnownNames()
        self.attrs: dict[str, Any] = dict(next(e.attributes for e in config if e.type.name == "router"))
        self.mode: str = self.attrs["mode"]
        router_id = self.attrs["id"] = self.attrs.get("id") or random_id(self.mode, rng)
        self.core = Core(router_id, now, rng, host.log, self.mode == "edge")
        self.dirty: list[Connection] = self.core.dirty
        self.sampler = LinkHealth(self.core)
        self.sampler.stalled.configure(self.attrs)
        self.core.context.telemetry = self._events = EventLog(host.log, self.sampler, TelemetryHooks())
        self.core.address_table.default_treatment = TREATMENTS[self.attrs["defaultDistribution"]]
        self.core.forwarder.multicast.unsettled_allowed = self.attrs["allowUnsettledMulticast"]
        self.core.routed_attaches.resumable = self.attrs["allowResumableLinkRoute"]
        self.logins = Logins(host, router_id, version)
        self.listeners: dict[str, Mapping[str, Any]] = {}
        self.connectors: dict[str, ConnectorState] = {}
        self._ending_connectors: set[str] = set()
        self.routing: RoutingEngine | None = None
        self.mesh: Mesh | None = None
        self.policy, self.next_tick = no_policy(), now
        if self.mode == "interior":
            self.routing = RoutingEngine(routing_settings(self.attrs, boot), now)
            self.mesh = Mesh(self.core, self.routing, host)
            self.core.context.control_plane = self.mesh
        self.reserved = ReservedAddresses(self.core.router_id, False) if self.mesh is None else self.mesh.reserved
        self.check_policy = PolicyCheck(self.policy, router_id)
        self.agent, look_ups = build_agent(self), LookUps(self.host_names, host.look_up)
        log, send = partial(host.log, "AGENT"), self.core.own_messages.send
        rights = Rights(router_id, partial(self.core.refusals.report, "management"), log)
        self._management = ManagementService(self.agent, lambda: self.core.now, send, log, rights, look_ups)
        self.drain = Drain(self.core, self.mesh or self.core.uplink)
        self.client_share = ClientShare(self.core, host.log)
        self.core.connection_table.on_opened = self._on_open
        self._access = ClientAccess(self.policy, self.core, self.listeners, partial(host.log, "POLICY"))
        self._login_expiry = LoginExpiry(host, self.listeners)
        self.admission = Admission(self.core, host, self.listeners, self.policy)
        self._sampling = Part("sampling", self.sampler.tick, host)
        self._telemetry = TelemetryExport(self, self.core, host, self._events)
        self._mesh_part = None if self.mesh is None else Part("the mesh", self.mesh.tick, host)
        self._ticks = Ticks(self.core, host, (Part(name, call, host) for name, call in self._timed().items()))
        self._long_work = LongWork(self.core, host, self._management)
        self.tick = DueWork(self.core, self.mesh, self._management, self._work).run
        """`tick(now)` runs timers; called in each turn of the event loop. Returns when it must be called again."""
        self._readiness, self._started = Readiness(now), False
        for key in OWN_MANAGEMENT_KEYS:
            self.core.address_table.subscribe(key, self._management.on_request)

    def start(self, configured: Callable[[], None] = lambda: None) -> None:
        """Create the configured entities, then call `configured`. Raises ConfigError."""
        with self.host_names.given(self.host.numeric_addresses(names_to_look_up(self.config))):
            configure(self.agent, self.config, self.host.log)
        configured()
        self._started = True
        self._events.started(self.core.router_id, self.mode)

    # ---- transports
    def accepted(self, listener_name: str, peer: Peer) -> Connection:
        """A client's transport was accepted."""
        attrs = self.listeners[listener_name]
        settings = settings_of(attrs, self.core, self.version)
        self.logins.configure(settings, attrs, peer)
        offer = self.core.linkroutes.offer_for(attrs["routeAddress"]) if attrs.get("routeAddress") else None
        pass_on(settings, str(attrs.get("openCapabilities") or "").split(), offer)
        return new_connection(settings, attrs, peer, self.core)

    def connected(self, connector_name: str, peer: Peer) -> Connection:
        """A connector's transport is connected."""
        attrs = self.connectors[connector_name].attrs
        settings = settings_of(attrs, self.core, self.version)
        settings.client = True
        settings.offload = self.host.offload
        settings.hostname = attrs.get("openHostname") or attrs.get("host")
        if password := attrs.get("saslPassword"):
            password = self.host.password(f"connector {connector_name}: saslPassword", str(password))
        settings.sasl = SaslClient(mechanisms_of(attrs), attrs.get("saslUsername"), password, external=peer.tls)
        return new_connection(settings, attrs, peer, self.core)

    def _on_open(self, conn: RouterConnection) -> None:
        """The peer's open has arrived: refuse clients by policy and limits, or store a server's failover list."""
        self._access.opened(conn)
        if not conn.settings.client:
            self.admission.opened(conn)
            self._login_expiry.opened(conn)
            return
        state = self.connectors.get(conn.origin)
        if state is None or conn.remote is None:
            return
        targets = targets_of(conn.remote.properties)
        if targets != state.failover:
            state.failover = targets
            self.host.set_failover(conn.origin, targets)

    def connect_failed(self, connector_name: str, reason: str) -> None:
        """An attempt of a connector failed."""
        if connector_name in self.connectors:
            self.connectors[connector_name].failed(reason)
            self._events.connector_failed(connector_name, reason)

    def lost(self, conn: Connection, reason: str) -> None:
        """The transport ended."""
        error, unopened = conn.error, conn.remote is None and not conn.over
        conn.eof(reason)
        if not isinstance(conn, RouterConnection):
            return
        if unopened and conn.error is None:
            self._events.connection_unopened(conn, reason)
        self.admission.connection_closed(conn)
        self._login_expiry.connection_closed(conn)
        self.logins.connection_closed(conn)
        if conn.settings.client and conn.origin in self.connectors:
            why = reason if error is None else f"{error.condition}: {error.description}"
            self.connectors[conn.origin].failed(failed_text(conn.peer.host, why))

    # ---- time
    def _timed(self) -> dict[str, Callable[[float], None]]:
        """The parts that need timers, by name."""
        return {
            "draining": self.drain.tick, "balance": self.client_share.tick, "logins": self._login_expiry.tick,
            "certificates": OwnCertificates(self.host, self.connectors).tick, "memory": self.admission.tick,
            "autolinks": self.core.autolinks.tick, "removed connectors": lambda _: self._end_idle_connectors(),
            "link routes": lambda _: self.core.routed_attaches.tick(), "session windows": self.core.opened_windows.tick,
            "clock": lambda now: self.core.context.follow_clock(self.host.tokens.now() - now),
            "windows": self.core.demand.tick, "edge routers": self.core.edges.tick, "telemetry": self._telemetry.tick,
            "credit of containers": self.core.pacing.tick,
            "streams": self.core.credit.tick_streams, "relays": lambda _: self.core.relays.tick(),
        } | ({} if self.core.uplink is None else {"uplink": self.core.uplink.tick})

    def _work(self, now: float) -> float:
        """Do what is due, and a portion of long work; returns when there is more to do."""
        following = math.inf if self._mesh_part is None else self._mesh_part.run(now)
        if now >= self.next_tick:
            self.next_tick = now + TICK_S
            self._ticks.run(now)
        if self.core.budget.excess:
            self.admission.relief.end_excess(now)
        self.core.demand.groups.soon()
        following = min(following, self._long_work.run(now))
        self.core.credit.send_freed()
        self.core.demand.ask_soon()
        if self.core.expiry.busy and self.core.credit.end_expired():
            following = now
        busy = self.core.connections or self.core.closing or self.drain.status == DRAINING or self.collector is not None
        sample_at = self._sampling.run(now)
        return min(following, self.next_tick, sample_at) if busy else following

    def not_ready(self, now: float) -> str:
        """The reason why this router should not get clients, "" if it is ready."""
        if self.drain.status != NONE:
            return attaching.DRAINING
        if not self._started:
            return "the configuration is not complete yet"
        connectors = [name for name, state in self.connectors.items() if state.attrs["role"] == "inter-router"]
        return self._readiness.missing(self.routing, connectors, self.core.connections.values(), now)

    # ---- management: the methods of RouterView
    def add_listener(self, attrs: Mapping[str, Any]) -> None:
        server_list(str(attrs.get("failoverUrls") or ""))  # reports errors now, not when clients connect
        check_listener(attrs, self.mode)
        self.logins.add_listener(attrs)
        self.host.listen(attrs)
        profile = self.agent.adapters["sslProfile"].find("name", attrs.get("sslProfile") or "", self.core.now)
        for text in self.logins.warnings(attrs, profile):
            self.host.log("SERVER", "warning", f"listener {attrs['name']}: {text}")
        self.listeners[attrs["name"]] = attrs
        self._events.configured("Listener", attrs)

    def update_listener(self, attrs: Mapping[str, Any]) -> None:
        self.host.update_listener(attrs)
        self.listeners[attrs["name"]] = attrs
        self._login_expiry.listener_changed()

    def remove_listener(self, attrs: Mapping[str, Any]) -> None:
        self.host.unlisten(attrs["name"])
        self.listeners.pop(attrs["name"], None)
        self.logins.keep_those_of(self.listeners.values())

    def add_connector(self, attrs: Mapping[str, Any]) -> None:
        check_connector(attrs, self.mode)
        if attrs["name"] in self._ending_connectors:
            self._end_connector(attrs["name"])
        self.connectors[attrs["name"]] = ConnectorState(attrs)
        try:
            self.host.connect(attrs)
        except OSError:
            del self.connectors[attrs["name"]]
            raise
        for text in connector_warnings(attrs):
            self.host.log("SERVER", "warning", f"connector {attrs['name']}: {text}")
        self._events.configured("Connector", attrs)

    def remove_connector(self, attrs: Mapping[str, Any]) -> None:
        self._ending_connectors.add(attrs["name"])
        self._end_idle_connectors()

    def _end_idle_connectors(self) -> None:
        """Close the connections of removed connectors once their quiescing autolinks, if any, are idle."""
        for name in list(self._ending_connectors):
            if not self.core.autolinks.quiescing_at(("connection", name)):
                self._end_connector(name)

    def _end_connector(self, name: str) -> None:
        self._ending_connectors.discard(name)
        self.host.disconnect(name)
        self.connectors.pop(name, None)

    def add_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        self.host.ssl_profile(attrs)

    def update_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        self.host.update_ssl_profile(attrs)

    def remove_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        ours = [state.attrs for used, state in self.connectors.items() if used not in self._ending_connectors]
        listeners, plugins = self.listeners.values(), self.logins.plugins.values()
        check_unused("sslProfile", attrs["name"], listener=listeners, connector=ours, authServicePlugin=plugins)
        self.host.remove_ssl_profile(attrs["name"])

    def add_token_profile(self, attrs: Mapping[str, Any]) -> None:
        self.host.tokens.add(attrs)

    def remove_token_profile(self, attrs: Mapping[str, Any]) -> None:
        check_unused("tokenProfile", attrs["name"], listener=self.listeners.values())
        self.host.tokens.remove(attrs["name"])

    def add_auth_service(self, attrs: Mapping[str, Any]) -> None:
        self.logins.add_plugin(attrs)

    def remove_auth_service(self, attrs: Mapping[str, Any]) -> None:
        check_unused("authServicePlugin", attrs["name"], listener=self.listeners.values())
        self.logins.remove_plugin(attrs["name"])

    def update_router(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        self.drain.configure(attrs, changed)
        self.client_share.configure(attrs, changed)
        self.admission.configure(attrs)
        self.sampler.stalled.configure(attrs)

    def unsettled_deliveries(self) -> int:
        return self.sampler.clients if is_expensive_to_count(self.core) else self.drain.unsettled().clients

    @property
    def topology_changes(self) -> int:
        return 0 if self.mesh is None else self.mesh.changes

    @property
    def drain_status(self) -> str:
        return self.drain.status

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        self.host.configure_log(attrs)

    def add_address(self, attrs: Mapping[str, Any]) -> None:
        try:
            self.core.address_table.add_pattern(dict(attrs))
        except KeyError:
            raise conflict(f"{attrs.get('pattern') or attrs.get('prefix')} is already configured") from None

    def remove_address(self, attrs: Mapping[str, Any]) -> None:
        self.core.address_table.remove_pattern(dict(attrs))

    def add_auto_link(self, attrs: Mapping[str, Any]) -> None:
        if names_management(attrs["address"]):  # the container's messages would be management requests
            raise ValueError("router.config.autoLink address: must not be the address of the routers' own management")
        self.core.autolinks.add(attrs)

    def remove_auto_link(self, attrs: Mapping[str, Any]) -> None:
        self.core.autolinks.remove(attrs["identity"])

    def update_auto_link(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        if changed.get("quiescing"):
            self.core.autolinks.quiesce(attrs["identity"])
        elif "quiescing" in changed:
            self.core.autolinks.resume(attrs["identity"])

    def add_link_route(self, attrs: Mapping[str, Any]) -> None:
        self.core.linkroutes.add(attrs)

    def remove_link_route(self, attrs: Mapping[str, Any]) -> None:
        self.core.linkroutes.remove(attrs["identity"])

    def configure_telemetry(self, attrs: Mapping[str, Any]) -> None:
        if attrs["path"] and self._started:  # at the start, failing telemetry must not stop the router
            self.host.check_telemetry(attrs)
        self._telemetry.configure(attrs)

    @property
    def collector(self) -> Collector | None:
        """The collector of records, None while telemetry is off."""
        return self._telemetry.collector

    def ending(self) -> None:
        """The router is being stopped: its connections will be closed."""
        self._telemetry.router_ending()

    def end_telemetry(self) -> None:
        """Publish the records so far and create no more."""
        self._telemetry.end()

    def logged(self, module: str, level: str, text: str) -> None:
        """A line of level warning or worse was logged."""
        severity = "warning" if level == "warning" else "error"
        self.core.context.telemetry.event(f"log.{level}", severity, module, {"text": text})

    def connector_status(self, name: str) -> tuple[str, str]:
        """connectionStatus and connectionMsg of a connector."""
        return status_of(name, self.connectors.get(name), self.core.connections.values())

    def trace(self, conn: Connection, on: bool) -> None:
        self.host.trace(conn, on)

    def traced(self, conn: Connection) -> bool:
        return self.host.traced(conn)

    def log_stats(self, module: str) -> Mapping[str, int]:
        return self.host.log_stats(module)

    def users_refused(self) -> int:
        return self.host.users.refused()

    @property
    def host_name(self) -> str:
        return self.host.host_name

    def memory_usage(self) -> int | None:
        return self.host.memory_usage()

    def internal_errors(self) -> int:
        return self.host.errors
