"""Hour by hour: traffic, latency and failures of the whole mesh, beside those of the same hours of last week."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import functions as F

from waymesh_analytics.hours import add_hours, hour_start
from waymesh_analytics.rollups.buckets import percentiles
from waymesh_analytics.rollups.reader import WEEK_HOURS, Rollups, Row
from waymesh_analytics.store.schemas import HOUR

from .table import Count, Number, Share, Table, Text, Time, make_table

SHARES = (0.5, 0.99)
NOTE = "failed: rejected, released, modified or dropped."
KeyT = TypeVar("KeyT", bound=Hashable)
Key = tuple[str | None, int | None]
"""An address and its phase."""


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of the whole mesh, and the same hour of last week; None: no records, or nothing settled."""

    hour: Time
    deliveries: Count
    failed: Count
    p50_us: Number | None
    p99_us: Number | None
    week_ago_deliveries: Count | None
    week_ago_failed: Count | None
    week_ago_p50_us: Number | None
    week_ago_p99_us: Number | None


@dataclass(frozen=True, slots=True)
class Change:
    """An address in the latest complete hour, and in the same hour of last week."""

    address: Text | None
    phase: Count | None
    deliveries: Count
    week_ago_deliveries: Count
    failed_share: Share
    week_ago_failed_share: Share
    p50_us: Number | None
    week_ago_p50_us: Number | None
    p99_us: Number | None
    week_ago_p99_us: Number | None


@dataclass(frozen=True, slots=True)
class Sent:
    """What clients sent."""

    deliveries: float = 0.0
    failed: float = 0.0

    @property
    def failed_share(self) -> float:
        """From 0 to 1."""
        return self.failed / self.deliveries if self.deliveries else 0.0


Times = tuple[float | None, float | None]
"""p50 and p99 to settlement in microseconds."""
UNSETTLED: Times = (None, None)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured in the last week of the report and in the week before that."""

    # The hours of the report, at most a week.
    hours: list[str]
    # The hour to compare with that of last week; None if no hour is complete.
    complete: str | None
    # Whether the store has records of these hours a week ago.
    week_ago: frozenset[str]
    sent: Mapping[str, Mapping[Key, Sent]]
    times: Mapping[str, Times]
    # Of the two hours that are compared.
    address_times: Mapping[tuple[str, Key], Times]


def read_measured(rollups: Rollups) -> Measured:
    """Read the hours that the tables below need."""
    recent, before = rollups.recent, rollups.week_ago
    wanted = before | frozenset(recent)
    deliveries = F.sum("deliveries").alias("deliveries")
    sent: dict[str, dict[Key, Sent]] = defaultdict(dict)
    for row in (row for row in rollups.sent if row[HOUR] in wanted):
        sent[row[HOUR]][row["address"], row["phase"]] = Sent(row["deliveries"], row["failed"])
    times = _times(rollups.rows("latency", (HOUR, "bucket"), deliveries, hours=wanted), lambda row: row[HOUR])
    # The first and the last hour of a store are not complete.
    complete = next((hour for hour in reversed(recent) if hour in rollups.stored[1:-1]), None)
    compared = frozenset() if complete is None else frozenset({complete, add_hours(complete, -WEEK_HOURS)})
    address_times: Mapping[tuple[str, Key], Times] = {}
    if len(compared & wanted) == 2:
        rows = rollups.rows("latency", (HOUR, "address", "phase", "bucket"), deliveries, hours=compared)
        address_times = _times(rows, lambda row: (row[HOUR], (row["address"], row["phase"])))
    return Measured(recent, complete, before, sent, times, address_times)


def _times(rows: Iterable[Row], key_of: Callable[[Row], KeyT]) -> dict[KeyT, Times]:
    """p50 and p99 of buckets, by key."""
    buckets: dict[KeyT, dict[int, float]] = defaultdict(dict)
    for row in rows:
        buckets[key_of(row)][row["bucket"]] = row["deliveries"]
    found: dict[KeyT, Times] = {}
    for key, weights in buckets.items():
        p50, p99 = percentiles(weights, SHARES)
        found[key] = (p50, p99)
    return found


def hours(measured: Measured) -> Table[Hour]:
    """Each hour beside the same one of last week, the latest first."""
    rows = []
    for hour in reversed(measured.hours):
        before = add_hours(hour, -WEEK_HOURS)
        now, then = (_total(measured.sent.get(each, {})) for each in (hour, before))
        known = before in measured.week_ago
        row = Hour(
            hour_start(hour),
            round(now.deliveries),
            round(now.failed),
            *measured.times.get(hour, UNSETTLED),
            round(then.deliveries) if known else None,
            round(then.failed) if known else None,
            *measured.times.get(before, UNSETTLED),
        )
        rows.append(row)
    return make_table(
        "hours",
        "Hour by hour",
        f"What clients sent in each hour of the last week of this report, how much of it failed, and the time to "
        f"settlement; beside it the same hour of last week. {NOTE} The first and the last hour may be incomplete.",
        Hour,
        rows,
    )


def _total(sent: Mapping[Key, Sent]) -> Sent:
    return Sent(sum(each.deliveries for each in sent.values()), sum(each.failed for each in sent.values()))


def last_week(measured: Measured) -> Table[Change]:
    """The latest complete hour and the same hour of last week, by address."""
    title = "The same hour of last week"
    hour = measured.complete
    before = None if hour is None else add_hours(hour, -WEEK_HOURS)
    if hour is None or before is None or before not in measured.week_ago:
        return make_table("last_week", title, "", Change, [], empty=_nothing_to_compare(hour, before))
    now, then = measured.sent.get(hour, {}), measured.sent.get(before, {})
    rows = []
    for key in {*now, *then}:
        after, earlier = now.get(key, Sent()), then.get(key, Sent())
        p50, p99 = measured.address_times.get((hour, key), UNSETTLED)
        week_ago_p50, week_ago_p99 = measured.address_times.get((before, key), UNSETTLED)
        row = Change(
            *key,
            deliveries=round(after.deliveries),
            week_ago_deliveries=round(earlier.deliveries),
            failed_share=after.failed_share,
            week_ago_failed_share=earlier.failed_share,
            p50_us=p50,
            week_ago_p50_us=week_ago_p50,
            p99_us=p99,
            week_ago_p99_us=week_ago_p99,
        )
        rows.append(row)
    return make_table(
        "last_week",
        title,
        f"{_named(hour)}, the latest complete hour of this report, beside {_named(before)}, a week before. {NOTE}",
        Change,
        sorted(rows, key=lambda row: (-max(row.deliveries, row.week_ago_deliveries), str(row.address), row.phase or 0)),
    )


def _named(hour: str) -> str:
    return f"{hour.replace('T', ' ')}:00 UTC"


def _nothing_to_compare(hour: str | None, before: str | None) -> str:
    if hour is None or before is None:
        return (
            "No comparison: the report has no complete hour. The first and the last hour with records do "
            "not count, because they may have begun before the first or go on after the last record."
        )
    return f"No comparison: the store has no records of {_named(before)}, a week before {_named(hour)}."
