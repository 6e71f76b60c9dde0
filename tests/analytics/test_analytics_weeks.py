"""Hour by hour, and beside the same hours of last week."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.export import DAY, HOUR_US, RouterExport

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
WEEK = 168
HOURS = (0, 1, 2, WEEK, WEEK + 1, WEEK + 2)
"""Three hours on a Friday and three a week later; one of each three is complete."""
WEIGHT = 10.0


def sent(hour: int) -> tuple[int, int, int]:
    """Samples of an hour, how many of them are released, and the time to settlement of each in microseconds."""
    return (40, 20, 50_000) if hour == WEEK + 1 else (20, 1, 1000)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("weeks")
    router = RouterExport(root, "A")
    for hour in HOURS:
        samples, released, settle_us = sent(hour)
        for number in range(samples):
            outcome = "released" if number < released else "accepted"
            same = {"half": "in", "address": "orders", "phase": 0, "ingress": "A", "hops": 0, "size": 1}
            at = hour * HOUR_US + (number + 1) * 1_000_000
            values = {"outcome": outcome, "settle_us": settle_us, "queue_us": 0, "weight": WEIGHT}
            router.put("delivery", at, sid=hour * 1000 + number, producer="p", **same, **values)
    router.write()
    return root


def analyzed(spark: Any, source: Path, out: Path, begin: int | None = None) -> Any:
    """The report from an hour on."""
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    time = None if begin is None else DAY + timedelta(hours=begin)
    return analyze(spark, Options(str(source), str(out), time), lambda text: None)


def test_an_hour_and_the_same_one_of_last_week(spark: Any, weeks: Path, tmp_path: Path) -> None:
    """The week before is read even if the report begins after it."""
    report = analyzed(spark, weeks, tmp_path, begin=WEEK)
    rows = report.tables["hours"].dicts()
    assert [(row["hour"] - DAY) // timedelta(hours=1) for row in rows] == [WEEK + 2, WEEK + 1, WEEK]
    row = rows[1]
    assert (row["deliveries"], row["week_ago_deliveries"]) == (400, 200)
    assert (row["failed"], row["week_ago_failed"]) == (200, 10)
    assert row["p99_us"] == pytest.approx(50_000, rel=0.016)
    assert row["week_ago_p50_us"] == pytest.approx(1000, rel=0.016)
    (change,) = report.tables["last_week"].dicts()
    assert (change["address"], change["deliveries"], change["week_ago_deliveries"]) == ("orders", 400, 200)
    assert (change["failed_share"], change["week_ago_failed_share"]) == (0.5, 0.05)
    assert change["p99_us"] == pytest.approx(50_000, rel=0.016)
    assert change["week_ago_p99_us"] == pytest.approx(1000, rel=0.016)
    found = {finding.kind.name: finding.text for finding in report.findings}
    assert found["FailuresGrew"] == "More deliveries fail than a week ago: orders: 50.0%, a week before 5.0%"
    assert found["LatencyGrew"].endswith("a week ago: orders: p99 49.7 ms, a week before 1.0 ms")
    page = (tmp_path / "report.html").read_text()
    assert "2026-02-06 01:00 UTC, the latest complete hour" in page
    assert page.count("<svg") == 3, "hours, outcomes and latency"


def test_a_week_that_is_not_there_is_said_plainly(spark: Any, weeks: Path, tmp_path: Path) -> None:
    only = tmp_path / "only"
    for path in weeks.rglob("dt=2026-02-06/**/*.gz"):
        copy = only / path.relative_to(weeks)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    report = analyzed(spark, only, tmp_path / "out")
    assert not report.tables["last_week"].rows
    said = "the store has no records of 2026-01-30 01:00 UTC, a week before 2026-02-06 01:00 UTC."
    assert said in (tmp_path / "out/report.html").read_text()
    assert {row["week_ago_deliveries"] for row in report.tables["hours"].dicts()} == {None}


def measured(hours: list[str], complete: str | None) -> Any:
    from waymesh_analytics.report.tables.hours import Measured

    return Measured(hours, complete, frozenset(), {}, {}, {})


def test_an_hour_without_an_end_is_not_compared() -> None:
    from waymesh_analytics.report.tables.hours import hours, last_week

    table = last_week(measured(["2026-01-30T05"], None))
    assert table.rows == []
    assert "the report has no complete hour" in table.empty
    assert [row.p99_us for row in hours(measured(["2026-01-30T05"], None)).rows] == [None]


def test_findings_of_changes() -> None:
    """Small changes, and those of few deliveries, are none."""
    from tests.analytics.test_analytics_findings import texts
    from waymesh_analytics.report.tables.hours import Change

    def change(address: str, now: int, before: int, p99: tuple[float, float] = (10_000, 10_000)) -> Change:
        return Change(address, 0, now, before, 0.0, 0.0, 1.0, 1.0, *p99)

    same = [change("steady", 1000, 1100), change("rare", 3, 50), change("quick", 500, 500, (900, 300))]
    assert texts(last_week=same) == {}
    news = [change("gone", 0, 12_000), change("new", 5000, 100), change("slow", 500, 500, (90_000, 30_000))]
    assert texts(last_week=news) == {
        "TrafficFell": "Traffic fell since last week: gone: 0 deliveries in the hour, a week before 12,000",
        "TrafficGrew": "Traffic grew since last week: new: 5,000 deliveries in the hour, a week before 100",
        "LatencyGrew": "Deliveries take longer to settle than a week ago: slow: p99 90.0 ms, a week before 30.0 ms",
    }
