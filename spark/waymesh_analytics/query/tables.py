"""The tables that queries can use: records by their kind, and hourly rollups. docs/tables.md is made from this."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from waymesh_analytics.rollups.definitions import ROLLUPS, Rollup
from waymesh_analytics.store.manifest import Manifest
from waymesh_analytics.store.schemas import HOUR, curated_schema
from waymesh_schema.telemetry import ENVELOPE, KINDS, Kind

HOURLY = "hourly_"
_HOUR_TEXT = "The hour of the record, as 2026-01-31T05 (UTC); conditions on it read only these hours."
_ROLLUPS = {
    "audit": "Which records exist, by kind, router and boot.",
    "flow": "Sampled deliveries by path and outcome. Sums are weighted: they estimate all deliveries.",
    "latency": "Histogram of settlement times at ingress routers.",
    "links": "Links: extremes of their counters and gauges.",
    "routers": "Boots of routers: extremes of their counters and gauges.",
    "addresses": "Addresses at a router: extremes of their counters and gauges.",
    "connections": "Connections opened, closed and failed, by client.",
    "edges": "Links between routers, as the routers knew them.",
    "autolinks": "Changes of autolinks, and their last state.",
    "linkroutes": "Changes of link routes, and their last state.",
    "events": "Equal events, counted; topology events one by one.",
}
_MEASURES = {
    HOUR: "The hour, as 2026-01-31T05 (UTC).",
    "kind": "Kind of the records.",
    "records": "Number of records; in routers, the last seq of each kind as JSON.",
    "dropped": "Records dropped by kind, as JSON.",
    "samples": "Number of sampled deliveries.",
    "deliveries": "Estimated number of deliveries: the sum of the weights.",
    "bytes": "Estimated bytes of the messages.",
    "container": "The producer or consumer; for links and autolinks, the peer's container-id.",
    "queue_us": "Sum of the times in queue in microseconds, weighted.",
    "queue_max_us": "Longest time in queue in microseconds.",
    "settles": "Estimated number of deliveries with a settlement time.",
    "settle_us": "Sum of the settlement times in microseconds, weighted.",
    "settle_max_us": "Longest settlement time in microseconds.",
    "bucket": "Bucket of the settlement time: microseconds up to 63, then 32 buckets for each power of two.",
    "fresh": "Whether the link was attached in this hour.",
    "ended": "Whether the link was detached in this hour.",
    "last_seq": "Highest seq of the records.",
    "opened": "Connections opened.",
    "closed": "Connections closed.",
    "failed": "Connections closed with an error.",
    "downs": "How often it was lost: changes from active to another state.",
    "ups": "How often it became active.",
    "failures": "How often it failed.",
    "state": "The last state.",
    "error_seq": "Seq of the record with the last error.",
    "moment": "Time of a topology event; null for others.",
    "count": "Number of equal events.",
    "detail": "Details as JSON.",
    "first_ts": "Time of the first record.",
    "last_ts": "Time of the last record.",
    "neighbour": "The router at the other end.",
    "cost": "Lowest cost of the link.",
    "seq": "seq of the records",
    "offset": "wall clock minus monotonic clock in microseconds",
}
_ENDS = {"_lo": "Lowest", "_hi": "Highest"}


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column of a table."""

    name: str
    type: pa.DataType
    description: str


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A table that queries can use."""

    name: str
    description: str
    columns: tuple[QueryColumn, ...]
    # The kind of records in it, or the name of the rollup.
    source: str
    rollup: bool

    @property
    def schema(self) -> pa.Schema:
        """The schema of its files, when they are read."""
        return pa.schema([(column.name, column.type) for column in self.columns])

    def paths(self, manifest: Manifest) -> list[str]:
        """The sorted paths of its files in the store."""
        kinds = manifest.hours if self.rollup else {self.source: manifest.hours.get(self.source, {})}
        entries = [entry for hours in kinds.values() for entry in hours.values()]
        if self.rollup:
            return sorted({path for entry in entries for path in entry.rollups.get(self.source, ())})
        return sorted({path for entry in entries for path in entry.curated})


def query_tables() -> dict[str, QueryTable]:
    """All tables by name."""
    found = [*map(_records, KINDS.values()), *map(_hourly, ROLLUPS)]
    return {table.name: table for table in found}


def _records(kind: Kind) -> QueryTable:
    described = {field.name: field.description for field in kind.fields} | {HOUR: _HOUR_TEXT}
    columns = [QueryColumn(field.name, field.type, described[field.name]) for field in curated_schema(kind.name)]
    sampled = " A sample: sum `weight` to estimate all deliveries." if kind.sampled else ""
    return QueryTable(kind.name, kind.description + sampled, tuple(columns), kind.name, rollup=False)


def _hourly(rollup: Rollup) -> QueryTable:
    kind = (rollup.kinds or ("router",))[0]
    none = curated_schema(kind).empty_table().append_column("kind", pa.array([], pa.string()))
    described = {field.name: field.description for field in (*ENVELOPE, *KINDS[kind].own)}
    columns = [
        QueryColumn(field.name, field.type, _meaning(field.name, described)) for field in rollup.build(none).schema
    ]
    return QueryTable(HOURLY + rollup.name, _ROLLUPS[rollup.name], tuple(columns), rollup.name, rollup=True)


def _meaning(name: str, described: dict[str, str]) -> str:
    """The description of a column of a rollup."""
    for end, text in _ENDS.items():
        counter = name.removesuffix(end)
        if counter != name:
            return f"{text} value in the hour: {described.get(counter) or _MEASURES[counter]}"
    return _MEASURES.get(name) or described[name]
