"""The files of the report: complete, equal in all formats, reproducible."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


class Outline(HTMLParser):
    """What a page is made of: ids, links, rows, the addresses that it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.rows = 0
        self.pictures = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in ("meta", "link", "br", "input"):
            self.open.append(tag)
        if "id" in values and "svg" not in self.open:
            self.ids.append(str(values["id"]))
        if tag == "a" and "svg" not in self.open:
            self.links.append(str(values["href"]))
        if tag in ("script", "img", "link", "iframe"):
            self.loaded.append(values.get("src") or values.get("href") or "")
        self.rows += tag == "tr"
        self.pictures += tag == "svg"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(analyzed: Any, exported: Path) -> Path:
    return exported.parent / "out"


def test_json_and_parquet_say_what_the_tables_say(analyzed: Any, folder: Path, spark: Any) -> None:
    for name, table in analyzed.tables.items():
        from_json = json.loads((folder / f"tables/{name}.json").read_text())
        assert len(from_json) == len(table.rows), name
        if table.rows:
            assert list(from_json[0]) == [column.name for column in table.columns]
    rows = spark.read.parquet(str(folder / "tables/traffic.parquet")).orderBy("address").collect()
    assert [(row["address"], row["deliveries"]) for row in rows] == [("news", 20), ("orders", 80)]


def test_the_summary(analyzed: Any, folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["hours"] == {"first": "2026-01-30T00", "last": "2026-01-30T02"}
    assert [finding["text"] for finding in summary["findings"]] == [finding.text for finding in analyzed.findings]
    stuck = next(finding for finding in summary["findings"] if finding["kind"] == "ConsumersStuck")
    assert (stuck["severity"], stuck["table"]) == ("bad", "links")
    assert stuck["cases"] == ["c2 from orders at router B: 3 deliveries"]
    assert stuck["action"].startswith("Look at what the consumer does")


def test_the_page_is_whole_and_loads_nothing(analyzed: Any, folder: Path) -> None:
    outline = Outline()
    outline.feed((folder / "report.html").read_text())
    assert outline.open == []
    assert outline.loaded == [""], "its own script"
    assert outline.pictures == 5
    shown = [name for name, table in analyzed.tables.items() if table.rows or table.empty]
    assert outline.ids == ["findings", *shown]
    assert {link.removeprefix("#") for link in outline.links} <= set(shown)
    assert outline.rows == sum(len(table.rows) + 1 for table in analyzed.tables.values() if table.rows)


def test_the_page_is_the_same_each_time(analyzed: Any, folder: Path) -> None:
    from waymesh_analytics.report.page import page

    assert page(analyzed) == (folder / "report.html").read_text()


def test_the_head_of_the_page_says_which_mesh_when_and_how_much(analyzed: Any) -> None:
    from datetime import UTC, datetime

    from waymesh_analytics.report import headline
    from waymesh_analytics.report.page import page

    text = page(replace(analyzed, made=datetime(2026, 2, 1, 9, 5, tzinfo=UTC)))
    assert "<h1>Waymesh report: test, 3 routers</h1>" in text
    assert f"<p>{headline.period(analyzed)} · made 2026-02-01 09:05 UTC</p>" in text
    records = analyzed.tables["completeness"].rows
    assert headline.period(analyzed).startswith(f"{min(row.first for row in records):%Y-%m-%d %H:%M} to ")
    sent = sum(row.deliveries for row in analyzed.tables["outcomes"].rows)
    assert headline.totals(analyzed).startswith(f"{sent:,} deliveries to 2 addresses · ")
    assert "p99 " in headline.totals(analyzed)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(42, "2026-02-01 09:05:07 to 09:05:49 UTC"), (7200, "2026-02-01 09:05 to 11:05 UTC")],
)
def test_a_short_period_has_seconds(analyzed: Any, seconds: int, shown: str) -> None:
    from datetime import UTC, datetime, timedelta

    from waymesh_analytics.report import headline

    records = analyzed.tables["completeness"]
    first = datetime(2026, 2, 1, 9, 5, 7, tzinfo=UTC)
    row = replace(records.rows[0], first=first, last=first + timedelta(seconds=seconds))
    tables = analyzed.tables | {"completeness": replace(records, rows=[row])}
    assert headline.period(replace(analyzed, tables=tables)) == shown


