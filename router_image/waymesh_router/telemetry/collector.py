"""Collects records: of events when they happen, and of the state at each interval, in slices."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waymesh_router.core.addresses.keys import MOBILE
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.telemetry import deliveries, rows
from waymesh_router.telemetry.exporter import REASONS
from waymesh_router.telemetry.lines import Row
from waymesh_schema.telemetry import KINDS

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.containers.autolink import AutoLink
    from waymesh_router.core.delivery_sampling import Sample
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import Address, RouterConnection, RouterLink
    from waymesh_router.management.view import RouterView
    from waymesh_router.telemetry.exporter import Exporter

RECORDS_PER_SLICE = 500
"""Maximum number of records created in one slice, which takes one or two milliseconds."""
WAITING_PER_RECORD = 50
"""Number of waiting deliveries whose count takes as long as the creation of one record."""
SAMPLES_PER_BATCH = 100
"""Number of samples recorded in one batch. If each were recorded alone, the code would not be in the CPU caches."""
FLUSH_S = 5.0
HOURLY_S = 3600.0
MAX_FORMER_ADDRESSES = 10_000
"""Maximum number of removed addresses whose counters are stored, in case the addresses are used again."""
NORMAL = "normal"
"""Role of client connections."""
QUIET_S = 5.0
"""Paths count as converged after this time without a change."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals at which counters are recorded and files published, in seconds."""

    interval_s: float = 60.0
    rotate_s: float = 300.0


class Histogram:
    """Distribution of settlement times, in seconds: see waymesh_router.management.view.SettleTimes."""

    bounds: Sequence[float] = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

    def __init__(self) -> None:
        self.counts: list[float] = [0.0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float, weight: float) -> None:
        """Add `weight` deliveries that took this long."""
        self.counts[bisect_left(self.bounds, seconds)] += weight
        self.sum += seconds * weight


@dataclass(slots=True)
class _PathChanges:
    """A series of path changes in quick succession. `since`: when the first change arrived."""

    since: float
    changes: int = 0
    last_id: int = 0
    last_at: float = 0.0


