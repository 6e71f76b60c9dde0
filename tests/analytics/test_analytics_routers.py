"""Real routers under a known workload: the report has all messages and exactly the known faults."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.analytics import mesh
from tests.analytics.mesh import CREDIT, KEPT, MATRIX, SLOW, STUCK, WAITING, Flow

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
Table = Callable[[str], list[dict[str, Any]]]
FAULTS = (
    Flow(STUCK, "A", "B", KEPT, to="keeper-B"),
    Flow(SLOW, "A", "B", CREDIT + WAITING, to="miser-B"),
)
SENT = (*MATRIX, *FAULTS)
EXAMPLE = Path(__file__).parents[2] / "examples/telemetry"
FINDINGS = 7
HOPS = {"AB": 1, "AC": 2, "BC": 1, "CB": 1, "CA": 2, "BB": 0}


def total(flows: Iterable[Flow], *names: str) -> dict[tuple[str, ...], int]:
    """Messages by the values of these attributes."""
    sums: Counter[tuple[str, ...]] = Counter()
    for flow in flows:
        sums[tuple(getattr(flow, name) for name in names)] += flow.count
    return dict(sums)


@pytest.fixture(scope="module")
def report(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    folder = tmp_path_factory.mktemp("mesh")
    mesh.run(folder / "routers", folder / "spool")
    return analyze(spark, Options(str(folder / "spool"), str(folder / "out")), lambda text: None)


@pytest.fixture
def table(report: Any) -> Table:
    return lambda name: list(report.tables[name].dicts())


def test_the_traffic_matrix_is_what_was_sent(table: Table) -> None:
    rows = table("traffic")
    keys = ("address", "ingress", "egress")
    assert {tuple(row[key] for key in keys): row["deliveries"] for row in rows} == total(SENT, *keys)
    assert all(row["samples"] == row["deliveries"] for row in rows)
    assert all(row["mean_hops"] == HOPS[row["ingress"] + row["egress"]] for row in rows)


def test_outcomes_are_those_that_were_given(table: Table) -> None:
    expected: dict[str, Counter[str]] = {flow.address: Counter() for flow in SENT}
    for flow in SENT:
        ends = {"accepted": flow.accepted, "rejected": flow.rejected, "released": flow.released}
        ends |= {"modified": flow.modified, "presettled": flow.count if flow.presettled else 0}
        expected[flow.address].update(ends)
    found = {row["address"]: {end: row[end] for end in expected[row["address"]]} for row in table("outcomes")}
    assert found == expected


def test_who_sent_and_who_received(table: Table) -> None:
    rows = table("talkers")
    for side, who in (("in", "producer"), ("out", "consumer")):
        found = {(row["address"], row["container"]): row["deliveries"] for row in rows if row["side"] == side}
        assert found == total(SENT, "address", who)
    octets = {side: sum(row["bytes"] for row in rows if row["side"] == side) for side in ("in", "out")}
    assert octets["in"] == octets["out"] > 0


def test_counters_without_sampling_say_the_same(table: Table) -> None:
    """Of addresses that came and went, of links, of routers."""
    found = {row["address"]: (row["ingress"], row["egress"]) for row in table("addresses")}
    assert {name: found[name] for name, in total(SENT, "address")} == {
        name: (count, count) for (name,), count in total(SENT, "address").items()
    }
    links: Counter[tuple[str, str]] = Counter()
    for row in table("links"):
        if re.match("consumer|keeper|miser", row["container"]):
            links[row["address"], row["container"]] += row["deliveries"]
    assert links == Counter(total(SENT, "address", "consumer"))
    latest = {row["router"]: row for row in table("routers")}
    assert latest["A"]["rejected"] == sum(flow.rejected for flow in MATRIX if flow.ingress == "A")
    assert latest["A"]["released"] == sum(flow.released for flow in MATRIX if flow.ingress == "A")


def test_ways_were_the_cheapest(table: Table) -> None:
    assert {row["ingress"] + row["egress"]: row["cheapest_hops"] for row in table("hops")} == {
        way: hops for way, hops in HOPS.items() if hops
    }
    assert not any(row["longer"] for row in table("hops"))


def test_times_are_those_of_the_faults(table: Table) -> None:
    times = {row["address"]: row for row in table("latency")}
    assert times[STUCK]["p50_us"] > 10_000_000
    assert times[SLOW]["max_us"] > 10_000_000
    assert all(row["max_us"] < 10_000_000 for name, row in times.items() if name not in (STUCK, SLOW))


def test_nothing_is_missing(table: Table, report: Any) -> None:
    assert not report.incomplete
    assert not any(row["lost"] or row["dropped"] for row in table("completeness"))
    assert {row["router"] for row in table("completeness")} == {"A", "B", "C"}
    assert not table("odd_files")


def test_the_mesh_was_built_lost_c_and_had_it_again(table: Table) -> None:
    """It came together once, and again; in between two of three noticed a loss."""
    rows = table("convergence")
    assert {row["routers"] for row in rows} <= {2, 3}
    assert all(row["duration_ms"] < 10_000 for row in rows)
    assert [row["router"] for row in table("routers")] == ["A", "B", "C", "C"]


def test_each_fault_is_found_and_none_is_invented(report: Any, table: Table) -> None:
    (flapping,) = table("autolinks")
    assert (flapping["state"], flapping["downs"], flapping["ups"]) == ("flapping", mesh.LOST, mesh.LOST + 1)
    assert len(report.findings) == FINDINGS
    texts = [re.sub(r"\d\d+ s$", "N s", finding.text) for finding in report.findings]
    assert texts == [
        "Consumers leave deliveries unsettled for more than 10 s: "
        f"keeper-B from {STUCK} at router B: {KEPT} deliveries",
        f"Consumers give no credit while deliveries wait: miser-B from {SLOW} at router B: no credit for N s",
        f"Autolinks keep losing their container: {mesh.FLAPPING} at router A: lost {mesh.LOST} times",
        "Links between routers broke: B – C: once",
        f"Senders wait for outcomes for more than 10 s: producer-A to {SLOW} at router A: {WAITING} deliveries; "
        f"producer-A to {STUCK} at router A: {KEPT} deliveries",
        "Routers restarted: C once",
        f"Routers refused clients: producer-A-{mesh.CLOSED} at router A: once",
    ]


def test_the_example_by_the_command(tmp_path: Path) -> None:
    """What `python -m tests.analytics.mesh examples/telemetry` has left there, by the command and as a stream."""
    words = [sys.executable, "-m", "waymesh_analytics", str(EXAMPLE), "--out", str(tmp_path), "--streaming", "--strict"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    assert "Traffic matrix" in done.stdout
    assert "analyze: report: " in done.stderr
    rows = json.loads((tmp_path / "tables/traffic.json").read_text())
    keys = ("address", "ingress", "egress")
    assert {tuple(row[key] for key in keys): row["deliveries"] for row in rows} == total(SENT, *keys)
    findings = json.loads((tmp_path / "summary.json").read_text())["findings"]
    assert len(findings) == FINDINGS
    assert sum(path.stat().st_size for path in EXAMPLE.rglob("*.ndjson.gz")) < 300_000