def test_times_in_the_head_are_plain_numbers() -> None:
    from waymesh_analytics.report.headline import milliseconds

    assert [milliseconds(us) for us in (12_957_915, 999_960, 51_712, 812.5)] == ["12,958", "1000", "51.71", "0.8125"]


def test_routers_are_those_of_their_mesh_by_their_records_or_their_names(analyzed: Any) -> None:
    from waymesh_analytics.report.headline import meshes

    row = analyzed.tables["routers"].rows[0]
    names = ["orders-0", "orders-10", "edge", "my-mesh-2"]
    assert meshes(replace(row, router=name, mesh=None) for name in names) == ["edge", "my-mesh", "orders"]
    assert meshes(replace(row, router=name, mesh="team/orders") for name in names[:2]) == ["team/orders"]


def test_long_names_of_containers_are_shortened_and_whole_on_demand(analyzed: Any) -> None:
    from waymesh_analytics.report.page import page

    name = "worker-0b6f2f0c-5a7e-4a51-9c5e-1d2f3a4b5c6d"
    talkers = analyzed.tables["talkers"]
    tables = analyzed.tables | {"talkers": replace(talkers, rows=[replace(talkers.rows[0], container=name)])}
    assert f'<td title="{name}">worker-0b6f2f0c-5a…4b5c6d</td>' in page(replace(analyzed, tables=tables))


def test_texts_are_escaped(analyzed: Any) -> None:
    from dataclasses import replace

    from waymesh_analytics.report.findings import Finding
    from waymesh_analytics.report.page import page
    from waymesh_schema.findings import FINDING_KINDS

    hostile = """<script>alert('1')</script><b title="x">"""
    talkers = analyzed.tables["talkers"]
    tables = analyzed.tables | {"talkers": replace(talkers, rows=[replace(talkers.rows[0], container=hostile)])}
    text = page(replace(analyzed, tables=tables, findings=[Finding(FINDING_KINDS["ClientsDenied"], (hostile,))]))
    assert hostile not in text
    assert text.count("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&lt;b title=&#34;x&#34;&gt;") == 2


def test_the_same_input_gives_the_same_report(analyzed: Any, spark: Any, exported: Path, tmp_path: Path) -> None:
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze
    from waymesh_analytics.report.page import page

    again = analyze(spark, Options(str(exported), str(tmp_path / "out")), lambda text: None)
    assert page(replace(again, made=analyzed.made)) == page(analyzed)


def test_a_window_counts_from_its_beginning(spark: Any, exported: Path, tmp_path: Path) -> None:
    from waymesh_analytics.hours import parse_time
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    begin, end = parse_time("2026-01-30T01:00"), parse_time("2026-01-30T02:00")
    options = Options(str(exported), str(tmp_path / "out"), begin, end)
    report = analyze(spark, options, lambda text: None)
    assert report.hours == ["2026-01-30T01"]
    links = {row["link_id"]: row["deliveries"] for row in report.tables["links"].dicts()}
    assert links == {7: 10, 8: 10, 2: 20}
    assert sum(row["samples"] for row in report.tables["traffic"].dicts()) == 20
    ingress = {row["router"]: row["ingress"] for row in report.tables["routers"].dicts()}
    assert ingress == {"A": 60, "B": None, "C": None}


def test_the_terminal(analyzed: Any) -> None:
    from rich.console import Console

    from waymesh_analytics.report.terminal import show

    console = Console(width=220, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(analyzed, console)
    text = console.export_text()
    assert "test, 3 routers, 2026-01-30 00:" in text
    assert " · findings: " in text
    for finding in analyzed.findings:
        assert finding.text in text
        assert finding.kind.action in text


def test_a_report_without_records_says_when_there_are_some(analyzed: Any) -> None:
    """The first run comes before the routers' first file."""
    from rich.console import Console

    from waymesh_analytics.report.page import page
    from waymesh_analytics.report.report import NO_RECORDS
    from waymesh_analytics.report.terminal import show

    empty = replace(analyzed, hours=[], findings=[])
    console = Console(width=400)
    with console.capture() as captured:
        show(empty, console)
    assert NO_RECORDS in captured.get()
    assert f"<p>{NO_RECORDS}</p>" in page(empty)
