"""The report of a window: all tables, and the findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.manifest import Manifest
from waymesh_analytics.store.raw_files import Listing

from .findings import Finding, find
from .tables import completeness, deliveries, events, history, hours, mesh, objects
from .tables.completeness import KindFiles, KindRecords
from .tables.history import Series
from .tables.table import Table

PARALLEL_QUERIES = 3
SHARED = (("links", "sent", "flows", "audit", "events", "edges"), ("routers", "addresses"))
"""Queries whose rows several tables need; they run first, those that need the rows of `audit` after it."""
TABLES: tuple[Callable[[Rollups], Table[Any]], ...] = (
    mesh.mesh_links,
    deliveries.traffic,
    deliveries.latency,
    deliveries.outcomes,
    deliveries.hops,
    deliveries.talkers,
    objects.links,
    objects.addresses,
    objects.autolinks,
    objects.linkroutes,
    objects.connections,
    objects.routers,
    events.convergence,
    events.denials,
    events.others,
    completeness.records,
)


NO_RECORDS = (
    "no records in this period: a router exports a file when rotateSeconds of its telemetry have passed (default 300) "
    "and when an hour ends; run the job again then, or after `waymesh manage publish --type telemetry`"
)
"""The text of a report without hours: it explains that the first file takes time, which is not a fault."""


@dataclass(slots=True)
class Report:
    """The tables and findings of a window."""

    # Tables by name, in the order of the page.
    tables: dict[str, Table[Any]]
    findings: list[Finding]
    # The hours that the report covers.
    hours: list[str]
    series: Series
    # When it was made, in UTC.
    made: datetime

    @property
    def incomplete(self) -> bool:
        """Whether records are missing or lines could not be read."""
        records: list[KindRecords] = self.tables["completeness"].rows
        files: list[KindFiles] = self.tables["files"].rows
        return any(row.lost for row in records) or any(row.corrupt or row.short for row in files)


def build_report(rollups: Rollups, manifest: Manifest, listing: Listing, now: datetime) -> Report:
    """Compute all tables of the window, then the findings; `now` in UTC."""
    for names in SHARED:
        run_parallel(lambda name: getattr(rollups, name), names, PARALLEL_QUERIES)
    read: tuple[Callable[[Rollups], Any], ...] = (hours.read_measured, *TABLES)
    measured, *made = run_parallel(lambda make: make(rollups), read, PARALLEL_QUERIES)
    tables = {table.name: table for table in made}
    series = history.read_series(rollups)
    first: list[Table[Any]] = [hours.hours(measured), hours.last_week(measured)]
    derived: list[Table[Any]] = [
        deliveries.balance(tables["talkers"], tables["traffic"]),
        history.anomalies(series),
        history.forecast(series),
        completeness.gaps(tables["completeness"], manifest, listing, rollups),
        completeness.files(manifest, rollups),
        completeness.odd_files(manifest, listing, rollups),
    ]
    tables = {table.name: table for table in [tables.pop("mesh_links"), *first, *tables.values(), *derived]}
    return Report(tables, find(tables), rollups.hours, series, now)
