"""The hourly rollups: each is computed from the records of one hour, and those of several hours can be merged.

The report reads only rollups. Sums over sampled deliveries are weighted, so they estimate all deliveries. A large hour
has several files of each rollup, so readers of rollups merge rows with the same keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waymesh_analytics.store.schemas import HOUR
from waymesh_analytics.store.sorting import sorted_by

from .buckets import FIRST_OCTAVE, LINEAR, SUBBUCKETS
from .grouping import COUNT, Measure, equal, grouped, number, plain

OUTCOMES = ("accepted", "rejected", "released", "modified", "presettled", "dropped", "settled", "lost")
FAILED = ("rejected", "released", "modified", "dropped")
_WITHOUT_SETTLEMENT = ("presettled", "dropped", "lost")
"""Outcomes that no receiver sent: their time is not a settlement time."""
_OUTCOME_COUNTERS = ("presettled", "dropped_presettled", "accepted", "rejected", "released", "modified")
_DELAY_COUNTERS = ("delayed_1s", "delayed_10s")
LINK_COUNTERS = ("deliveries", *_OUTCOME_COUNTERS, *_DELAY_COUNTERS)
ROUTER_COUNTERS = (
    *_OUTCOME_COUNTERS,
    "ingress",
    "egress",
    "transit",
    "ingress_route_container",
    "egress_route_container",
    "fallback",
    *_DELAY_COUNTERS,
    "cpu_us",
)
ADDRESS_COUNTERS = ("ingress", "egress", "transit", "to_container", "from_container")


@dataclass(frozen=True, slots=True)
class Rollup:
    """The definition of a rollup."""

    name: str
    # The kinds of records that it is computed from; empty: all.
    kinds: tuple[str, ...]
    # The columns that identify a row within an hour.
    keys: tuple[str, ...]
    # From the records of an hour in the form of `store.parsing`.
    build: Callable[[pa.Table], pa.Table]


def _grouped(rows: pa.Table, keys: Sequence[str], measures: Mapping[str, Measure | str]) -> pa.Table:
    return grouped(rows, (HOUR, *keys), measures)


def _most(rows: pa.Table, names: Sequence[str]) -> dict[str, Measure]:
    return {name: (rows[name], "max") for name in names}


def _spans(rows: pa.Table, counters: Sequence[str]) -> dict[str, Measure]:
    """The smallest and largest value of monotonic counters."""
    ends = (("lo", "min"), ("hi", "max"))
    return {f"{name}_{end}": (rows[name], operation) for name in counters for end, operation in ends}


def _texts(rows: pa.Table, name: str, text: Callable[[Any], str | None]) -> pa.Array:
    """A column of maps or lists as texts."""
    return pa.array([None if value is None else text(value) for value in rows[name].to_pylist()], pa.string())


# ---- containers

MOST_CONTAINERS = 4_000
"""Of more containers in one file of a rollup, those with most records have rows of their own; the rest is OTHERS."""
OTHERS = "(others)"
"""In the place of names of containers: clients choose these, and many take a new one for each connection."""


def _busiest(names: pa.ChunkedArray, weight: pa.ChunkedArray) -> pa.ChunkedArray:
    """The names of the containers with most weight, and OTHERS."""
    table = pa.table({"name": names, "weight": weight})
    sums = table.group_by("name", use_threads=False).aggregate([("weight", "sum")])
    if len(sums) <= MOST_CONTAINERS:
        return names
    order = [("weight_sum", "descending"), ("name", "ascending")]
    most = sums.take(pc.select_k_unstable(sums, k=MOST_CONTAINERS, sort_keys=order))["name"]
    return pc.if_else(pc.or_(pc.is_in(names, most), pc.is_null(names)), names, OTHERS)


# ---- deliveries

FLOW_PATH_KEYS = ("half", "address", "phase", "ingress", "egress", "hops")
FLOW_KEYS = (*FLOW_PATH_KEYS, "container", "outcome")


def _weight(rows: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(rows["weight"], 1.0)


def _has_settlement(outcome: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.and_(pc.is_valid(outcome), pc.invert(pc.is_in(plain(outcome), pa.array(_WITHOUT_SETTLEMENT))))


def _flow(rows: pa.Table) -> pa.Table:
    weight = _weight(rows)

    def weighted(name: str) -> Measure:
        return pc.multiply(rows[name].cast(pa.float64()), weight), "sum"

    container = _busiest(pc.coalesce(plain(rows["producer"]), plain(rows["consumer"])), weight)
    found = _grouped(
        rows.append_column("container", container.dictionary_encode()),
        FLOW_KEYS,
        {
            "samples": COUNT,
            "deliveries": (weight, "sum"),
            "bytes": weighted("size"),
            "queue_us": weighted("queue_us"),
            "queue_max_us": (rows["queue_us"], "max"),
            "settles": (pc.if_else(pc.is_valid(rows["settle_us"]), weight, None), "sum"),
            "settle_us": weighted("settle_us"),
            "settle_max_us": (rows["settle_us"], "max"),
        },
    )
    # Times without a settlement are dropped after grouping by outcome: there are fewer rows then.
    settled = _has_settlement(found["outcome"])
    for name in ("settles", "settle_us", "settle_max_us"):
        at = found.schema.get_field_index(name)
        found = found.set_column(at, name, pc.if_else(settled, found[name], None))
    return found


def bucket_of(value: pa.ChunkedArray) -> pa.ChunkedArray:
    """The bucket (see `buckets`) of a time in whole microseconds.

    The additional half microsecond keeps the logarithm of a power of two from being rounded down below it.
    """
    logarithm = pc.multiply(pc.ln(pc.add(value, 0.5)), 1 / math.log(2))
    octave = pc.subtract(pc.floor(logarithm).cast(pa.int64()), FIRST_OCTAVE)
    within = pc.shift_right(value, pc.max_element_wise(octave, 0))
    logarithmic = pc.add(pc.multiply(octave, SUBBUCKETS), within)
    return pc.if_else(pc.less(value, LINEAR), value, logarithmic).cast(pa.int32())


LATENCY_KEYS = ("address", "phase", "bucket")


def _latency(rows: pa.Table) -> pa.Table:
    """Times from the arrival of a delivery to its settlement, both at the ingress router."""
    chosen = pc.and_(equal(rows["half"], "in"), _has_settlement(rows["outcome"]))
    settled = rows.select([HOUR, "address", "phase", "settle_us", "weight"]).filter(
        pc.and_(chosen, pc.fill_null(pc.greater_equal(rows["settle_us"], 0), False))
    )
    measures: dict[str, Measure | str] = {"samples": COUNT, "deliveries": (_weight(settled), "sum")}
    return _grouped(settled.append_column("bucket", bucket_of(settled["settle_us"])), LATENCY_KEYS, measures)


# ---- state

LINK_KEYS = ("router", "boot", "link_id")
LINK_TEXTS = ("container", "name", "dir", "type", "role", "address")


def _links(rows: pa.Table) -> pa.Table:
    return _grouped(
        rows,
        (*LINK_KEYS, *LINK_TEXTS, "phase"),
        {
            "fresh": (equal(rows["event"], "attach"), "max"),
            "ended": (equal(rows["event"], "detach"), "max"),
            **_most(rows, ("zero_credit_s", "undelivered", "unsettled", "stuck")),
            **_spans(rows, LINK_COUNTERS),
        },
    )


ROUTER_KEYS = ("router", "boot")
ROUTER_GAUGES = ("connections", "links", "addresses", "stuck", "blocked_links", "unsettled", "rss", "loop_lag_us")


def _routers(rows: pa.Table) -> pa.Table:
    rows = sorted_by(rows, ("seq",))
    return _grouped(
        rows,
        ROUTER_KEYS,
        {
            **_most(rows, ("mesh", "version", "uptime_s", *ROUTER_GAUGES)),
            "last_seq": (rows["seq"], "max"),
            **{name: (_texts(rows, name, _map_text), "last") for name in ("records", "dropped")},
            **_spans(rows, ROUTER_COUNTERS),
        },
    )


def _map_text(pairs: list[tuple[str, Any]]) -> str:
    return json.dumps(dict(sorted(pairs)), ensure_ascii=False, separators=(",", ":"))


ADDRESS_KEYS = ("router", "boot", "address", "phase")


def _addresses(rows: pa.Table) -> pa.Table:
    gauges = _most(rows, ("subscribers", "producers", "pending"))
    return _grouped(rows, (*ADDRESS_KEYS, "distribution"), {**gauges, **_spans(rows, ADDRESS_COUNTERS)})


CONNECTION_KEYS = ("router", "container", "host", "dir", "role", "user", "sasl", "tls_proto")


def _connections(rows: pa.Table) -> pa.Table:
    closed = equal(rows["event"], "close")
    failed = number(pc.and_(closed, pc.is_valid(rows["error"])))
    # A failed connection counts more than any number of others: it is what the table is read for.
    container = _busiest(plain(rows["container"]), pc.add(pc.multiply(failed, len(rows)), 1))
    few = pc.fill_null(pc.not_equal(container, OTHERS), True)
    rows = rows.set_column(rows.schema.get_field_index("container"), "container", container.dictionary_encode())
    for name in ("host", "user"):  # of OTHERS, they would be as many
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pc.if_else(few, plain(rows[name]), None).dictionary_encode())
    return _grouped(
        rows,
        CONNECTION_KEYS,
        {
            "opened": (number(equal(rows["event"], "open")), "sum"),
            "closed": (number(closed), "sum"),
            "failed": (failed, "sum"),
            "error": (rows["error"], "max"),
        },
    )


EDGE_KEYS = ("dest", "neighbour")


def _values(rows: pa.Table, *names: str) -> list[list[Any]]:
    return [rows[name].to_pylist() for name in names]


def _edges(rows: pa.Table) -> pa.Table:
    known = rows.filter(pc.invert(pc.fill_null(rows["gone"], False)))
    each = [
        (hour, dest, neighbour, cost)
        for hour, dest, neighbours in zip(*_values(known, HOUR, "dest", "neighbours"), strict=True)
        for neighbour, cost in neighbours or ()
    ]
    columns = (HOUR, *EDGE_KEYS, "cost")
    types = (pa.string(), pa.string(), pa.string(), pa.int64())
    edges = pa.table({name: pa.array([row[at] for row in each], types[at]) for at, name in enumerate(columns)})
    return _grouped(edges, EDGE_KEYS, {"cost": (edges["cost"], "min")})


# ---- changes and events

ENTITY_KEYS = ("router", "boot", "name")


def _states(rows: pa.Table, target: str) -> tuple[pa.Table, dict[str, Measure | str], pa.ChunkedArray]:
    """Transitions of autolinks or link routes in order; how often they were lost, and their last state; which rows
    are changes."""
    rows = sorted_by(rows, ("seq",))
    before, after = plain(rows["from"]), plain(rows["to"])
    changed = pc.or_(
        pc.fill_null(pc.not_equal(before, after), False), pc.xor(pc.is_null(before), pc.is_null(after))
    )
    measures: dict[str, Measure | str] = {
        **_most(rows, (target, "dir", "container", "connection")),
        "downs": (number(pc.and_(changed, equal(rows["from"], "active"))), "sum"),
        "last_seq": (rows["seq"], "max"),
        "state": (pc.fill_null(after, "removed"), "last"),
        "last_ts": (rows["ts"], "max"),
    }
    return rows, measures, changed


def _autolinks(rows: pa.Table) -> pa.Table:
    rows, measures, changed = _states(rows, "address")
    failed = pc.if_else(pc.is_valid(rows["last_error"]), rows["seq"], None)
    more: dict[str, Measure | str] = {
        "ups": (number(pc.and_(changed, equal(rows["to"], "active"))), "sum"),
        "failures": (number(pc.and_(changed, equal(rows["to"], "failed"))), "sum"),
        "last_error": (rows["last_error"], "last_valid"),
        "error_seq": (failed, "max"),
    }
    return _grouped(rows, ENTITY_KEYS, {**measures, **more})


def _linkroutes(rows: pa.Table) -> pa.Table:
    rows, measures, _ = _states(rows, "pattern")
    return _grouped(rows, ENTITY_KEYS, measures)


EVENT_KEYS = ("router", "event", "severity", "object", "detail", "moment")
TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED = "topology.change", "topology.converged"


def _events(rows: pa.Table) -> pa.Table:
    """Equal events are counted; topology events are kept one by one, because their times matter."""
    topology = pc.is_in(plain(rows["event"]), pa.array((TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED)))
    at = rows.schema.get_field_index("detail")
    rows = rows.set_column(at, "detail", _texts(rows, "detail", _map_text))
    rows = rows.append_column("moment", pc.if_else(topology, rows["ts"], None))
    ends: dict[str, Measure | str] = {"first_ts": (rows["ts"], "min"), "last_ts": (rows["ts"], "max")}
    return _grouped(rows, EVENT_KEYS, {"count": COUNT, **ends})


AUDIT_KEYS = ("kind", "router", "boot")


def _audit(rows: pa.Table) -> pa.Table:
    """Which records exist. `offset`: wall clock minus monotonic clock, in microseconds."""
    offset = pc.subtract(rows["ts"].cast(pa.int64()), rows["mono_us"])
    measures: dict[str, Measure | str] = {"records": COUNT}
    for name, column in (("seq", rows["seq"]), ("ts", rows["ts"]), ("offset", offset)):
        low, high = ("first_ts", "last_ts") if name == "ts" else (f"{name}_lo", f"{name}_hi")
        measures |= {low: (column, "min"), high: (column, "max")}
    return _grouped(rows, AUDIT_KEYS, measures)


ROLLUPS = (
    Rollup("audit", (), AUDIT_KEYS, _audit),
    Rollup("flow", ("delivery",), FLOW_KEYS, _flow),
    Rollup("latency", ("delivery",), LATENCY_KEYS, _latency),
    Rollup("links", ("link",), LINK_KEYS, _links),
    Rollup("routers", ("router",), ROUTER_KEYS, _routers),
    Rollup("addresses", ("address",), ADDRESS_KEYS, _addresses),
    Rollup("connections", ("connection",), CONNECTION_KEYS, _connections),
    Rollup("edges", ("node",), EDGE_KEYS, _edges),
    Rollup("autolinks", ("autolink",), ENTITY_KEYS, _autolinks),
    Rollup("linkroutes", ("linkroute",), ENTITY_KEYS, _linkroutes),
    Rollup("events", ("event",), EVENT_KEYS, _events),
)
