"""The most important facts of the tables as sentences, with recommended actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_schema.findings import FINDING_KINDS, FindingKind
from waymesh_schema.text import one_line

from .tables.completeness import CLOCK_JUMP_MS, KindFiles, KindRecords
from .tables.deliveries import Balance, HopInflation, Outcomes
from .tables.events import Event
from .tables.history import Anomaly
from .tables.hours import Change
from .tables.mesh import MeshLink
from .tables.objects import AutoLink, Link, Router
from .tables.table import Table

UNEVEN = 0.6
"""An address with several consumers is uneven if Jain's index is below this."""
LEAST_DELIVERIES = 100
"""Minimum number of deliveries for a meaningful share."""
FAILED_SHARE = 0.05
LONGER_SHARE = 0.05
TIMES_MORE = 2.0
"""Traffic or latency that differs from last week's by this factor is a finding."""
SLOWER_US = 5000
"""A smaller increase of p99 is not a finding."""
LISTED = 5
"""The text of a finding lists this many cases; the table has all of them."""

Tables = Mapping[str, Table[Any]]


@dataclass(frozen=True, slots=True)
class Finding:
    """All cases of one kind."""

    kind: FindingKind
    # Where and how much, each as text: "orders: 12.5 % of 400 deliveries".
    cases: tuple[str, ...]

    @property
    def text(self) -> str:
        """The finding as one sentence and one line, whatever names clients have chosen, with the first cases."""
        more = f" and {len(self.cases) - LISTED} more" if len(self.cases) > LISTED else ""
        return one_line(f"{self.kind.title}: {'; '.join(self.cases[:LISTED])}{more}")


def find(tables: Tables) -> list[Finding]:
    """All findings, the worst first."""
    cases = {**_missing(tables), **_objects(tables), **_traffic(tables), **_changes(tables)}
    return [Finding(kind, tuple(cases[name])) for name, kind in FINDING_KINDS.items() if cases[name]]


