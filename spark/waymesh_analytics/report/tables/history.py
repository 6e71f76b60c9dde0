"""Hour after hour: what stands out, and what is to be expected."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import Any

from pyspark.sql import functions as F

from waymesh_analytics.hours import hour_start
from waymesh_analytics.report.statistics import robust_scores, theil_sen
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.store.schemas import HOUR

from .table import COUNT, NUMBER, TEXT, TIME, Table, columns, fill

SCORE = 6.0
"""Beyond so many (robust) standard deviations an hour stands out."""
LEAST_HOURS = 12
"""Before so many whole hours nothing is said to stand out."""
LEAST_DAYS = 3
"""Before so many whole days nothing is foretold."""
FORECAST_HOURS = 24
FORECAST_ADDRESSES = 50
Key = tuple[str, int | None]
_Row = tuple[Any, ...]


@dataclass(slots=True)
class Series:
    """What clients sent in each hour, by address and phase: deliveries, and the mean settlement time in microseconds.

    `hours`: those of which there are records at all, without the first and the last, in which they begin and end
    somewhere.
    """

    hours: list[str] = field(default_factory=list)
    deliveries: dict[Key, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    settle_us: dict[Key, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))


def read_series(rollups: Rollups) -> Series:
    """From the flows."""
    found = Series()
    found.hours = rollups.hours[1:-1]
    sums = [F.sum(name).alias(name) for name in ("deliveries", "settles", "settle_us")]
    for row in rollups.rows("flow", ("address", "phase", HOUR), *sums, where=F.col("half") == "in"):
        key, hour = (row["address"], row["phase"]), row[HOUR]
        found.deliveries[key][hour] = row["deliveries"]
        if row["settles"]:
            found.settle_us[key][hour] = row["settle_us"] / row["settles"]
    return found


def anomalies(series: Series) -> Table:
    """Hours that are unlike the others of their address."""
    table = Table(
        "anomalies",
        "Anomalies",
        f"Hours more than {SCORE:g} robust standard deviations (median, MAD) from the median of their address. The "
        "first and the last hour are left out.",
        columns(hour=TIME, address=TEXT, phase=COUNT, measure=TEXT, value=NUMBER, median=NUMBER, score=NUMBER),
    )
    rows: list[_Row] = []
    for key, values in series.deliveries.items():
        every = {hour: values.get(hour, 0.0) for hour in series.hours}
        rows += _outstanding(key, "deliveries", every)
    for key, values in series.settle_us.items():
        inside = {hour: values[hour] for hour in series.hours if hour in values}
        rows += _outstanding(key, "settle_mean_us", inside)
    return fill(table, sorted(rows, key=lambda row: (-abs(round(row[6], 6)), str(row[0]), str(row[1:4]))))


def _outstanding(key: Key, measure: str, values: dict[str, float]) -> list[_Row]:
    if len(values) < LEAST_HOURS:
        return []
    numbers = list(values.values())
    middle = median(numbers)
    scored = zip(values.items(), robust_scores(numbers))
    return [
        (hour_start(hour), *key, measure, value, middle, score) for (hour, value), score in scored if abs(score) > SCORE
    ]


def forecast(series: Series) -> Table:
    """What the next day will be like."""
    table = Table(
        "forecast",
        "Forecast",
        f"Deliveries expected in each of the next {FORECAST_HOURS} hours: the median of that hour (of that weekday, "
        "where it was seen twice), with the trend of the days (Theil-Sen) taken out and put back. "
        "For the busiest addresses.",
        columns(hour=TIME, address=TEXT, phase=COUNT, deliveries=NUMBER, trend_per_day=NUMBER, days=COUNT),
    )
    days = _whole_days(series.hours)
    if len(days) < LEAST_DAYS:
        return table
    busiest = sorted(series.deliveries, key=lambda key: (-sum(series.deliveries[key].values()), str(key)))
    rows: list[_Row] = []
    for key in busiest[:FORECAST_ADDRESSES]:
        rows += _foretell(key, series.deliveries[key], days, series.hours[-1])
    return fill(table, rows)


def _whole_days(hours: list[str]) -> list[list[str]]:
    by_day: dict[str, list[str]] = defaultdict(list)
    for hour in hours:
        by_day[hour[:10]].append(hour)
    return [day for day in by_day.values() if len(day) == 24]


def _foretell(key: Key, values: dict[str, float], days: list[list[str]], last: str) -> list[_Row]:
    slope = theil_sen([sum(values.get(hour, 0.0) for hour in day) for day in days])
    step = slope / 24 / 24
    origin = hour_start(days[0][0])
    by_hour: dict[int, list[float]] = defaultdict(list)
    by_weekday: dict[tuple[int, int], list[float]] = defaultdict(list)
    for hour in (hour for day in days for hour in day):
        moment = hour_start(hour)
        level = values.get(hour, 0.0) - step * ((moment - origin) / timedelta(hours=1))
        by_hour[moment.hour].append(level)
        by_weekday[moment.weekday(), moment.hour].append(level)
    rows: list[_Row] = []
    for ahead in range(2, FORECAST_HOURS + 2):  # the hour behind `last` has begun already
        moment = hour_start(last) + timedelta(hours=ahead)
        alike = by_weekday[moment.weekday(), moment.hour]
        level = median(alike if len(alike) > 1 else by_hour[moment.hour])
        expected = max(0.0, level + step * ((moment - origin) / timedelta(hours=1)))
        rows.append((moment, *key, expected, slope, len(days)))
    return rows
