"""Every number of the report equals the export; exactly the known faults are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.analytics import world

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
Rows = Callable[..., list[dict[str, Any]]]


def one(found: list[dict[str, Any]], **expected: object) -> None:
    assert len(found) == 1, found
    assert {name: found[0][name] for name in expected} == expected


def test_traffic_matrix(rows: Rows) -> None:
    orders, news = rows("traffic")
    one([orders], address="orders", phase=0, ingress="A", egress="B", samples=40, deliveries=80, bytes=8000)
    one([orders], mean_hops=1.0, queue_mean_us=19.5, queue_max_us=39)
    one([news], address="news", ingress="A", egress="C", samples=20, deliveries=20, bytes=200, mean_hops=1.25)


def test_latency_percentiles(rows: Rows) -> None:
    found = rows("latency", address="orders")
    one(found, samples=40, deliveries=80, mean_us=20_500.0, max_us=40_000)
    for name, number in {"p50_us": 20, "p90_us": 36, "p95_us": 38, "p99_us": 40, "p999_us": 40}.items():
        assert found[0][name] == pytest.approx(1000 * number, rel=0.016)


def test_presettled_deliveries_have_no_settlement(rows: Rows) -> None:
    one(rows("latency", address="news"), samples=19, p50_us=64.0, max_us=64)


def test_outcomes(rows: Rows) -> None:
    one(rows("outcomes", address="orders"), deliveries=80, accepted=80, rejected=0, failed_share=0.0)
    one(rows("outcomes", address="news"), accepted=15, rejected=2, released=1, modified=1, presettled=1, dropped=0)
    one(rows("outcomes", address="news"), failed_share=0.2, lost=0, settled=0)


def test_hop_inflation(rows: Rows) -> None:
    one(rows("hops", egress="B"), deliveries=80, mean_hops=1.0, cheapest_hops=1, inflation=1.0, longer=0)
    one(rows("hops", egress="C"), deliveries=20, mean_hops=1.25, inflation=1.25, longer=5, longer_share=0.25)


def test_talkers(rows: Rows) -> None:
    got = {(row["side"], row["container"]): (row["deliveries"], row["bytes"]) for row in rows("talkers")}
    consumers = {("out", "c1"): (60, 6000), ("out", "c2"): (20, 2000), ("out", "c3"): (20, 200)}
    assert got == {("in", "p1"): (80, 8000), ("in", "p2"): (20, 200), **consumers}


def test_balance(rows: Rows) -> None:
    one(rows("balance", address="orders"), consumers=2, consumers_jain=0.8, routers=1, routers_jain=1.0)
    one(rows("balance", address="news"), consumers=1, consumers_jain=1.0)


def test_links(rows: Rows) -> None:
    one(rows("links", link_id=7), state="", router="B", deliveries=30, accepted=30)
    one(rows("links", state="stuck"), link_id=8, stuck=3, unsettled=3, deliveries=10)
    one(rows("links", state="starved"), link_id=9, container="slow", zero_credit_s=400, undelivered=12)
    one(rows("links", link_id=10), state="", zero_credit_s=1100)
    one(rows("links", link_id=2), deliveries=20)
    assert not rows("links", link_id=3), "links between routers are no clients'"


def test_links_between_routers(rows: Rows) -> None:
    one(rows("mesh_links", neighbour="B"), router="A", cost=1, forth=80, back=0, dropped=2, broken=0)
    one(rows("mesh_links", router="A", neighbour="C"), cost=1, forth=0, back=0, broken=0)
    one(rows("mesh_links", router="B"), neighbour="C", broken=1)


def test_autolinks(rows: Rows) -> None:
    one(rows("autolinks", state="flapping"), name="flappy", router="A", ups=5, downs=4, failures=4)
    one(rows("autolinks", name="flappy"), last_state="active", last_error="amqp:resource-deleted: gone")
    one(rows("autolinks", name="steady"), state="", ups=1, downs=0, failures=0)
    one(rows("autolinks", state="down"), name="dead", last_error="no such queue")
    one(rows("linkroutes"), name="route", pattern="q.#", downs=1, last_state="inactive")


def test_convergence(rows: Rows) -> None:
    got = [(row["routers"], row["changes"], row["duration_ms"], row["slowest_ms"]) for row in rows("convergence")]
    assert got == [(3, 4, 150.0, 152.0), (2, 2, 70.0, 72.0), (3, 3, 40.0, 42.0)]
    one(rows("convergence", changes=2), first_router="B", last_router="A")


def test_denials_and_events(rows: Rows) -> None:
    one(rows("denials", event="policy.denied"), router="A", object="eve", count=3)
    one(rows("denials", event="link.refused"), router="B", count=2)
    one(rows("events", event="log.warning"), event="log.warning", count=1, detail='{"text":"careful"}')


def test_counters_of_routers_and_addresses(rows: Rows) -> None:
    one(rows("routers", router="A"), ingress=180, cpu_us=3000, connections=2)
    assert len(rows("routers", router="C")) == 2
    one(rows("addresses"), address="orders", distribution="balanced", ingress=80, pending=4, subscribers=2)


def test_connections(rows: Rows) -> None:
    one(rows("connections"), container="p1", opened=2, closed=1, failed=1, error="amqp:connection:forced: bye")


def test_completeness(rows: Rows) -> None:
    lost = {(row["router"], row["kind"]): row["lost"] for row in rows("completeness") if row["lost"]}
    assert lost == {("A", "link"): world.LOST_LINKS, ("B", "delivery"): world.LOST_DELIVERIES}
    one(rows("completeness", router="A", kind="link"), dropped=3, records=5)
    moved = {(row["router"], row["kind"]): row["clock_ms"] for row in rows("completeness") if row["clock_ms"]}
    assert moved == {("C", "router"): world.JUMP_MS}


def test_gaps_are_the_numbers_that_are_missing(rows: Rows) -> None:
    b, a = rows("gaps")
    one([b], kind="delivery", router="B", first=41, last=45, lost=5)
    one([a], kind="link", router="A", first=2, last=4, lost=3)


def test_files(rows: Rows) -> None:
    one(rows("files", kind="delivery"), hours=3, files=12, records=120, corrupt=0, short=0)
    assert not rows("odd_files")


def test_series(analyzed: Any) -> None:
    series = analyzed.series
    assert series.hours == ["2026-01-30T01"]
    assert sum(series.deliveries["orders", 0].values()) == 80
    assert series.deliveries["orders", 0]["2026-01-30T00"] == 28
    assert not analyzed.tables["anomalies"].rows
    assert not analyzed.tables["forecast"].rows


def test_findings_name_each_fault_once(analyzed: Any) -> None:
    texts = [finding.text for finding in analyzed.findings]
    assert texts == [
        "Telemetry records are missing: 5 records of kind delivery from router B; 3 records of kind link from router A",
        "Consumers leave deliveries unsettled for more than 10 s: c2 from orders at router B: 3 deliveries",
        "Consumers give no credit while deliveries wait: slow from news at router C: no credit for 400 s",
        "Autolinks keep losing their container: flappy at router A: lost 4 times",
        "Links between routers broke: B – C: once",
        "Autolinks are down: dead at router B: no such queue",
        "Routers restarted: C once",
        "Routers refused clients: eve at router A: 3 times; link-7 at router B: 2 times",
        "Wall clocks of routers changed: C by 5,000 ms",
    ]
    assert analyzed.incomplete
