"""Checks the open of each client: limit of its listener, memory of the process, unique container-id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED
from waymesh_router.clients.connection_uniqueness import FAILED, UniqueConnections
from waymesh_router.core.core import Core
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_router.core.memory_levels import FULL, HIGH, NAMES, NORMAL
from waymesh_router.core.model import RouterConnection
from waymesh_router.events.event import Event
from waymesh_router.host import Host
from waymesh_router.memory.buffers import buffer_limits
from waymesh_router.memory.relief import MemoryRelief
from waymesh_router.memory.watermark import level_of
from waymesh_router.policy.enforcement import Enforcement
from waymesh_router.policy.limit_warnings import Level, LimitWarnings
from waymesh_schema.events import LogEvent

MEMORY, LISTENER = "memory", "listener"
_MIB = 1 << 20


class Admission:
    """Refuses client connections that exceed a limit.

    `refused`: number of refused connections, for MEMORY (maxMemory) and LISTENER (maxConnections). `level`: the memory
    level, see core/memory_levels.py. `limit`: the memory limit in bytes, 0 for none.
    """

    def __init__(
        self, core: Core, host: Host, listeners: Mapping[str, Mapping[str, Any]], policy: Enforcement
    ) -> None:
        self.refused = dict.fromkeys((MEMORY, LISTENER), 0)
        self.level = NORMAL
        self.limit = 0
        self.default = 0
        """The memory limit in bytes if `maxMemory` is not set."""
        self.available = 0
        """Bytes that the process may use, 0 if unknown."""
        self._core = core
        self._host = host
        self._listeners = listeners
        self._unique = UniqueConnections()
        self._open: dict[str, set[RouterConnection]] = {}
        self._policy = policy
        self._warnings = LimitWarnings()
        self.relief = MemoryRelief(core, host.log)

    @property
    def memory_state(self) -> str:
        """`memoryState` of the entity `router`."""
        return NAMES[self.level]

    @property
    def withheld(self) -> int:
        """Number of links that wait for credit because memory is short."""
        return len(self._core.endpoint_links.withheld)

    # ---- connections
    def opened(self, conn: RouterConnection) -> None:
        """Handle the open of a peer at a listener before it is answered: close the connection if it exceeds a limit.
        Policy may have closed it already."""
        self._host.opened(conn)
        if conn.over:
            return
        reason = self._reason(conn)
        if reason:
            conn.settings.properties[FAILED] = True
            self._core.refusals.report("connection", conn.peer.host, RESOURCE_LIMIT_EXCEEDED, reason, conn)
            conn.fail(RESOURCE_LIMIT_EXCEEDED, reason)
            return
        self._open.setdefault(conn.origin, set()).add(conn)
        self._unique.opened(conn)
        self._warn(self._level(conn.origin))

    def connection_closed(self, conn: RouterConnection) -> None:
        """The transport of a connection has ended: stop counting the connection."""
        self._unique.connection_closed(conn)
        there = self._open.get(conn.origin)
        if there is None or conn not in there:
            return
        there.discard(conn)
        for refusing in (False, True):
            self._warnings.connection_closed(self._level(conn.origin, refusing))
        if not there:
            del self._open[conn.origin]

    def _reason(self, conn: RouterConnection) -> str:
        """Which limit the connection exceeds; "" if none."""
        if self.level == FULL and conn.role != INTER_ROUTER and not conn.for_managers:
            self.refused[MEMORY] += 1
            return "the router is short of memory (maxMemory)"
        level = self._level(conn.origin, refusing=True)
        if not level.maximum or level.count < level.maximum:
            return ""
        self.refused[LISTENER] += 1
        if self._warnings.is_due(level, self._core.now):
            text = f"listener {conn.origin}: {level.maximum} connections are open (maxConnections); refusing more"
            detail: dict[str, str | int] = {"limit": "maxConnections", "maximum": level.maximum}
            event = Event(LogEvent.LIMIT_REACHED, {"listener": conn.origin}, detail)
            self._host.log("SERVER", "warning", text, event)
        return f"listener {conn.origin} has {level.maximum} connections (maxConnections)"

    def _level(self, listener: str, refusing: bool = False) -> Level:
        """Number of open connections of a listener and their maximum (0: no limit). `refusing`: for the log line about
        refusals, which is due at 100 %; otherwise for the warning before that."""
        most = self._listeners.get(listener, {}).get("maxConnections") or 0
        percent = 100 if refusing else self._policy.policy.warn_at_percent
        key = (listener, "refusing" if refusing else "warning")
        return Level(key, f"listener {listener}", "maxConnections", len(self._open.get(listener, ())), most, percent)

    def _warn(self, level: Level) -> None:
        if self._warnings.is_due(level, self._core.now):
            event = Event(LogEvent.POLICY_LIMIT, detail={"about": level.about, **level.detail})
            self._host.log("SERVER", "warning", level.text, event)
            self._core.context.telemetry.event("policy.limit", "warning", level.about, level.detail)

    # ---- memory
    def configure(self, attrs: Mapping[str, Any]) -> None:
        """Apply `maxMemory` of the entity `router`, from the next tick on, and the limits for waiting messages, which
        are fractions of it."""
        configured = attrs.get("maxMemory")
        self.limit = self.default if configured is None else int(configured)
        known = [size for size in (configured, self.available) if size]
        self._core.budget.set_limits(*buffer_limits(attrs, min(known, default=0)))

    def tick(self, now: float) -> None:
        """Check the memory of the process. Must be called several times a second: one client that attaches links in a
        loop takes 25 MiB per second, and the default limit is only 10 MiB below that of a small container."""
        resident = self._host.memory_usage() if self.limit else None
        free = self._host.free_memory() if resident else 0
        level = level_of(resident, self.limit, self.level, free)
        if level != NORMAL:
            self.relief.when_short(level == FULL, self.limit)
        if level == self.level:
            return
        self._log_level(level, (resident or 0) - free)
        self.level = level
        self._core.endpoint_links.set_memory(level)
        self._core.budget.short = level != NORMAL

    def _log_level(self, level: int, used: int) -> None:
        figures = f"{used // _MIB} MiB of {self.limit // _MIB} MiB (maxMemory)" if self.limit else "no limit"
        effects = {
            NORMAL: "new connections and links are served",
            HIGH: "new links of clients get no credit",
            FULL: "new connections and links of clients are refused",
        }
        severity = ("notice", "warning", "error")[level]
        event = Event(LogEvent.LIMIT_MEMORY, detail={"memory": NAMES[level]})
        self._host.log("SERVER", severity, f"memory is {NAMES[level]}: {figures}; {effects[level]}", event)
