"""The hourly rollups: each is computed from the records of one hour, and those of several hours can be merged.

The report reads only rollups. Sums over sampled deliveries are weighted, so they estimate all deliveries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waymesh_analytics.store.schemas import HOUR

from .buckets import FIRST_OCTAVE, LINEAR, SUBBUCKETS

OUTCOMES = ("accepted", "rejected", "released", "modified", "presettled", "dropped", "settled", "lost")
_WITHOUT_SETTLEMENT = ("presettled", "dropped", "lost")
"""Outcomes that no receiver sent: their time is not a settlement time."""
LINK_COUNTERS = (
    "deliveries",
    "presettled",
    "dropped_presettled",
    "accepted",
    "rejected",
    "released",
    "modified",
    "delayed_1s",
    "delayed_10s",
)
ROUTER_COUNTERS = (
    "presettled",
    "dropped_presettled",
    "accepted",
    "rejected",
    "released",
    "modified",
    "ingress",
    "egress",
    "transit",
    "ingress_route_container",
    "egress_route_container",
    "fallback",
    "delayed_1s",
    "delayed_10s",
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
    build: Callable[[DataFrame], DataFrame]


def _grouped(rows: DataFrame, keys: Sequence[str], *measures: Column) -> DataFrame:
    return rows.groupBy(HOUR, *keys).agg(*measures)


def _weight() -> Column:
    return F.coalesce(F.col("weight"), F.lit(1.0))


def _weighted(name: str) -> Column:
    return F.sum(F.col(name) * _weight())


def _spans(counters: Sequence[str]) -> list[Column]:
    """The smallest and largest value of monotonic counters."""
    return [each for name in counters for each in (F.min(name).alias(f"{name}_lo"), F.max(name).alias(f"{name}_hi"))]


def _is(name: str, value: str) -> Column:
    return F.coalesce(F.col(name) == value, F.lit(False))


def _has_settlement() -> Column:
    return ~F.col("outcome").isin(*_WITHOUT_SETTLEMENT)


# ---- deliveries

FLOW_PATH_KEYS = ("half", "address", "phase", "ingress", "egress", "hops")
FLOW_KEYS = (*FLOW_PATH_KEYS, "container", "outcome")


def _flow(rows: DataFrame) -> DataFrame:
    # Times without a settlement are dropped after grouping by outcome: comparing texts for each record is expensive.
    found = _grouped(
        rows.withColumn("container", F.coalesce("producer", "consumer")),
        FLOW_KEYS,
        F.count(F.lit(1)).alias("samples"),
        F.sum(_weight()).alias("deliveries"),
        _weighted("size").alias("bytes"),
        _weighted("queue_us").alias("queue_us"),
        F.max("queue_us").alias("queue_max_us"),
        F.sum(F.when(F.col("settle_us").isNotNull(), _weight())).alias("settles"),
        _weighted("settle_us").alias("settle_us"),
        F.max("settle_us").alias("settle_max_us"),
    )
    times = ("settles", "settle_us", "settle_max_us")
    return found.withColumns({name: F.when(_has_settlement(), F.col(name)) for name in times})


def bucket_of(value: Column) -> Column:
    """The bucket (see `buckets`) of a time in whole microseconds.

    The additional half microsecond keeps the logarithm of a power of two from being rounded down below it.
    """
    octave = F.floor(F.ln(value + 0.5) * (1 / math.log(2))).cast("int") - FIRST_OCTAVE
    within = F.call_function("shiftright", value, octave)
    return F.when(value < LINEAR, value).otherwise(octave * SUBBUCKETS + within).cast("int")


LATENCY_KEYS = ("address", "phase", "bucket")


def _latency(rows: DataFrame) -> DataFrame:
    """Times from the arrival of a delivery to its settlement, both at the ingress router."""
    settled = rows.where((F.col("half") == "in") & _has_settlement())
    positive = settled.where(F.col("settle_us") >= 0).withColumn("bucket", bucket_of(F.col("settle_us")))
    return _grouped(positive, LATENCY_KEYS, F.count(F.lit(1)).alias("samples"), F.sum(_weight()).alias("deliveries"))


# ---- state

LINK_KEYS = ("router", "boot", "link_id")
LINK_TEXTS = ("container", "name", "dir", "type", "role", "address")


def _links(rows: DataFrame) -> DataFrame:
    # The constant attributes of a link are keys too: aggregating texts with max() would need a sort.
    return _grouped(
        rows,
        (*LINK_KEYS, *LINK_TEXTS, "phase"),
        F.max(_is("event", "attach")).alias("fresh"),
        F.max(_is("event", "detach")).alias("ended"),
        F.max("zero_credit_s").alias("zero_credit_s"),
        F.max("undelivered").alias("undelivered"),
        F.max("unsettled").alias("unsettled"),
        F.max("stuck").alias("stuck"),
        *_spans(LINK_COUNTERS),
    )


ROUTER_KEYS = ("router", "boot")
ROUTER_GAUGES = ("connections", "links", "addresses", "stuck", "blocked_links", "unsettled", "rss", "loop_lag_us")


def _routers(rows: DataFrame) -> DataFrame:
    return _grouped(
        rows,
        ROUTER_KEYS,
        F.max("mesh").alias("mesh"),
        F.max("version").alias("version"),
        F.max("uptime_s").alias("uptime_s"),
        *[F.max(name).alias(name) for name in ROUTER_GAUGES],
        F.max("seq").alias("last_seq"),
        F.max_by(F.to_json("records"), "seq").alias("records"),
        F.max_by(F.to_json("dropped"), "seq").alias("dropped"),
        *_spans(ROUTER_COUNTERS),
    )


ADDRESS_KEYS = ("router", "boot", "address", "phase")


def _addresses(rows: DataFrame) -> DataFrame:
    return _grouped(
        rows,
        (*ADDRESS_KEYS, "distribution"),
        F.max("subscribers").alias("subscribers"),
        F.max("producers").alias("producers"),
        F.max("pending").alias("pending"),
        *_spans(ADDRESS_COUNTERS),
    )


CONNECTION_KEYS = ("router", "container", "host", "dir", "role", "user", "sasl", "tls_proto")


def _connections(rows: DataFrame) -> DataFrame:
    closed = _is("event", "close")
    return _grouped(
        rows,
        CONNECTION_KEYS,
        F.count_if(_is("event", "open")).alias("opened"),
        F.count_if(closed).alias("closed"),
        F.count_if(closed & F.col("error").isNotNull()).alias("failed"),
        F.max("error").alias("error"),
    )


EDGE_KEYS = ("dest", "neighbour")


def _edges(rows: DataFrame) -> DataFrame:
    known = rows.where(~F.coalesce("gone", F.lit(False)))
    each = known.select(HOUR, "dest", F.explode("neighbours").alias("neighbour", "cost"))
    return _grouped(each, EDGE_KEYS, F.min("cost").alias("cost"))


# ---- changes and events

ENTITY_KEYS = ("router", "boot", "name")


def _changed() -> Column:
    return ~F.col("from").eqNullSafe(F.col("to"))


def _states(rows: DataFrame, target: str, *more: Column) -> DataFrame:
    """Transitions of autolinks or link routes: how often they were lost, and their last state."""
    return _grouped(
        rows,
        ENTITY_KEYS,
        *[F.max(name).alias(name) for name in (target, "dir", "container", "connection")],
        F.count_if(_changed() & _is("from", "active")).alias("downs"),
        F.max("seq").alias("last_seq"),
        F.max_by(F.coalesce("to", F.lit("removed")), "seq").alias("state"),
        F.max("ts").alias("last_ts"),
        *more,
    )


def _autolinks(rows: DataFrame) -> DataFrame:
    failed = F.when(F.col("last_error").isNotNull(), F.col("seq"))
    return _states(
        rows,
        "address",
        F.count_if(_changed() & _is("to", "active")).alias("ups"),
        F.count_if(_changed() & _is("to", "failed")).alias("failures"),
        F.max_by("last_error", failed).alias("last_error"),
        F.max(failed).alias("error_seq"),
    )


def _linkroutes(rows: DataFrame) -> DataFrame:
    return _states(rows, "pattern")


EVENT_KEYS = ("router", "event", "severity", "object", "detail", "moment")
TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED = "topology.change", "topology.converged"


def _events(rows: DataFrame) -> DataFrame:
    """Equal events are counted; topology events are kept one by one, because their times matter."""
    moment = F.when(F.col("event").isin(TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED), F.col("ts"))
    entries = F.array_sort(F.map_entries("detail"))
    plain = rows.withColumn("detail", F.to_json(F.map_from_entries(entries))).withColumn("moment", moment)
    return _grouped(
        plain,
        EVENT_KEYS,
        F.count(F.lit(1)).alias("count"),
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
    )


AUDIT_KEYS = ("kind", "router", "boot")


def _audit(rows: DataFrame) -> DataFrame:
    """Which records exist. `offset`: wall clock minus monotonic clock, in microseconds."""
    offset = F.unix_micros("ts") - F.col("mono_us")
    return _grouped(
        rows,
        AUDIT_KEYS,
        F.count(F.lit(1)).alias("records"),
        F.min("seq").alias("seq_lo"),
        F.max("seq").alias("seq_hi"),
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
        F.min(offset).alias("offset_lo"),
        F.max(offset).alias("offset_hi"),
    )


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
