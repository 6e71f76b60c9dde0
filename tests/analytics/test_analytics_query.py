"""`waymesh query`: results, formats, versions of the store, refusals, and the page of its tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.scripts import load_script
from waymesh_analytics import AnalyticsError
from waymesh_analytics.cli import query as command

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
ORDERS = "SELECT address, sum(weight) AS n FROM delivery WHERE half = 'in' GROUP BY address ORDER BY address"
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def out(analyzed: Any, exported: Path) -> Path:
    return exported.parent / "out"


@pytest.fixture(scope="module")
def ask(spark: Any, out: Path) -> Ask:
    from waymesh_analytics.query.run import Query, answer

    def ask(sql: str, as_of: str = "", folder: Path = out) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = answer(spark, Query(sql, str(folder), as_of)).to_pylist()
        return rows

    return ask


@pytest.fixture
def run(spark: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, in the session of the tests."""
    from waymesh_analytics.query import run as module

    monkeypatch.setattr(module, "run_query", lambda query, opened: module.answer(spark, query))
    return lambda *words: command.main([*words, "--report", str(out)])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((folder / "store").rglob("*")) if path.is_file()}


def test_records_and_hourly_sums_agree(ask: Ask) -> None:
    assert ask(ORDERS) == [{"address": "news", "n": 20.0}, {"address": "orders", "n": 80.0}]
    hourly = "SELECT address, sum(deliveries) AS n FROM hourly_flow WHERE half = 'in' GROUP BY ALL ORDER BY ALL"
    assert ask(hourly) == ask(ORDERS)
    joined = "WITH l AS (SELECT DISTINCT router FROM Link) SELECT count(*) AS n FROM l JOIN `router` USING (router)"
    assert ask(joined)[0]["n"] == ask("SELECT count(*) AS n FROM router WHERE router IN ('A', 'B', 'C')")[0]["n"]


def test_every_table_can_be_read(ask: Ask) -> None:
    from waymesh_analytics.query.tables import query_tables

    counts = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS n FROM {name}" for name in query_tables())
    found = {row["name"]: row["n"] for row in ask(counts)}
    assert found.keys() == query_tables().keys()
    assert [name for name, count in found.items() if not count] == []
    for name, table in query_tables().items():
        from pyspark.sql.pandas.types import from_arrow_schema

        assert len(from_arrow_schema(table.schema).fields) == len(table.columns), name


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE delivery", "DELETE FROM delivery", "INSERT INTO link SELECT * FROM link", "SHOW TABLES",
        "CREATE TABLE x AS SELECT 1", "INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1", "CLEAR CACHE",
        "SELECT 1; DROP TABLE delivery", "FROM link INSERT INTO x SELECT *", "REFRESH TABLE link",
        "BEGIN SELECT 1; END", "SET a = b", "CACHE TABLE link", "EXPLAIN SELECT 1",
    ],
)  # fmt: skip
def test_only_queries_are_accepted(ask: Ask, out: Path, sql: str) -> None:
    before = contents(out)
    with pytest.raises(AnalyticsError):
        ask(sql)
    assert contents(out) == before
    assert ask(ORDERS)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
        ("", "PARSE"),
        ("SELECT * FROM nothing", r"no table `nothing`; there are address, autolink, "),
        ("SELECT * FROM parquet.`/etc`", "no table|cannot"),
        ("SELECT nope FROM link", "`nope` cannot be resolved"),
        ("SELECT raise_error('so') FROM link", "so"),
    ],
)
def test_a_wrong_query_is_explained(ask: Ask, sql: str, words: str) -> None:
    with pytest.raises(AnalyticsError, match=words) as raised:
        ask(sql)
    assert "\tat " not in str(raised.value)


def test_a_folder_without_a_store(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(AnalyticsError, match="has no store: run `waymesh analyze PATH --out"):
        ask("SELECT 1", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_formats(run: Callable[..., int], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    import pyarrow.parquet as pq  # of the extra `analytics`: other stages collect this file without it

    assert run(ORDERS) == 0
    assert capsysbinary.readouterr().out.split()[:6] == [b"address", b"n", b"news", b"20", b"orders", b"80"]
    assert run(ORDERS, "--format", "csv") == 0
    assert capsysbinary.readouterr().out == b"address,n\nnews,20.0\norders,80.0\n"
    assert run("SELECT hour, ts, detail, 1 AS a, 2 AS a FROM event", "--out", str(tmp_path / "x.json")) == 0
    assert run("SELECT ts, detail FROM event", "--out", str(tmp_path / "x.csv")) == 0
    assert run(ORDERS, "--out", str(tmp_path / "x.parquet")) == 0
    assert pq.read_table(tmp_path / "x.parquet").to_pylist()[1] == {"address": "orders", "n": 80.0}
    times = [row["ts"] for row in json.loads((tmp_path / "x.json").read_text())]
    rows = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert sorted(times) == sorted(row["ts"] for row in rows)
    assert any(json.loads(row["detail"]) for row in rows if row["detail"])
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "x.csv", "x.parquet"}


def test_exit_codes(run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("SELEC 1") == 1
    assert run(ORDERS, "--out", str(tmp_path / "none/x.csv")) == 1
    assert run(ORDERS, "--conf", "spark.ui") == 1
    for words in (("--format", "parquet"), ("--out", "x.txt"), ("--format", "xml")):
        with pytest.raises(SystemExit) as stop:
            run(ORDERS, *words)
        assert stop.value.code == 2
    assert "waymesh query: " in capsys.readouterr().err


def test_as_of(spark: Any, ask: Ask, exported: Path, tmp_path: Path) -> None:
    """A version has what its commit made valid; the last one of an earlier run is kept."""
    import shutil

    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    export, out, count = tmp_path / "export", tmp_path / "out", "SELECT count(*) AS n FROM delivery"
    shutil.copytree(exported, export)
    later = sorted(export.rglob("kind=delivery/*/hr=02"))[0]
    later.rename(tmp_path / "aside")
    analyze(spark, Options(str(export), str(out)), lambda text: None)
    first = sorted(path.stem for path in (out / "store/manifest").iterdir())[-1]
    until = datetime.fromtimestamp((out / f"store/manifest/{first}.json").stat().st_mtime + 0.001, UTC)
    (before,) = ask(count, folder=out)
    file_of_first = min((out / "store/curated/delivery").rglob("*.parquet"))
    (tmp_path / "aside").rename(later)
    analyze(spark, Options(str(export), str(out)), lambda text: None)
    (after,) = ask(count, folder=out)
    assert after["n"] > before["n"]
    assert ask(count, first, out) == ask(count, until.isoformat(), out) == [before]
    assert ask(count, "2100-01-01", out) == [after]
    for when, words in (("yesterday", "no such version, and not a time"), ("2001-01-01", "no version of this time")):
        with pytest.raises(AnalyticsError, match=f"{words}; it has .*{first}"):
            ask(count, when, out)
    file_of_first.unlink()
    with pytest.raises(AnalyticsError, match="1 files of table delivery were replaced or expired since"):
        ask(count, first, out)


def test_the_page_of_the_tables_is_up_to_date() -> None:
    module = load_script("tools/tables_page.py")
    assert module.PAGE.read_text() == module.page(), "run `python tools/tables_page.py`"
