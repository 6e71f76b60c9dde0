"""What a reader should know first: the most important facts of the tables as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .tables.completeness import CLOCK_JUMP_MS, KindFiles, KindRecords
from .tables.deliveries import Balance, HopInflation, Outcomes
from .tables.events import Event
from .tables.history import Anomaly
from .tables.objects import AutoLink, Link, Router
from .tables.table import Table

UNEVEN = 0.6
"""An address with several consumers is uneven if Jain's index is below this."""
LEAST_DELIVERIES = 100
"""Deliveries needed before a share of them means anything."""
FAILED_SHARE = 0.05
LONGER_SHARE = 0.05
LISTED = 5
"""A finding lists this many cases; the table has all of them."""

Tables = Mapping[str, Table[Any]]


class Severity(StrEnum):
    """In order: the worst first."""

    BAD = "bad"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence, and the name of the table with the details."""

    severity: Severity
    table: str
    text: str


def find(tables: Tables) -> list[Finding]:
    """All findings, the worst first."""
    found = [*_missing(tables), *_objects(tables), *_traffic(tables)]
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _finding(severity: Severity, table: str, title: str, cases: Sequence[str]) -> list[Finding]:
    """One finding, or none without cases."""
    if not cases:
        return []
    more = f" and {len(cases) - LISTED} more" if len(cases) > LISTED else ""
    return [Finding(severity, table, f"{title}: {'; '.join(cases[:LISTED])}{more}")]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _missing(tables: Tables) -> list[Finding]:
    records: list[KindRecords] = tables["completeness"].rows
    files: list[KindFiles] = tables["files"].rows
    lost = [f"{row.lost} of kind {row.kind} from router {row.router}" for row in records if row.lost]
    moved: dict[str, int] = {}
    for row in records:
        if (row.clock_ms or 0) > CLOCK_JUMP_MS:
            moved[row.router] = max(moved.get(row.router, 0), row.clock_ms or 0)
    corrupt = [f"{row.corrupt} lines of kind {row.kind}" for row in files if row.corrupt]
    short = [f"{row.short} files of kind {row.kind}" for row in files if row.short]
    return [
        *_finding(Severity.BAD, "completeness", "Missing records", lost),
        *_finding(Severity.WARNING, "files", "Corrupt lines", corrupt),
        *_finding(Severity.WARNING, "files", "Truncated files", short),
        *_finding(
            Severity.WARNING, "completeness", "Clocks changed", [f"{name} by {ms} ms" for name, ms in moved.items()]
        ),
    ]


def _objects(tables: Tables) -> list[Finding]:
    links: list[Link] = tables["links"].rows
    autolinks: list[AutoLink] = tables["autolinks"].rows
    routers: list[Router] = tables["routers"].rows
    events: list[Event] = tables["denials"].rows

    def name(link: Link) -> str:
        return f"{link.container} {'from' if link.dir == 'out' else 'to'} {link.address} at {link.router}"

    def stuck(direction: str) -> list[str]:
        found = [link for link in links if link.state == "stuck" and link.dir == direction]
        return [f"{name(link)}: {link.stuck} deliveries" for link in found]

    starved = [f"{name(link)}: {link.zero_credit_s} s" for link in links if link.state == "starved"]
    flapping = [f"{row.name} at {row.router}: lost {row.downs} times" for row in autolinks if row.state == "flapping"]
    down = [
        f"{row.name} at {row.router}: {row.last_error or row.last_state}" for row in autolinks if row.state == "down"
    ]
    boots = Counter(row.router for row in routers)
    restarted = [f"{router} {_times(count - 1)}" for router, count in sorted(boots.items()) if count > 1]
    denied = [f"{event.object} at {event.router}: {_times(event.count)}" for event in events]
    return [
        *_finding(Severity.BAD, "links", "Stuck links", stuck("out")),
        *_finding(Severity.BAD, "links", "Links starved of credit", starved),
        *_finding(Severity.BAD, "autolinks", "Flapping autolinks", flapping),
        *_finding(Severity.WARNING, "autolinks", "Autolinks down", down),
        *_finding(Severity.WARNING, "links", "Senders waiting for outcomes", stuck("in")),
        *_finding(Severity.WARNING, "routers", "Restarted routers", restarted),
        *_finding(Severity.WARNING, "denials", "Denied", denied),
    ]


def _traffic(tables: Tables) -> list[Finding]:
    outcomes: list[Outcomes] = tables["outcomes"].rows
    balance: list[Balance] = tables["balance"].rows
    hops: list[HopInflation] = tables["hops"].rows
    anomalies: list[Anomaly] = tables["anomalies"].rows
    failed = [
        f"{row.address}: {row.failed_share:.1%}"
        for row in sorted(outcomes, key=lambda row: -row.failed_share)
        if row.failed_share >= FAILED_SHARE and row.samples >= LEAST_DELIVERIES
    ]
    uneven = [
        f"{row.address}: {row.consumers_jain:.2f} over {row.consumers} consumers"
        for row in balance
        if row.consumers > 1 and row.consumers_jain < UNEVEN and row.deliveries >= LEAST_DELIVERIES
    ]
    longer = [
        f"{row.ingress} to {row.egress}: {row.longer_share:.1%} of {row.deliveries}"
        for row in hops
        if row.longer_share >= LONGER_SHARE and row.deliveries >= LEAST_DELIVERIES
    ]
    unusual = [
        f"{row.address} at {row.hour:%Y-%m-%d %H:00}: {row.measure} {row.value:,.0f}, usually {row.median:,.0f}"
        for row in anomalies
    ]
    return [
        *_finding(Severity.WARNING, "outcomes", "Deliveries not accepted", failed),
        *_finding(Severity.INFO, "hops", "Longer paths than the cheapest", longer),
        *_finding(Severity.INFO, "balance", "Uneven distribution", uneven),
        *_finding(Severity.INFO, "anomalies", "Unusual hours", unusual),
    ]
