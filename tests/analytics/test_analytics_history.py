"""Anomalies and forecasts, from generated series."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent]
DAYS = 15


def hours_of_days(count: int) -> list[str]:
    """The hours of so many days from 2026-01-05 on."""
    from waymesh_analytics.hours import add_hours

    return [add_hours("2026-01-05T00", number) for number in range(24 * count)]


def series() -> object:
    """Orders: by day 100 an hour, by night 10, each day 24 more; one hour ten times as much."""
    from waymesh_analytics.report.tables.history import Series

    found = Series(hours_of_days(DAYS))
    for number, hour in enumerate(found.hours):
        found.deliveries["orders", 0][hour] = (100 if 8 <= number % 24 < 18 else 10) + number // 24
        found.settle_us["orders", 0][hour] = 1000.0
    return found


def test_forecast_follows_the_hours_of_the_day_and_the_trend() -> None:
    from waymesh_analytics.report.tables.history import forecast

    rows = forecast(series()).dicts()  # type: ignore[arg-type]
    assert len(rows) == 24
    assert {row["trend_per_day"] for row in rows} == {24.0}
    by_hour = {row["hour"]: row["deliveries"] for row in rows}
    assert by_hour[datetime(2026, 1, 20, 12, tzinfo=UTC)] == pytest.approx(100 + DAYS, abs=1)
    assert by_hour[datetime(2026, 1, 20, 3, tzinfo=UTC)] == pytest.approx(10 + DAYS, abs=1)


def test_no_forecast_of_two_days() -> None:
    from waymesh_analytics.report.tables.history import Series, forecast

    short = Series(hours_of_days(2))
    short.deliveries["orders", 0] = dict.fromkeys(short.hours, 5.0)
    assert forecast(short).rows == []


def test_the_one_unusual_hour_is_found() -> None:
    from waymesh_analytics.report.tables.history import Series, anomalies

    made = Series(hours_of_days(1))
    made.deliveries["orders", 0] = {hour: 100.0 + number % 5 for number, hour in enumerate(made.hours)}
    made.settle_us["orders", 0] = dict.fromkeys(made.hours, 1000.0)
    assert anomalies(made).rows == []
    made.settle_us["orders", 0]["2026-01-05T07"] = 90_000.0
    del made.deliveries["orders", 0]["2026-01-05T09"]
    found = [(row["hour"].hour, row["measure"]) for row in anomalies(made).dicts()]
    assert sorted(found) == [(7, "settle_mean_us"), (9, "deliveries")]
