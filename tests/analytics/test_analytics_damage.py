"""Damaged files in the store end no run: they are set aside, and their hours are processed again."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.analytics import world
from tests.analytics.test_analytics_store import deliveries

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scramble(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(file.stat().st_size))


def scramble_the_middle(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[8:200] = random.Random(1).randbytes(192)
    file.write_bytes(content)


def scramble_the_footer(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-80:-8] = random.Random(1).randbytes(72)
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def other_types(file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = pq.read_table(file)
    columns = {name: pa.array(["x"] * len(found)) for name in found.column_names if name != "hour"}
    pq.write_table(pa.table({"hour": found["hour"], **columns}), file)


def other_columns(file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"odd": [1, 2, 3]}), file)


def remove(file: Path) -> None:
    file.unlink()


DAMAGES = (
    truncate, scramble, scramble_the_middle, scramble_the_footer, empty, other_types, other_columns, remove,
)  # fmt: skip


def run(spark: Any, export: Path, out: Path, **options: Any) -> tuple[Any, list[str]]:
    """The report, and what was said."""
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    said: list[str] = []
    return analyze(spark, Options(str(export), str(out), **options), said.append), said


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("rollup", ["audit", "flow"])
def test_a_damaged_rollup_is_made_again(
    spark: Any, tmp_path: Path, damage: Callable[[Path], None], rollup: str
) -> None:
    export, out = tmp_path / "export", tmp_path / "out"
    world.build(export)
    before, _ = run(spark, export, out)
    tables = {name: table.dicts() for name, table in before.tables.items()}
    file = sorted((out / "store/rollups" / rollup).rglob("*.parquet"))[0]
    damage(file)
    after, said = run(spark, export, out)
    assert {name: table.dicts() for name, table in after.tables.items()} == tables
    (warning,) = (line for line in said if "is damaged" in line)
    assert str(file) in warning
    assert "\n" not in warning
    kept = list((out / "store/quarantine/rollups").rglob("*.parquet"))
    assert len(kept) == (damage is not remove)
    _, said = run(spark, export, out)
    assert not any("damaged" in line for line in said)


def test_a_damaged_rollup_before_the_window_is_made_again(spark: Any, tmp_path: Path) -> None:
    """Counters of the window begin at their last values before it."""
    export, out, begin = tmp_path / "export", tmp_path / "out", datetime(2026, 1, 30, 1, tzinfo=UTC)
    world.build(export)
    before, _ = run(spark, export, out, begin=begin)
    file = next(path for path in (out / "store/rollups/links").rglob("*.parquet") if "T00" in str(path))
    truncate(file)
    after, said = run(spark, export, out, begin=begin)
    assert len([line for line in said if "is damaged" in line]) == 1
    assert after.tables["links"].dicts() == before.tables["links"].dicts()


def test_a_damaged_rollup_of_an_hour_without_exported_files_costs_this_alone(spark: Any, tmp_path: Path) -> None:
    export, out = tmp_path / "export", tmp_path / "out"
    first, _ = deliveries(export)
    run(spark, export, out)
    first.unlink()
    file = next(path for path in (out / "store/rollups/flow").rglob("*.parquet") if "T00" in str(path))
    truncate(file)
    report, said = run(spark, export, out)
    assert report.hours == ["2026-01-30T00", "2026-01-30T01"]
    assert any("processed again from its exported files, if they still exist" in line for line in said)


def test_an_error_without_a_damaged_file_is_raised(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics import pipeline

    def fail(*arguments: object) -> None:
        raise ZeroDivisionError

    deliveries(tmp_path / "export")
    monkeypatch.setattr(pipeline, "build_report", fail)
    with pytest.raises(ZeroDivisionError):
        run(spark, tmp_path / "export", tmp_path / "out")
