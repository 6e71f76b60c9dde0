"""All tables of a window, and what stands out in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from waymesh_analytics.report.tables.history import Series
from waymesh_analytics.report.tables.table import Table
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.manifest import Manifest
from waymesh_analytics.store.raw_files import Listing

from .findings import Finding, find
from .tables import completeness, deliveries, events, history, objects

AT_ONCE = 3
"""Queries under way at one time."""
READERS: tuple[Callable[[Rollups], Any], ...] = (
    history.read_series,
    *(attrgetter(name) for name in ("flows", "audit", "events")),
)
"""What several tables are made from, read before them."""
MAKERS: tuple[Callable[[Rollups], Table], ...] = (
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


@dataclass(slots=True)
class Report:
    """What was found: tables by name, findings, the hours that it covers, and what the plots need."""

    tables: dict[str, Table]
    findings: list[Finding]
    hours: list[str]
    series: Series

    @property
    def incomplete(self) -> bool:
        """Whether records are missing, or lines could not be read."""
        lost = any(row["lost"] for row in self.tables["completeness"].dicts())
        return lost or any(row["corrupt"] or row["short"] for row in self.tables["files"].dicts())


def build_report(rollups: Rollups, manifest: Manifest, listing: Listing) -> Report:
    """All tables of the window."""
    series, *_ = run_parallel(lambda read: read(rollups), READERS, AT_ONCE)
    tables = {table.name: table for table in run_parallel(lambda make: make(rollups), MAKERS, AT_ONCE)}
    extra = [
        deliveries.balance(tables["talkers"], tables["traffic"]),
        history.anomalies(series),
        history.forecast(series),
        completeness.gaps(tables["completeness"], manifest, listing, rollups),
        completeness.files(manifest, rollups),
        completeness.odd_files(manifest, listing, rollups),
    ]
    tables |= {table.name: table for table in extra}
    return Report(tables, find(tables), rollups.hours, series)
