"""Files that grow while they are read: what was appended is read by the next run, once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.test_analytics_store import Store, deliveries, two_hours

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


@pytest.fixture
def store(spark: Any, tmp_path: Path) -> Store:
    return Store(spark, tmp_path)


def members(lines: bytes) -> bytes:
    """The lines as a gzip file of two members; the first one ends within a line."""
    middle = len(lines) // 2
    return gzip.compress(lines[:middle]) + gzip.compress(lines[middle:])


@pytest.mark.parametrize("packed", [gzip.compress, members])
def test_what_is_appended_while_a_file_is_read_is_for_the_next_run(store: Store, packed: Any) -> None:
    from waymesh_analytics.rollups.compaction import compact

    first, _ = deliveries(store.export, each=40)
    whole = packed(gzip.decompress(first.read_bytes()))
    begin = whole[: whole.find(b"\x1f\x8b", 2)] if packed is members else whole[: len(whole) // 2]
    first.write_bytes(begin)
    listing = store.listing()
    first.write_bytes(whole)
    with store.write() as opened:
        compact(opened, listing, lambda text: None)
    assert 0 <= store.hours()["2026-01-30T00"].rows < 40
    assert len(store.advance()) == 1
    assert store.flows() == two_hours("A", each=40)
    entry = store.hours()["2026-01-30T00"]
    assert (entry.rows, entry.corrupt, entry.short) == (40, 0, ())
    assert store.advance() == []
