"""What the report is about, in a line: which mesh, from when to when, how much, how well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from waymesh_schema.findings import Severity

from .report import Report
from .tables.completeness import KindRecords
from .tables.deliveries import Latency, Outcomes
from .tables.objects import Router

ORDINAL = re.compile(r"(?P<mesh>.+)-\d+")
"""The routers of a mesh are named after it and numbered: orders-0, orders-1."""
MOST_NAMES = 3
SEVERITIES = {
    Severity.BAD: ("bad", "bad"),
    Severity.WARNING: ("warning",),
    Severity.INFO: ("for information", "for information"),
}
DAY, MINUTE, SECOND = "%Y-%m-%d", "%H:%M", "%H:%M:%S"
SHORT_S = 600
"""The times of a shorter period have seconds: a first report may be of less than a minute."""


def meshes(routers: Iterable[Router]) -> list[str]:
    """The names of the meshes that routers belong to; where no record says it, by the routers' own names."""
    return sorted({row.mesh or _mesh_of(str(row.router)) for row in routers})


def _mesh_of(router: str) -> str:
    """A router without a number stands for itself."""
    match = ORDINAL.fullmatch(router)
    return match["mesh"] if match else router


def title(report: Report) -> str:
    """The meshes and the number of routers, as `orders, 3 routers`."""
    routers: list[Router] = report.tables["routers"].rows
    known = {str(row.router) for row in routers}
    names = meshes(routers)
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    return f"{shown}, {_count(len(known), 'router')}" if names else "no router"


def period(report: Report) -> str:
    """From the first record to the last one; the hours where no record has a time."""
    records: list[KindRecords] = report.tables["completeness"].rows
    begins = [row.first for row in records if row.first is not None]
    ends = [row.last for row in records if row.last is not None]
    if not begins or not ends:
        return f"{report.hours[0]}:00 to {report.hours[-1]}:59 UTC"
    first, last = min(begins), max(ends)
    time = SECOND if (last - first).total_seconds() < SHORT_S else MINUTE
    form = time if first.date() == last.date() else f"{DAY} {time}"
    return f"{first:{DAY} {time}} to {last:{form}} UTC"


def totals(report: Report) -> str:
    """Deliveries that clients sent, the share that failed, the p99 of the slowest address, and the findings."""
    outcomes: list[Outcomes] = report.tables["outcomes"].rows
    latency: list[Latency] = report.tables["latency"].rows
    parts = []
    sent = sum(row.deliveries for row in outcomes)
    if sent:
        failed = sum(row.failed_share * row.deliveries for row in outcomes) / sent
        parts.append(f"{_count(sent, 'delivery', 'deliveries')} to {_count(len(outcomes), 'address', 'addresses')}")
        parts.append(f"{failed:.2%} failed" if failed else "none failed")
    if latency:
        slowest = max(latency, key=lambda row: row.p99_us)
        parts.append(f"p99 {milliseconds(slowest.p99_us)} ms at {slowest.address}, the slowest address")
    severities = Counter(finding.kind.severity for finding in report.findings)
    found = [_count(severities[severity], *SEVERITIES[severity]) for severity in Severity if severities[severity]]
    parts.append(f"findings: {', '.join(found)}" if found else "no findings")
    return " · ".join(parts)


def milliseconds(us: float) -> str:
    """A duration in microseconds as milliseconds with four digits, or all before the point: 12,958, 51.71, 0.8125."""
    ms = us / 1000
    return f"{ms:,.0f}" if ms >= 1000 else f"{ms:.4g}"


def made(at: datetime) -> str:
    """When the report was made."""
    return f"made {at:{DAY} {MINUTE}} UTC"


def _count(number: float, one: str, several: str = "") -> str:
    return f"{number:,.0f} {one if number == 1 else several or f'{one}s'}"
