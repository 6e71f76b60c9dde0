"""Files that arrive when others of their hour are no longer in the bucket."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.export import HOUR_US
from tests.analytics.test_analytics_store import Store, deliveries

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


@pytest.fixture
def store(spark: Any, tmp_path: Path) -> Store:
    return Store(spark, tmp_path)


@pytest.mark.parametrize("each", [3, 20])
def test_late_files_are_added_to_what_was_made_of_files_that_are_gone(store: Store, each: int) -> None:
    """The hour is neither rebuilt from the files that are left, nor is the late one ignored; twice."""
    first = deliveries(store.export, hours=1)[0]
    deliveries(store.export, "B", hours=1)
    store.advance()
    first.unlink()
    assert store.advance() == []
    for number, late in enumerate(("C", "D")):
        deliveries(store.export, late, hours=1, each=each)
        assert len(store.advance()) == 1
        expected = [("q-A", 5.0), ("q-B", 5.0), ("q-C", float(each)), ("q-D", float(each))][: number + 3]
        assert [flow[1:] for flow in store.flows()] == expected
        entry = store.hours()["2026-01-30T00"]
        assert (entry.rows, entry.files) == (10 + (number + 1) * each, number + 3)
        assert store.advance() == []
    assert store.open().manifest.late == []


def test_late_files_are_listed_where_nothing_is_left_to_add_them_to(store: Store) -> None:
    from waymesh_analytics.options import Retention
    from waymesh_analytics.store.retention import retain

    first = deliveries(store.export, hours=1)[0]
    deliveries(store.export, "ahead", hours=1, boot_us=40 * 24 * HOUR_US)
    store.advance()
    first.unlink()
    with store.write() as opened:
        now = datetime(2026, 3, 12, tzinfo=UTC)
        retain(opened.catalog, store.listing(), Retention(raw=0, curated=1, rollups=0), now, lambda path: None, print)
    deliveries(store.export, "C", hours=1)
    assert store.advance() == []
    assert [path.rpartition("/")[2][:2] for path in store.open().manifest.late] == ["C-"]
    assert ("2026-01-30T00", "q-A", 5.0) in store.flows()
