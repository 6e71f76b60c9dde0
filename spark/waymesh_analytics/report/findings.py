"""What a reader should know first: the worst of each report in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waymesh_analytics.report.tables.completeness import CLOCK_JUMP_MS
from waymesh_analytics.report.tables.table import Table

BAD, WARNING, INFO = "bad", "warning", "info"
UNEVEN = 0.6
"""Jain's index below which an address with several consumers is called uneven."""
LEAST_DELIVERIES = 100
"""Of an address, before a share of them says anything."""
FAILED_SHARE = 0.05
LONGER_SHARE = 0.05
NAMED = 5
"""So many of a kind are named; the table has the rest."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`severity`: bad, warning or info; `table`: where more is said."""

    severity: str
    table: str
    text: str


def find(tables: Mapping[str, Table]) -> list[Finding]:
    """What stands out in the tables, the worst first."""
    rows = {name: table.dicts() for name, table in tables.items()}
    found = [*_missing(rows), *_objects(rows), *_traffic(rows)]
    order = {BAD: 0, WARNING: 1, INFO: 2}
    return sorted(found, key=lambda finding: order[finding.severity])


_Rows = Mapping[str, list[dict[str, Any]]]


def _some(severity: str, table: str, what: str, texts: Sequence[str]) -> list[Finding]:
    if not texts:
        return []
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return [Finding(severity, table, f"{what}: {'; '.join(texts[:NAMED])}{more}")]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _missing(rows: _Rows) -> list[Finding]:
    lost = [f"{r['lost']} of {r['kind']} of {r['router']}" for r in rows["completeness"] if r["lost"]]
    moved: dict[str, int] = {}
    for row in rows["completeness"]:
        if (row["clock_ms"] or 0) > CLOCK_JUMP_MS:
            moved[row["router"]] = max(moved.get(row["router"], 0), row["clock_ms"])
    corrupt = [f"{r['corrupt']} lines of {r['kind']}" for r in rows["files"] if r["corrupt"]]
    short = [f"{r['short']} files of {r['kind']}" for r in rows["files"] if r["short"]]
    return [
        *_some(BAD, "completeness", "Records are missing", lost),
        *_some(WARNING, "files", "Lines that are no records", corrupt),
        *_some(WARNING, "files", "Files that break off", short),
        *_some(WARNING, "completeness", "Clocks were set", [f"{name} by {ms} ms" for name, ms in moved.items()]),
    ]


def _objects(rows: _Rows) -> list[Finding]:
    def link(row: Mapping[str, Any]) -> str:
        return f"{row['container']} {'from' if row['dir'] == 'out' else 'to'} {row['address']} at {row['router']}"

    stuck = [r for r in rows["links"] if r["state"] == "stuck"]
    kept, waiting = (
        [f"{link(r)}: {r['stuck']} deliveries" for r in stuck if r["dir"] == side] for side in ("out", "in")
    )
    starved = [f"{link(r)}: {r['zero_credit_s']} s" for r in rows["links"] if r["state"] == "starved"]
    flapping = [
        f"{r['name']} at {r['router']}: lost {r['downs']} times" for r in rows["autolinks"] if r["state"] == "flapping"
    ]
    down = [
        f"{r['name']} at {r['router']}: {r['last_error'] or r['last_state']}"
        for r in rows["autolinks"]
        if r["state"] == "down"
    ]
    starts: dict[str, int] = {}
    for row in rows["routers"]:
        starts[row["router"]] = starts.get(row["router"], 0) + 1
    again = [f"{name} {_times(count - 1)}" for name, count in sorted(starts.items()) if count > 1]
    denied = [f"{r['object']} at {r['router']}: {_times(r['count'])}" for r in rows["denials"]]
    return [
        *_some(BAD, "links", "Stuck links", kept),
        *_some(BAD, "links", "Starved of credit", starved),
        *_some(BAD, "autolinks", "Flapping autolinks", flapping),
        *_some(WARNING, "autolinks", "Autolinks that are down", down),
        *_some(WARNING, "links", "Senders left without an outcome", waiting),
        *_some(WARNING, "routers", "Routers that started again", again),
        *_some(WARNING, "denials", "Denied", denied),
    ]


def _traffic(rows: _Rows) -> list[Finding]:
    failed = [
        f"{r['address']}: {r['failed_share']:.1%}"
        for r in sorted(rows["outcomes"], key=lambda r: -r["failed_share"])
        if r["failed_share"] >= FAILED_SHARE and r["samples"] >= LEAST_DELIVERIES
    ]
    uneven = [
        f"{r['address']}: {r['consumers_jain']:.2f} over {r['consumers']} consumers"
        for r in rows["balance"]
        if r["consumers"] > 1 and r["consumers_jain"] < UNEVEN and r["deliveries"] >= LEAST_DELIVERIES
    ]
    longer = [
        f"{r['ingress']} to {r['egress']}: {r['longer_share']:.1%} of {r['deliveries']}"
        for r in rows["hops"]
        if r["longer_share"] >= LONGER_SHARE and r["deliveries"] >= LEAST_DELIVERIES
    ]
    strange = [
        f"{r['address']} at {r['hour']:%Y-%m-%d %H:00}: {r['measure']} {r['value']:,.0f}, usually {r['median']:,.0f}"
        for r in rows["anomalies"]
    ]
    return [
        *_some(WARNING, "outcomes", "Deliveries that were not accepted", failed),
        *_some(INFO, "hops", "Ways that were longer than the cheapest", longer),
        *_some(INFO, "balance", "Uneven shares", uneven),
        *_some(INFO, "anomalies", "Unusual hours", strange),
    ]
