"""The valid rollups of a store, put together for a window.

A query leaves what a report shows and no more; the rest is done with its rows in Python, and what several reports are
made from is read once. What a query costs is for the most part that there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waymesh_analytics.hours import FIRST, LAST, Window, moment_of, shifted
from waymesh_analytics.report.tables.rows import Row
from waymesh_analytics.store.schemas import HOUR, curated_schema

from .compaction import Store
from .definitions import EVENT_KEYS, OUTCOMES, TABLES, WAY_KEYS

LOOK_BACK_HOURS = 24
"""How far before the window the last values of counters are looked for."""
LITTLE_RECORDS = 4_000_000
"""Up to so many, to compile a query for their rollup costs more than it saves."""


class Rollups:
    """The rollups of the hours of a window."""

    def __init__(self, store: Store, window: Window) -> None:
        self._store = store
        self._manifest = store.manifest
        self.window = window
        self._tables = {table.name: table for table in TABLES}

    @cached_property
    def hours(self) -> list[str]:
        """The hours of the window that something is known of, sorted."""
        return sorted({hour for hours in self._manifest.hours.values() for hour in hours if hour in self.window})

    def rows(self, name: str, keys: Sequence[str], *measures: Column, where: Column | None = None) -> list[Row]:
        """The rows of a rollup that are so (`where`), put together by `keys`; in no order."""
        table = self._load(name, self.window)
        return [] if table is None else _grouped(table if where is None else table.where(where), keys, measures)

    def totals(self, name: str, counters: Sequence[str], fresh: Column, *others: Column) -> list[Row]:
        """What counters grew by in the window, for each set of keys, with `others` (aggregates of the window's rows).

        A counter begins at its last value before the window; where it has none there: at 0 if `fresh` (an aggregate)
        says that it began in the window, else at its least value.
        """
        table = self._load(name, self._with_look_back())
        if table is None:
            return []
        inside = self.inside
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
        found = _grouped(table, self._tables[name].keys, [F.max(inside).alias("seen"), *spans, *others])
        return [row for row in found if row["seen"]]

    @property
    def inside(self) -> Column:
        """Of the rows that `totals` reads: whether they are of the window, not of the time before it."""
        return F.col(HOUR) >= self.window.first

    @cached_property
    def flows(self) -> list[Row]:
        """The deliveries of the window: a row for each half of each way of an address through the mesh."""
        added = ("samples", "deliveries", "bytes", "queue_us", "settles", "settle_us")
        sums = [F.sum(name).alias(name) for name in added]
        most = [F.max(name).alias(name) for name in ("queue_max_us", "settle_max_us")]
        ended = [
            F.sum(F.when(F.col("outcome") == outcome, F.col("deliveries")).otherwise(0.0)).alias(outcome)
            for outcome in OUTCOMES
        ]
        return self.rows("flow", WAY_KEYS, *sums, *most, *ended)

    @cached_property
    def events(self) -> list[Row]:
        """The events of the window, equal ones counted; those of the topology one by one, with their moments."""
        first, last = F.min("first_ts").alias("first"), F.max("last_ts").alias("last")
        return self.rows("events", EVENT_KEYS, F.sum("count").alias("count"), first, last)

    @cached_property
    def audit(self) -> list[Row]:
        """Which records there are: a row for each kind, router and boot."""
        least = [F.min(name).alias(name) for name in (HOUR, "seq_lo", "first_ts", "offset_lo")]
        most = [F.max(name).alias(name) for name in ("seq_hi", "last_ts", "offset_hi")]
        return self.rows("audit", ("kind", "router", "boot"), F.sum("records").alias("records"), *least, *most)

    @cached_property
    def started(self) -> set[tuple[str, int]]:
        """The starts (router, boot) that fell into the window: these had their counters at 0 and their records at 1.

        Of each router it is judged by its own records and its own clock, for those of others may have been set.
        """
        first: dict[str, str] = {}
        for row in self.audit:
            first[row["router"]] = min(row[HOUR], first.get(row["router"], LAST))
        return {
            (row["router"], row["boot"])
            for row in self.audit
            if row["seq_lo"] == 1 or row["boot"] >= moment_of(first[row["router"]]).timestamp() * 1000
        }

    @property
    def started_inside(self) -> Column:
        """For tables with `router` and `boot`: whether that start fell into the window."""
        starts = [f"{boot} {router}" for router, boot in sorted(self.started)]
        return F.max(F.concat_ws(" ", "boot", "router").isin(starts))

    def _with_look_back(self) -> Window:
        if self.window.first == FIRST:
            return self.window
        return Window(shifted(self.window.first, -LOOK_BACK_HOURS), self.window.end)

    def _load(self, name: str, window: Window) -> DataFrame | None:
        """One rollup; None where there is nothing of it."""
        table = self._tables[name]
        entries = [
            entry
            for hours in self._manifest.hours.values()
            for hour, entry in hours.items()
            if hour in window and name in entry.rollups
        ]
        if not entries:
            return None
        many = sum(entry.rows for entry in entries) > LITTLE_RECORDS
        storage = self._store.storage if many else self._store.little
        spark = storage.spark
        kind = (table.kinds or ("router",))[0]
        model = table.make(spark.createDataFrame([], curated_schema(kind)).withColumn("kind", F.lit(kind)))
        return spark.read.schema(model.schema).parquet(*sorted(storage.full(entry.rollups[name]) for entry in entries))


def _grouped(table: DataFrame, keys: Sequence[str], measures: Sequence[Column]) -> list[Row]:
    return [row.asDict() for row in table.groupBy(*keys).agg(*measures).collect()]
