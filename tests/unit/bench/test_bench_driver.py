"""The driver: its figures, its tables, the configuration it writes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import __main__ as bench
from tests.bench import output, versus
from tests.bench.errors import BenchError
from tests.bench.figures import COMPILED, FIGURES, FLOOR, NATS, Results
from tests.bench.routers import RouterSpec, config_text
from waymesh_schema.config import parse_conf

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def results() -> Results:
    results = Results({"cpu": "some", "quick": False})
    for value in (0.3, 0.5, 0.6):
        results.add(COMPILED, {"uns-100": value})
    results.add(FLOOR, {"uns-100": 0.1})
    results.add(NATS, {"uns-100": 0.8})
    results.failures.append("compiled pre-10k: lost 3")
    return results


def test_median_against_target(results: Results) -> None:
    assert results.missed() == ["compiled uns-100: 0.62, target ≤ 0.6 × nats-server"]


def test_json_and_back(results: Results) -> None:
    assert Results.from_json(results.as_json()) == results


def test_table_shows_target_floor_baseline_and_failure(results: Results) -> None:
    baseline = Results({})
    baseline.add(COMPILED, {"uns-100": 0.25})
    console = Console(width=180, file=io.StringIO())
    with console.capture() as captured:
        output.show(results, baseline, console)
    text = captured.get()
    row = next(line for line in text.splitlines() if "uns-100" in line)
    assert [cell.strip() for cell in row.split("│")[3:-1]] == [
        *("0.62", "5.00", "2.00", "≤ 0.6 × nats-server"),
        *("0.30", "0.50", "0.60", "µs/msg", "4.9"),
    ]
    assert "lost 3" in text


def test_page_is_changed_between_its_marks_only(results: Results, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{output.BEGIN}\nold\n{output.END}\nafter\n", encoding="utf-8")
    output.replace_between_marks(page, output.markdown(results))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "0.30 / 0.50 / 0.60 (missed)" in text


def test_page_without_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(BenchError, match="page"):
        output.replace_between_marks(page, "text")


def test_configuration_is_valid() -> None:
    spec = RouterSpec("B", port=20001, mesh_port=20002, connect_to=[(20003, 1), (20004, 10)])
    entries = parse_conf(config_text(spec), "bench.conf")
    kinds = [entry.type.name for entry in entries]
    assert kinds.count("listener") == kinds.count("connector") == 2
    assert sorted(entry.attributes["cost"] for entry in entries if entry.type.name == "connector") == [1, 10]


def test_a_target_without_its_reference_is_not_judged(results: Results) -> None:
    del results.figures[NATS]
    assert results.missed() == []
    assert results.holds(COMPILED, FIGURES["uns-100"]) is None


def test_turns_give_ratios_pair_by_pair() -> None:
    found = versus.Turns(COMPILED, {"uns-100": [(1.0, 2.0), (3.0, 4.0), (1.0, 4.0), (1.0, 0.0)]})
    console = Console(width=150, file=io.StringIO())
    with console.capture() as captured:
        versus.show(found, Path("before"), console)
    assert "0.50" in captured.get()
    assert "0.25 … 0.75" in captured.get()


def test_turns_need_a_checkout_that_is_set_up(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="make setup"):
        versus.router_of(tmp_path)


def test_unknown_scenario() -> None:
    with pytest.raises(BenchError, match="no such scenario: nothing"):
        bench.chosen(["nothing"])


def test_committed_baseline_is_readable() -> None:
    figures = bench.read_results(bench.BASELINE).figures
    assert all(name in FIGURES for values in figures.values() for name in values)
