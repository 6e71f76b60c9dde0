"""Findings from made-up tables: each kind, its sentence and what to do."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from waymesh_schema.findings import FINDING_KINDS, Severity

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent]
NAMES = (
    *("completeness", "files", "mesh_links", "links", "autolinks", "routers", "denials"),
    *("outcomes", "balance", "hops", "anomalies", "last_week"),
)


def row(kind: type[Any], /, **values: object) -> Any:
    """A row whose other columns are empty."""
    return kind(**dict.fromkeys([field.name for field in fields(kind)]) | values)


def tables(**rows: list[Any]) -> Any:
    """Tables with these rows; the others are empty."""
    from waymesh_analytics.report.tables.table import Table

    return {name: Table(name, "", "", (), rows.get(name, [])) for name in NAMES}


def texts(**rows: list[Any]) -> dict[str, str]:
    """The sentences by kind."""
    from waymesh_analytics.report.findings import find

    return {finding.kind.name: finding.text for finding in find(tables(**rows))}


def test_nothing_is_found_in_empty_tables() -> None:
    assert texts() == {}


def test_missing_records_and_damaged_files() -> None:
    from waymesh_analytics.report.tables.completeness import KindFiles, KindRecords

    lost = row(KindRecords, kind="link", router="A", boot=1, records=5, lost=1200, dropped=0, clock_ms=5000)
    files = row(KindFiles, kind="event", hours=1, files=2, records=9, corrupt=1, short=2)
    assert texts(completeness=[lost], files=[files]) == {
        "RecordsMissing": "Telemetry records are missing: 1,200 records of kind link from router A",
        "LinesCorrupt": "Exported files contain lines that are not records: 1 line of kind event",
        "FilesTruncated": "Exported files are shorter than their names say: 2 files of kind event",
        "ClocksChanged": "Wall clocks of routers changed: A by 5,000 ms",
    }


def test_names_that_clients_chose_do_not_reach_the_terminal_as_commands() -> None:
    from io import StringIO
    from types import SimpleNamespace

    from rich.console import Console

    from waymesh_analytics.report.findings import find
    from waymesh_analytics.report.tables.events import Event
    from waymesh_analytics.report.tables.table import Table
    from waymesh_analytics.report.terminal import show

    name = "\x1b[2Jx\n     bad forged"
    found = find(tables(denials=[row(Event, object=name, router="A", count=2)]))
    empty = tables()
    empty |= {each: Table(each, "", "", (), []) for each in ("traffic", "latency")}
    console = Console(file=StringIO(), width=200)
    report: Any = SimpleNamespace(hours=[], tables=empty, findings=found)
    show(report, console)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert r"\x1b[2Jx\n     bad forged" in text
    assert "\x1b" not in text


def test_nor_do_those_in_the_result_of_a_query() -> None:
    from io import StringIO

    import pyarrow as pa
    from rich.console import Console

    from waymesh_analytics.query.output import show

    console = Console(file=StringIO(), width=200)
    show(pa.table({"container": ["\x1b]0;x\x07\nforged"]}), console)
    assert isinstance(console.file, StringIO)
    assert r"\x1b]0;x\x07\nforged" in console.file.getvalue()


def test_links_autolinks_routers_and_denials() -> None:
    from waymesh_analytics.report.tables.events import Event
    from waymesh_analytics.report.tables.mesh import MeshLink
    from waymesh_analytics.report.tables.objects import AutoLink, Link, Router

    links = [
        row(Link, state="stuck", router="B", container="c", dir="out", address="orders", stuck=1),
        row(Link, state="stuck", router="A", container="p", dir="in", address="orders", stuck=7),
        row(Link, state="starved", router="B", container="s", dir="out", address="news", zero_credit_s=3600),
        row(Link, state="", router="B", container="fine", dir="out", address="news"),
    ]
    autolinks = [
        row(AutoLink, state="flapping", router="A", name="one", downs=4),
        row(AutoLink, state="down", router="A", name="two", last_state="failed", last_error="no such queue"),
    ]
    denied = row(Event, event="link.refused", router="A", object="eve", count=1)
    mesh = [MeshLink("A", "B", 1, 5, 5, 0, 3), MeshLink("B", "C", 1, 5, 5, 2, 0)]
    boots = [row(Router, router="C", boot=boot) for boot in (1, 2, 3)]
    assert texts(links=links, mesh_links=mesh, autolinks=autolinks, denials=[denied], routers=boots) == {
        "ConsumersStuck": "Consumers leave deliveries unsettled for more than 10 s: "
        "c from orders at router B: 1 delivery",
        "ConsumersStarved": "Consumers give no credit while deliveries wait: "
        "s from news at router B: no credit for 3,600 s",
        "AutoLinksFlapping": "Autolinks keep losing their container: one at router A: lost 4 times",
        "MeshLinksLost": "Links between routers broke: A – B: 3 times",
        "AutoLinksDown": "Autolinks are down: two at router A: no such queue",
        "SendersWaiting": "Senders wait for outcomes for more than 10 s: p to orders at router A: 7 deliveries",
        "RoutersRestarted": "Routers restarted: C 2 times",
        "ClientsDenied": "Routers refused clients: eve at router A: once",
    }


def test_traffic_with_figures_and_units() -> None:
    from waymesh_analytics.report.tables.deliveries import Balance, HopInflation, Outcomes
    from waymesh_analytics.report.tables.history import Anomaly

    failed = row(Outcomes, address="orders", samples=100, deliveries=4000, failed_share=0.125)
    uneven = row(Balance, address="orders", deliveries=4000, consumers=4, consumers_jain=0.25)
    longer = row(HopInflation, ingress="A", egress="C", deliveries=200, longer_share=0.5)
    hour = {"hour": datetime(2026, 1, 30, 7, tzinfo=UTC), "address": "orders"}
    unusual = [
        row(Anomaly, measure="settle_mean_us", value=90_000.0, median=1500.0, **hour),
        row(Anomaly, measure="deliveries", value=5.0, median=4000.0, **hour),
    ]
    assert texts(outcomes=[failed], balance=[uneven], hops=[longer], anomalies=unusual) == {
        "DeliveriesFailed": "Consumers did not accept deliveries: orders: 12.5% of 4,000 deliveries",
        "PathsLonger": "Deliveries took longer paths than the cheapest: A to C: 50.0% of 200 deliveries",
        "DistributionUneven": "Deliveries are distributed unevenly: orders: Jain's index 0.25 over 4 consumers",
        "HoursUnusual": "Hours differ from what is usual: "
        "orders at 2026-01-30 07:00 UTC: settled after 90.0 ms on average, usually 1.5 ms; "
        "orders at 2026-01-30 07:00 UTC: 5 deliveries, usually 4,000",
    }


def test_many_cases_are_counted_and_not_all_listed() -> None:
    from waymesh_analytics.report.findings import Finding

    finding = Finding(FINDING_KINDS["RoutersRestarted"], tuple(f"R{number} once" for number in range(8)))
    assert finding.text.endswith("R4 once and 3 more")


def test_the_list_says_of_each_kind_what_to_do() -> None:
    order = list(Severity)
    kinds = list(FINDING_KINDS.values())
    assert kinds == sorted(kinds, key=lambda kind: order.index(kind.severity)), "the worst first"
    assert len({kind.title for kind in kinds}) == len(kinds)
    for name, kind in FINDING_KINDS.items():
        assert name.isalpha(), "the reason of an Event is one word"
        assert name[0].isupper()
        assert kind.action.endswith("."), name
        assert not kind.title.endswith("."), name
