"""Hour by hour: unusual hours, and a forecast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

from waymesh_analytics.hours import hour_start
from waymesh_analytics.report.statistics import robust_scores, theil_sen
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.store.schemas import HOUR

from .table import Count, Number, Table, Text, Time, make_table

UNUSUAL_SCORE = 6.0
"""An hour is unusual if it is more than this many (robust) standard deviations from the median."""
LEAST_HOURS = 12
"""Complete hours needed to find unusual ones."""
LEAST_DAYS = 3
"""Complete days needed for a forecast."""
FORECAST_HOURS = 24
FORECAST_ADDRESSES = 50
Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A measure of an address that was unusual in an hour."""

    hour: Time
    address: Text | None
    phase: Count | None
    measure: Text
    value: Number
    median: Number
    score: Number


@dataclass(frozen=True, slots=True)
class Forecast:
    """The deliveries that an address is expected to have in an hour."""

    hour: Time
    address: Text | None
    phase: Count | None
    deliveries: Number
    trend_per_day: Number
    days: Count


@dataclass(slots=True)
class Series:
    """What clients sent in each hour, by address and phase."""

    # The hours with records, without the first and the last one, which are incomplete.
    hours: list[str] = field(default_factory=list)
    deliveries: dict[Key, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    # Mean time to settlement in microseconds.
    settle_us: dict[Key, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))


def read_series(rollups: Rollups) -> Series:
    """The series of all addresses."""
    found = Series(rollups.hours[1:-1])
    for row in (row for row in rollups.sent if row[HOUR] in rollups.window):
        key, hour = (row["address"], row["phase"]), row[HOUR]
        found.deliveries[key][hour] = row["deliveries"]
        if row["settles"]:
            found.settle_us[key][hour] = row["settle_us"] / row["settles"]
    return found


def anomalies(series: Series) -> Table[Anomaly]:
    """Hours that differ much from the others of their address."""
    rows: list[Anomaly] = []
    for key, values in series.deliveries.items():
        rows += _unusual(key, "deliveries", {hour: values.get(hour, 0.0) for hour in series.hours})
    for key, values in series.settle_us.items():
        rows += _unusual(key, "settle_mean_us", {hour: values[hour] for hour in series.hours if hour in values})
    return make_table(
        "anomalies",
        "Anomalies",
        f"Hours more than {UNUSUAL_SCORE:g} robust standard deviations (median absolute deviation) from the median of "
        "their address. The first and the last hour are left out.",
        Anomaly,
        sorted(rows, key=lambda row: (-abs(round(row.score, 6)), row.hour, str(row.address), str(row.phase))),
    )


def _unusual(key: Key, measure: str, values: dict[str, float]) -> Iterator[Anomaly]:
    if len(values) < LEAST_HOURS:
        return
    numbers = list(values.values())
    middle = median(numbers)
    for (hour, value), score in zip(values.items(), robust_scores(numbers)):
        if abs(score) > UNUSUAL_SCORE:
            yield Anomaly(hour_start(hour), *key, measure=measure, value=value, median=middle, score=score)


def forecast(series: Series) -> Table[Forecast]:
    """The expected deliveries of the next day."""
    days = _complete_days(series.hours)
    rows: list[Forecast] = []
    if len(days) >= LEAST_DAYS:
        busiest = sorted(series.deliveries, key=lambda key: (-sum(series.deliveries[key].values()), str(key)))
        for key in busiest[:FORECAST_ADDRESSES]:
            rows += _forecast_address(key, series.deliveries[key], days, series.hours[-1])
    return make_table(
        "forecast",
        "Forecast",
        f"Deliveries expected in each of the next {FORECAST_HOURS} hours: the median of that hour of the day (of that "
        "weekday, if it occurs twice), corrected by the daily trend (Theil-Sen). For the busiest addresses.",
        Forecast,
        rows,
    )


def _complete_days(hours: list[str]) -> list[list[str]]:
    by_day: dict[str, list[str]] = defaultdict(list)
    for hour in hours:
        by_day[hour[:10]].append(hour)
    return [day for day in by_day.values() if len(day) == 24]


def _forecast_address(key: Key, values: dict[str, float], days: list[list[str]], last: str) -> Iterator[Forecast]:
    trend_per_day = theil_sen([sum(values.get(hour, 0.0) for hour in day) for day in days])
    trend_per_hour = trend_per_day / 24 / 24
    origin = hour_start(days[0][0])
    by_hour: dict[int, list[float]] = defaultdict(list)
    by_weekday: dict[tuple[int, int], list[float]] = defaultdict(list)
    for hour in (hour for day in days for hour in day):
        start = hour_start(hour)
        level = values.get(hour, 0.0) - trend_per_hour * ((start - origin) / timedelta(hours=1))
        by_hour[start.hour].append(level)
        by_weekday[start.weekday(), start.hour].append(level)
    for ahead in range(2, FORECAST_HOURS + 2):  # the hour after `last` has already begun
        start = hour_start(last) + timedelta(hours=ahead)
        same_weekday = by_weekday[start.weekday(), start.hour]
        level = median(same_weekday if len(same_weekday) > 1 else by_hour[start.hour])
        expected = max(0.0, level + trend_per_hour * ((start - origin) / timedelta(hours=1)))
        yield Forecast(start, *key, deliveries=expected, trend_per_day=trend_per_day, days=len(days))