class Collector(TelemetryHooks):
    """Creates the records of one router."""

    def __init__(self, view: RouterView, exporter: Exporter, pace: Pace, before: Collector | None = None) -> None:
        """`before`: the previous collector of this router, whose counts continue."""
        self._view = view
        self._exporter = exporter
        self._sink = exporter.sink
        self._pace = pace
        self._now = view.core.now
        self._due = self._now + pace.interval_s
        self._rotate_due = self._now + pace.rotate_s
        self._flush_due = self._now + FLUSH_S
        self._hour_due = self._now + HOURLY_S
        self._sweep: Iterator[None] | None = None
        self._publish_asked = False
        self._attached: set[int] = set()
        self._ended: list[tuple[Sample, str, int]] = []
        self._settled: Histogram = Histogram() if before is None else before.settled
        self.ending = False
        """The router closes its connections itself: losing neighbours is not an event then."""
        self._links: dict[int, Row] = {}
        self._addresses: dict[str, Row] = {}
        self._former: OrderedDict[str, Row] = OrderedDict() if before is None else before._former
        self._nodes: dict[str, Row] = {}
        self._path_changes: _PathChanges | None = None

    # ---- time
    def tick(self, now: float) -> None:
        """Create records that are due. Must be called several times a second."""
        self._now = now
        if self._sweep is None and now >= self._due:
            self._due = max(self._due + self._pace.interval_s, now)
            self._sweep = self._all()
        if self._sweep is not None:
            for _ in range(RECORDS_PER_SLICE):
                if next(self._sweep, self) is self:
                    self._sweep = None
                    if self._publish_asked:
                        self._publish_asked, self._rotate_due = False, now
                    break
        if self._path_changes is not None and now - self._path_changes.last_at >= QUIET_S:
            self._converged(self._path_changes)
        if now >= self._rotate_due:
            self._rotate_due = now + self._pace.rotate_s
            self.record_samples()
            self._sink.rotate()
        elif now >= self._flush_due:
            self._flush_due = now + FLUSH_S
            self.record_samples()
            self._sink.flush()

    def publish(self) -> None:
        """Record all counters, then publish all records. This happens in the next ticks, a slice in each."""
        self._publish_asked = True
        self._due = self._now

    def finish(self) -> None:
        """The router or its telemetry ends: record everything a last time, at once, and close the sink."""
        self.record_samples()
        if self._path_changes is not None:
            self._converged(self._path_changes)
        for _ in self._all():
            pass
        self._sink.close()

    @property
    def settled(self) -> Histogram:
        """Settlement times of deliveries that entered the mesh here, from their samples."""
        self.record_samples()
        return self._settled

    @property
    def records(self) -> Mapping[str, int]:
        """Number of records so far, by kind."""
        self.record_samples()
        return self._sink.seqs

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Number of records dropped for lack of space, by kind and reason."""
        return self._sink.dropped

    @property
    def error(self) -> str:
        """Why records cannot be written; "" if they can."""
        return self._sink.error

    @property
    def reasons(self) -> Sequence[str]:
        """Reasons for lost records."""
        return REASONS

    # ---- events
    def connection_opened(self, connection: RouterConnection) -> None:
        self._put("connection", rows.connection_row("open", connection, self._now, None))
        self._record_peer("connection.up", connection, None)

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        text = None if error is None else f"{error.condition}: {error.description or ''}"
        if connection.remote is not None:
            self._put("connection", rows.connection_row("close", connection, self._now, text))
            self._record_peer("connection.down", connection, text)

    def _record_peer(self, name: str, connection: RouterConnection, error: str | None) -> None:
        """Record that a connection to another router or a route-container has opened or closed."""
        if connection.role == NORMAL or connection.remote is None or self.ending:
            return
        detail = {"role": connection.role, "host": connection.peer.host, "connection": str(connection.id)}
        if error is not None:
            detail["error"] = error
        severity = "info" if name == "connection.up" else "warning"
        self.event(name, severity, connection.remote.container_id, detail)

    def link_attached(self, link: RouterLink) -> None:
        self._attached.add(link.id)
        self._put("link", rows.link_row("attach", link, self._view, self._now, 0))

    def link_detached(self, link: RouterLink) -> None:
        self._links.pop(link.id, None)
        if link.id in self._attached:  # False for a refused link
            self._attached.discard(link.id)
            self._put("link", rows.link_row("detach", link, self._view, self._now, 0))

    def address_gone(self, address: Address) -> None:
        counts = rows.address_counts(address)
        if not address.key.startswith(MOBILE) or not any(counts):
            return
        row = self._address_row(address)
        if self._addresses.pop(address.key, None) != row:
            self._put("address", row)
        self._former[address.key] = rows.address_counts(address, self._former.get(address.key))
        self._former.move_to_end(address.key)
        if len(self._former) > MAX_FORMER_ADDRESSES:
            self._former.popitem(last=False)

    def _address_row(self, address: Address) -> Row:
        """The row of an address, including the counters of earlier addresses with its name."""
        return rows.address_row(address, self._former.get(address.key))

    def autolink(self, auto: AutoLink, before: str | None, after: str | None) -> None:
        if not self.ending:
            self._put("autolink", rows.autolink_row(auto, before, after))

    def linkroute(self, route: LinkRoute, before: str | None, after: str | None) -> None:
        if not self.ending:
            self._put("linkroute", rows.linkroute_row(route, before, after))

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        self._put("event", (name, severity, about, dict(detail)))

    def delivery(self, sample: Sample, outcome: str, now_us: int) -> None:
        """A sampled delivery has an outcome."""
        self._ended.append((sample, outcome, now_us))
        if len(self._ended) >= SAMPLES_PER_BATCH:
            self.record_samples()

    def record_samples(self) -> None:
        """Create records of the samples that have ended."""
        if not self._ended:
            return
        ended, self._ended = self._ended, []
        put, router_id = self._sink.put, self._view.core.router_id
        ahead_us = self._exporter.wall_us() - self._exporter.clock_ns() // 1000
        for sample, outcome, at_us in ended:
            if sample.here:
                self._settled.add((at_us - sample.began_us) / 1e6, sample.annotations.weight)
            for row in deliveries.delivery_rows(sample, outcome, at_us, router_id):
                put("delivery", at_us + ahead_us, at_us, row)

    def topology_changed(self, change_id: int, since: float) -> None:
        self.event("topology.change", "info", self._view.core.router_id, {"change_id": str(change_id)})
        self._record_nodes()
        if self._path_changes is None:
            self._path_changes = _PathChanges(since)
        self._path_changes.changes += 1
        self._path_changes.last_id, self._path_changes.last_at = change_id, self._view.core.now

    def _converged(self, series: _PathChanges) -> None:
        """The paths have converged: record how long it took."""
        self._path_changes = None
        duration = round((series.last_at - series.since) * 1e6)
        detail = {"change_id": series.last_id, "changes": series.changes, "duration_us": max(0, duration)}
        about = self._view.core.router_id
        self.event("topology.converged", "info", about, {name: str(value) for name, value in detail.items()})

    def _record_nodes(self) -> None:
        """Record the routers whose state has changed."""
        routing = self._view.routing
        if routing is None:
            return
        known = {node.id: rows.node_row(node) for node in (routing.local, *routing.nodes.values())}
        for name in self._nodes.keys() - known.keys():
            self._put("node", rows.node_gone(self._nodes[name]))
        for name, row in known.items():
            if self._nodes.get(name) != row:
                self._put("node", row)
        self._nodes = known

    # ---- state
    def _put(self, kind: str, values: Row) -> None:
        self._sink.put(kind, self._exporter.wall_us(), self._exporter.clock_ns() // 1000, values)

    def _all(self) -> Iterator[None]:
        """Record everything, one record each step."""
        core = self._view.core
        for connection in list(core.connections.values()):
            if connection.remote is not None and not connection.over:
                self._put("connection", rows.connection_row("interval", connection, self._now, None))
                yield
        hourly = self._now >= self._hour_due
        if hourly:  # repeat what is recorded only on a change, so that readers need no older files
            self._hour_due = self._now + HOURLY_S
            self._links, self._addresses, self._nodes = {}, {}, {}
        yield from self._changed_links(list(core.links.values()))
        yield from self._changed_addresses(list(core.addresses.items()))
        if hourly:
            yield from self._states()
        process = self._exporter.process()
        dropped = dict.fromkeys(KINDS, 0)
        for (kind, _), count in self._sink.dropped.items():
            dropped[kind] += count
        self._put("router", rows.router_row(self._view, self._now, process, self._sink.seqs, dropped))

    def _changed_links(self, links: list[RouterLink]) -> Iterator[None]:
        waiting: Counter[int] = Counter()
        yield from self._count_waiting(waiting)
        for link in links:
            if link.usable():
                row = rows.link_row("interval", link, self._view, self._now, waiting[link.id])
                if self._links.get(link.id) != row:
                    self._links[link.id] = row
                    self._put("link", row)
            yield

    def _count_waiting(self, waiting: Counter[int]) -> Iterator[None]:
        """Count the deliveries that wait at their addresses, by incoming link."""
        for address in [address for address in self._view.core.addresses.values() if address.pending]:
            for number, queued in enumerate(list(address.pending or ())):
                if queued.link is not None:
                    waiting[queued.link.id] += 1
                if number % WAITING_PER_RECORD == 0:
                    yield

    def _changed_addresses(self, addresses: list[tuple[str, Address]]) -> Iterator[None]:
        for key, address in addresses:
            if not key.startswith(MOBILE):
                continue
            row = self._address_row(address)
            if not address.dead and self._addresses.get(key) != row:
                self._addresses[key] = row
                self._put("address", row)
            yield
        self._addresses = {key: row for key, row in self._addresses.items() if key in self._view.core.addresses}

    def _states(self) -> Iterator[None]:
        self._record_nodes()
        for auto in self._view.core.autolinks.all():
            self._put("autolink", rows.autolink_row(auto, auto.status, auto.status))
            yield
        for route in self._view.core.linkroutes.all():
            state = self._view.core.linkroutes.state(route)
            self._put("linkroute", rows.linkroute_row(route, state, state))
            yield
