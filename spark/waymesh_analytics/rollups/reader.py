"""Reads the valid rollups of a store, merged for a window.

Most of the cost of a query is fixed, whatever it returns. Queries therefore aggregate only as far as needed, the rest
is computed in Python, and rows that several tables need are read once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.hours import FIRST, LAST, Window, add_hours, hour_start
from waymesh_analytics.store.local_storage import LocalStorage
from waymesh_analytics.store.schemas import HOUR, curated_schema
from waymesh_analytics.store.storage import Storage
from waymesh_analytics.store.store import Store

from .definitions import (
    ADDRESS_COUNTERS,
    EDGE_KEYS,
    EVENT_KEYS,
    FAILED,
    FLOW_PATH_KEYS,
    LINK_COUNTERS,
    LINK_TEXTS,
    OUTCOMES,
    ROLLUPS,
    ROUTER_COUNTERS,
    ROUTER_GAUGES,
)

LOOK_BACK_HOURS = 24
"""How far before the window the last value of a counter is looked up."""
WEEK_HOURS = 7 * 24
STARVED_S = 10
"""A link that has no credit for this long while deliveries wait is starved."""
SMALL_RECORDS = 4_000_000
"""Up to this many records, compiling a query on their rollup costs more than it saves."""
MOST_ROWS = 20_000
"""Rows of one kind that the driver has in memory at most, where clients decide how many there are: they take 60 MB."""
INTER_ROUTER = "inter-router"

Row = dict[str, Any]
"""A row of a query by column."""


class Rollups:
    """The rollups of a window."""

    def __init__(self, store: Store, window: Window) -> None:
        self._store = store
        self._manifest = store.manifest
        self.window = window
        self._definitions = {rollup.name: rollup for rollup in ROLLUPS}

    @cached_property
    def hours(self) -> list[str]:
        """The sorted hours of the window that have records."""
        return sorted({hour for hours in self._manifest.hours.values() for hour in hours if hour in self.window})

    @cached_property
    def stored(self) -> list[str]:
        """The sorted hours with records, in the window and outside of it."""
        return sorted({hour for hours in self._manifest.hours.values() for hour in hours})

    def rows(
        self,
        name: str,
        keys: Sequence[str],
        *measures: Column,
        where: Column | None = None,
        hours: Container[str] | None = None,
        first: Sequence[Column] = (),
    ) -> list[Row]:
        """The rows of a rollup that match `where`, merged by `keys`, in no order; of the window or of other hours.

        Of more than MOST_ROWS, those that come `first` in this order; without it, all of them.
        """
        table = self._load(name, self.window if hours is None else hours)
        return [] if table is None else _grouped(table if where is None else table.where(where), keys, measures, first)

    def _totals(
        self, name: str, counters: Sequence[str], fresh: Column, *others: Column, first: Sequence[Column] = ()
    ) -> list[Row]:
        """The growth of counters in the window for each set of keys, and `others` (aggregates); `first`: as in `rows`.

        A counter starts at its last value before the window. Without one it starts at 0 if `fresh` (an aggregate) says
        that it began in the window, else at its smallest value.
        """
        table = self._load(name, self._with_look_back())
        if table is None:
            return []
        inside = self._inside
        spans = []
        for counter in counters:
            low, high = F.col(f"{counter}_lo"), F.col(f"{counter}_hi")
            least, greatest, before = (
                F.min(F.when(inside, low)),
                F.max(F.when(inside, high)),
                F.max(F.when(~inside, high)),
            )
            begin = F.coalesce(before, F.when(F.coalesce(fresh, F.lit(False)), F.lit(0)), least)
            spans.append((greatest - begin).alias(counter))
        order = [F.desc("seen"), *first] if first else ()
        seen = F.max(inside).alias("seen")
        found = _grouped(table, self._definitions[name].keys, [seen, *spans, *others], order)
        return [row for row in found if row["seen"]]

    @property
    def _inside(self) -> Column:
        """Whether a row that `_totals` reads is in the window, not in the time before it."""
        return F.col(HOUR) >= self.window.first

    def _most(self, names: Iterable[str]) -> list[Column]:
        return [F.max(F.when(self._inside, F.col(name))).alias(name) for name in names]

    @cached_property
    def recent(self) -> list[str]:
        """The hours of the window, at most a week."""
        return self.hours[-WEEK_HOURS:]

    @cached_property
    def week_ago(self) -> frozenset[str]:
        """The hours with records a week before those of `recent`."""
        return frozenset(add_hours(hour, -WEEK_HOURS) for hour in self.recent) & frozenset(self.stored)

    @cached_property
    def sent(self) -> list[Row]:
        """What clients sent: a row for each hour of the window and of the week before `recent`, and each address."""
        sums = [F.sum(name).alias(name) for name in ("deliveries", "settles", "settle_us")]
        failed = F.sum(F.when(F.col("outcome").isin(*FAILED), F.col("deliveries")).otherwise(0.0)).alias("failed")
        hours = self.week_ago | frozenset(self.hours)
        return self.rows(
            "flow", (HOUR, "address", "phase"), *sums, failed, where=F.col("half") == "in", hours=hours
        )

    @cached_property
    def flows(self) -> list[Row]:
        """The deliveries of the window: a row for each half, address and path through the mesh."""
        added = ("samples", "deliveries", "bytes", "queue_us", "settles", "settle_us")
        sums = [F.sum(name).alias(name) for name in added]
        most = [F.max(name).alias(name) for name in ("queue_max_us", "settle_max_us")]
        ended = [
            F.sum(F.when(F.col("outcome") == outcome, F.col("deliveries")).otherwise(0.0)).alias(outcome)
            for outcome in OUTCOMES
        ]
        return self.rows("flow", FLOW_PATH_KEYS, *sums, *most, *ended)

    @cached_property
    def events(self) -> list[Row]:
        """The events of the window, at most MOST_ROWS: equal ones counted, those of the topology one by one."""
        first, last = F.min("first_ts").alias("first"), F.max("last_ts").alias("last")
        between_routers = F.col("moment").isNotNull() | F.col("detail").contains(INTER_ROUTER)
        order = [F.desc_nulls_last(between_routers), F.desc(F.col("severity") != "info"), F.desc("count")]
        return self.rows("events", EVENT_KEYS, F.sum("count").alias("count"), first, last, first=order)

    @cached_property
    def links(self) -> list[Row]:
        """The links of the window, at most MOST_ROWS: those of routers, stuck and starved ones first.

        `idle`: the hours in which a receiver gave no credit for STARVED_S or more.
        """
        idle = self._inside & (F.col("dir") == "out") & (F.col("zero_credit_s") >= STARVED_S)
        place = F.struct(HOUR, "address", "phase", (F.col("undelivered") > 0).alias("waited"))
        return self._totals(
            "links",
            LINK_COUNTERS,
            F.max(self._inside & F.col("fresh")),
            *[F.max(name).alias(name) for name in LINK_TEXTS],
            *self._most(("zero_credit_s", "undelivered", "unsettled", "stuck")),
            F.collect_set(F.when(idle, place)).alias("idle"),
            first=[F.asc(F.col("type") == "endpoint"), *(F.desc(name) for name in ("stuck", "zero_credit_s"))],
        )

    @cached_property
    def routers(self) -> list[Row]:
        """The boots of routers in the window, with the `records` and `dropped` of their last report there."""
        order = F.when(self._inside, F.col("last_seq"))
        last = [F.max_by(name, order).alias(name) for name in ("records", "dropped")]
        maxima = [F.max(name).alias(name) for name in ("mesh", "version")]
        maxima += self._most(("uptime_s", *ROUTER_GAUGES))
        return self._totals("routers", ROUTER_COUNTERS, self._started_inside, *maxima, *last)

    @cached_property
    def addresses(self) -> list[Row]:
        """The addresses of each boot of a router. `waited`: the hours in which deliveries waited."""
        waits = self._inside & (F.col("pending") > 0)
        return self._totals(
            "addresses",
            ADDRESS_COUNTERS,
            self._started_inside,
            F.max("distribution").alias("distribution"),
            *self._most(("subscribers", "producers", "pending")),
            F.collect_set(F.when(waits, F.col(HOUR))).alias("waited"),
        )

    @cached_property
    def edges(self) -> list[Row]:
        """The links between routers that any router knew in the window, with their lowest cost."""
        return self.rows("edges", EDGE_KEYS, F.min("cost").alias("cost"), where=F.col("dest").isNotNull())

    @cached_property
    def audit(self) -> list[Row]:
        """Which records exist: a row for each kind, router and boot."""
        least = [F.min(name).alias(name) for name in (HOUR, "seq_lo", "first_ts", "offset_lo")]
        most = [F.max(name).alias(name) for name in ("seq_hi", "last_ts", "offset_hi")]
        return self.rows("audit", ("kind", "router", "boot"), F.sum("records").alias("records"), *least, *most)

    @cached_property
    def started(self) -> set[tuple[str, int]]:
        """The boots (router, boot) in the window: their counters began at 0 and their records at 1.

        Each router is judged by its own records and clock, because the clocks of others may be wrong.
        """
        first: dict[str, str] = {}
        for row in self.audit:
            first[row["router"]] = min(row[HOUR], first.get(row["router"], LAST))
        return {
            (row["router"], row["boot"])
            for row in self.audit
            if row["seq_lo"] == 1 or row["boot"] >= hour_start(first[row["router"]]).timestamp() * 1000
        }

    @property
    def _started_inside(self) -> Column:
        """For rollups with `router` and `boot`: whether that boot is in the window."""
        starts = [f"{boot} {router}" for router, boot in sorted(self.started)]
        return F.max(F.concat_ws(" ", "boot", "router").isin(starts))

    def _with_look_back(self) -> Window:
        if self.window.first == FIRST:
            return self.window
        return Window(add_hours(self.window.first, -LOOK_BACK_HOURS), self.window.end)

    def _load(self, name: str, wanted: Container[str]) -> DataFrame | None:
        """The files of a rollup with the wanted hours; None if there are none."""
        rollup = self._definitions[name]
        entries = [
            entry
            for hours in self._manifest.hours.values()
            for hour, entry in hours.items()
            if hour in wanted and name in entry.rollups
        ]
        if not entries:
            return None
        small = sum(entry.rows for entry in entries) <= SMALL_RECORDS
        storage = self._store.small if small else self._store.storage
        kind = (rollup.kinds or ("router",))[0]
        none = curated_schema(kind).empty_table().append_column("kind", pa.array([], pa.string()))
        paths = sorted(path for entry in entries for path in entry.rollups[name])
        _require_content(storage, paths)
        schema = from_arrow_schema(rollup.build(none).schema)
        found = storage.spark.read.schema(schema).parquet(*map(storage.full, paths)).where(_has_hour())
        return found.coalesce(1) if small else found  # what is in one partition needs no shuffle


def _has_hour() -> Column:
    """A condition that fails for a file of another table, whose columns would all be null."""
    failure = F.raise_error(F.lit("a file of a rollup has rows without an hour"))
    return F.when(F.col(HOUR).isNull(), failure).otherwise(F.lit(True))


def _require_content(storage: Storage, paths: Iterable[str]) -> None:
    """Raises AnalyticsError for an empty file, which Spark skips without a word. Object stores make none: they store an
    object whole or not at all, and asking for each would take longer than the report."""
    if isinstance(storage, LocalStorage):
        for path in paths:
            if not storage.size(path):
                raise AnalyticsError(f"{storage.full(path)} is empty")


def _grouped(
    table: DataFrame, keys: Sequence[str], measures: Sequence[Column], first: Sequence[Column] = ()
) -> list[Row]:
    found = table.groupBy(*keys).agg(*measures)
    if first:
        found = found.orderBy(*first, *keys).limit(MOST_ROWS)
    return [row.asDict() for row in found.collect()]
