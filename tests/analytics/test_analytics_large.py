"""Hours with many records of one router, and meshes with more containers than a report can name."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.export import RouterExport
from tests.analytics.test_analytics_store import Store
from waymesh_schema.telemetry import parse_path

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


@pytest.fixture
def store(spark: Any, tmp_path: Path) -> Store:
    return Store(spark, tmp_path)


def split(export: Path, to: Path) -> int:
    """The same export with up to three files for each; returns how many files there are."""
    count = 0
    for path in export.rglob("*.gz"):
        name = parse_path(str(path))
        assert name is not None
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        size = -(-len(lines) // 3)
        for at in range(0, len(lines), size):
            own = lines[at : at + size]
            part = to / replace(name, first=name.first + at, count=len(own)).path
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(gzip.compress(b"".join(own), 1, mtime=0))
            count += 1
    return count


def test_the_report_is_the_same_if_each_file_is_a_task(
    spark: Any, analyzed: Any, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hour of one router may be more than a task can hold."""
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze
    from waymesh_analytics.rollups import compaction

    monkeypatch.setattr(compaction, "SHARD_BYTES", 1)
    files = split(exported, tmp_path / "export")
    report = analyze(spark, Options(str(tmp_path / "export"), str(tmp_path / "out")), lambda text: None)
    assert len(list((tmp_path / "out/store/curated").rglob("*.parquet"))) == files
    for name, table in analyzed.tables.items():
        if name != "files":
            assert report.tables[name].dicts() == table.dicts(), name
    assert report.findings == analyzed.findings
    assert report.series == analyzed.series


def crowd(root: Path, clients: int) -> None:
    """Client n sends n deliveries, which one consumer takes, and connects once; the first connection failed."""
    export = RouterExport(root, "A")
    sid = 0
    for number in range(1, clients + 1):
        base = {"address": "q", "phase": 0, "ingress": "A", "outcome": "accepted", "size": 10, "weight": 2.0}
        for _ in range(number):
            sid += 1
            export.put("delivery", sid, sid=sid, half="in", hops=0, producer=f"p{number:02d}", **base)
            export.put("delivery", sid, sid=sid, half="out", egress="A", hops=0, consumer="c", **base)
        each = {"container": f"p{number:02d}", "host": f"h{number}", "dir": "in", "user": f"u{number}"}
        export.put("connection", number, event="open", **each)
        error = "amqp:decode-error" if number == 1 else None
        export.put("connection", number, event="close", error=error, **each)
        counters = {"type": "endpoint", "deliveries": number, "zero_credit_s": number, "phase": 0}
        names = {"link_id": number, "container": f"p{number:02d}", "name": f"l{number}", "dir": "in", "address": "q"}
        export.put("link", number, event="interval", **names, **counters)
    export.write()


def tables(store: Store) -> dict[str, list[dict[str, Any]]]:
    """What clients decide the number of rows of."""
    from waymesh_analytics.report.tables import deliveries, objects
    from waymesh_analytics.report.tables.table import Table

    rollups = store.rollups()
    talkers = deliveries.talkers(rollups)
    made: list[Table[Any]] = [talkers, deliveries.balance(talkers, deliveries.traffic(rollups)), objects.links(rollups)]
    return {table.name: table.dicts() for table in [*made, objects.connections(rollups)]}


@pytest.mark.parametrize("where", ["rollup", "report"])
def test_containers_with_little_traffic_are_one_row(
    store: Store, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    from waymesh_analytics.rollups import definitions, reader

    crowd(store.export, 9)
    if where == "rollup":
        monkeypatch.setattr(definitions, "MOST_CONTAINERS", 4)
    else:
        monkeypatch.setattr(reader, "MOST_ROWS", 4)
        monkeypatch.setattr("waymesh_analytics.report.tables.rows.MOST_ROWS", 4)
    store.advance()
    found = tables(store)
    sent = [(row["container"], row["deliveries"]) for row in found["talkers"] if row["side"] == "in"]
    assert sum(count for _, count in sent) == 90, "nothing is left out of the sum"
    named = dict(sent)
    assert named["p09"] == 18
    assert named["(others)"] == 42, "of p01 to p06: the consumer is one of the four"
    assert "p01" not in named
    assert [(row["consumers"], row["deliveries"]) for row in found["balance"]] == [(1, 90)]
    links = found["connections"]
    assert sum(row["opened"] for row in links) == 9
    assert [row["container"] for row in links if row["failed"]] == ["p01"], "what failed has a row of its own"
    others = [(row["host"], row["user"], row["opened"]) for row in links if row["container"] == "(others)"]
    assert others == [(None, None, 5)]
    if where == "report":
        assert [row["name"] for row in found["links"]] == ["l9", "l8", "l7", "l6"]