def _count(number: int, one: str, several: str = "") -> str:
    """A number with its unit; the plural of most ends with s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _missing(tables: Tables) -> dict[str, list[str]]:
    records: list[KindRecords] = tables["completeness"].rows
    files: list[KindFiles] = tables["files"].rows
    moved: dict[str, int] = {}
    for row in records:
        if (row.clock_ms or 0) > CLOCK_JUMP_MS:
            moved[row.router] = max(moved.get(row.router, 0), row.clock_ms or 0)
    return {
        "RecordsMissing": [
            f"{_count(row.lost, 'record')} of kind {row.kind} from router {row.router}" for row in records if row.lost
        ],
        "LinesCorrupt": [f"{_count(row.corrupt, 'line')} of kind {row.kind}" for row in files if row.corrupt],
        "FilesTruncated": [f"{_count(row.short, 'file')} of kind {row.kind}" for row in files if row.short],
        "ClocksChanged": [f"{name} by {ms:,} ms" for name, ms in moved.items()],
    }


def _objects(tables: Tables) -> dict[str, list[str]]:
    links: list[Link] = tables["links"].rows
    autolinks: list[AutoLink] = tables["autolinks"].rows
    routers: list[Router] = tables["routers"].rows
    denied: list[Event] = tables["denials"].rows
    mesh: list[MeshLink] = tables["mesh_links"].rows
    boots = Counter(row.router for row in routers)
    return {
        "ConsumersStuck": _stuck(links, "out"),
        "SendersWaiting": _stuck(links, "in"),
        "ConsumersStarved": [
            f"{_name(link)}: no credit for {link.zero_credit_s or 0:,} s" for link in links if link.state == "starved"
        ],
        "AutoLinksFlapping": [
            f"{row.name} at router {row.router}: lost {row.downs:,} times"
            for row in autolinks
            if row.state == "flapping"
        ],
        "AutoLinksDown": [
            f"{row.name} at router {row.router}: {row.last_error or row.last_state}"
            for row in autolinks
            if row.state == "down"
        ],
        "MeshLinksLost": [f"{row.router} – {row.neighbour}: {_times(row.broken)}" for row in mesh if row.broken],
        "RoutersRestarted": [
            f"{router} {_times(count - 1)}" for router, count in sorted(boots.items()) if count > 1
        ],
        "ClientsDenied": [f"{row.object} at router {row.router}: {_times(row.count)}" for row in denied],
    }


def _name(link: Link) -> str:
    return f"{link.container} {'from' if link.dir == 'out' else 'to'} {link.address} at router {link.router}"


def _stuck(links: Iterable[Link], direction: str) -> list[str]:
    """The links of a direction with unsettled deliveries."""
    return [
        f"{_name(link)}: {_count(link.stuck or 0, 'delivery', 'deliveries')}"
        for link in links
        if link.state == "stuck" and link.dir == direction
    ]


def _traffic(tables: Tables) -> dict[str, list[str]]:
    outcomes: list[Outcomes] = tables["outcomes"].rows
    balance: list[Balance] = tables["balance"].rows
    hops: list[HopInflation] = tables["hops"].rows
    anomalies: list[Anomaly] = tables["anomalies"].rows
    return {
        "DeliveriesFailed": [
            f"{row.address}: {row.failed_share:.1%} of {row.deliveries:,} deliveries"
            for row in sorted(outcomes, key=lambda row: -row.failed_share)
            if row.failed_share >= FAILED_SHARE and row.samples >= LEAST_DELIVERIES
        ],
        "PathsLonger": [
            f"{row.ingress} to {row.egress}: {row.longer_share:.1%} of {row.deliveries:,} deliveries"
            for row in hops
            if row.longer_share >= LONGER_SHARE and row.deliveries >= LEAST_DELIVERIES
        ],
        "DistributionUneven": [
            f"{row.address}: Jain's index {row.consumers_jain:.2f} over {row.consumers:,} consumers"
            for row in balance
            if row.consumers > 1 and row.consumers_jain < UNEVEN and row.deliveries >= LEAST_DELIVERIES
        ],
        "HoursUnusual": [
            f"{row.address} at {row.hour:%Y-%m-%d %H:00} UTC: {_measure(row)}" for row in anomalies
        ],
    }


def _measure(row: Anomaly) -> str:
    """The unusual value with its unit."""
    if row.measure == "deliveries":
        return f"{row.value:,.0f} deliveries, usually {row.median:,.0f}"
    return f"settled after {row.value / 1000:,.1f} ms on average, usually {row.median / 1000:,.1f} ms"


def _changes(tables: Tables) -> dict[str, list[str]]:
    """Return findings about values that are worse than a week ago."""
    changes: list[Change] = tables["last_week"].rows
    both = [row for row in changes if min(row.deliveries, row.week_ago_deliveries) >= LEAST_DELIVERIES]
    fell = [
        row
        for row in changes
        if row.week_ago_deliveries >= LEAST_DELIVERIES and row.deliveries * TIMES_MORE < row.week_ago_deliveries
    ]
    grew = [
        row
        for row in changes
        if row.deliveries >= LEAST_DELIVERIES and row.week_ago_deliveries * TIMES_MORE < row.deliveries
    ]

    def traffic(row: Change) -> str:
        now = _count(row.deliveries, "delivery", "deliveries")
        return f"{row.address}: {now} in the hour, a week before {row.week_ago_deliveries:,}"

    return {
        "TrafficFell": [traffic(row) for row in fell],
        "TrafficGrew": [traffic(row) for row in grew],
        "LatencyGrew": [
            f"{row.address}: p99 {now / 1000:,.1f} ms, a week before {before / 1000:,.1f} ms"
            for row in both
            if (now := row.p99_us or 0.0) > TIMES_MORE * (before := row.week_ago_p99_us or 0.0)
            and now - before >= SLOWER_US
        ],
        "FailuresGrew": [
            f"{row.address}: {row.failed_share:.1%}, a week before {row.week_ago_failed_share:.1%}"
            for row in both
            if row.failed_share - row.week_ago_failed_share >= FAILED_SHARE
        ],
    }
