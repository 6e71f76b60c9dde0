"""The driver: its figures, its tables, the configuration it writes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import __main__ as bench
from tests.bench import output, versus
from tests.bench.crowds import Ground
from tests.bench.errors import BenchError
from tests.bench.figures import COMPILED, FIGURES, FLOOR, NATS, PEER, Results
from tests.bench.routers import Launcher, RouterSpec, config_text
from tests.bench.scenarios import Bench
from tests.bench.tools import Tools
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


@pytest.fixture
def scenario_bench() -> Bench:
    launcher = Launcher("router -c {config}", {"WAYMESH_ENGINE": COMPILED}, frozenset({0}))
    return Bench(Tools(Path("loadgen"), Path("floor")), launcher, COMPILED, True, None)


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


def test_a_peer_router_has_a_ratio_and_a_figure(results: Results) -> None:
    results.add(PEER, {"uns-100": 1.0})
    console = Console(width=180, file=io.StringIO())
    with console.capture() as captured:
        output.show(results, Results({}), console)
    row = next(line for line in captured.get().splitlines() if "uns-100" in line)
    assert [cell.strip() for cell in row.split("│")[3:-1]] == [
        *("0.62", "5.00", "0.50", "", "≤ 0.6 × nats-server"),
        *("0.30", "0.50", "0.60", "µs/msg", "1.00", "4.9"),
    ]
    assert results.engines() == [COMPILED]
    head, _, row = [line for line in output.markdown(results).splitlines() if line.startswith("|")][:3]
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert cells["× peer"] == "0.50"
    assert cells["peer"] == "1.00"


def test_what_the_peer_cannot_do_is_a_note(scenario_bench: Bench) -> None:
    def fails(_: Bench) -> Iterator[Mapping[str, float]]:
        raise BenchError("lost 3")

    results = Results({})
    bench.measure(results, PEER, "uns-100", fails, scenario_bench)
    assert (results.failures, results.notes) == ([], ["peer uns-100: lost 3"])
    bench.measure(results, COMPILED, "uns-100", fails, scenario_bench)
    assert results.failures == ["compiled uns-100: lost 3"]


def test_the_peer_is_another_program_alike(scenario_bench: Bench) -> None:
    assert bench.peer_of(scenario_bench, None) is None
    peer = bench.peer_of(scenario_bench, "/opt/other router")
    assert peer
    assert peer.launcher == Launcher("'/opt/other router' -c {config}", {}, scenario_bench.launcher.cores)


def test_the_peer_router_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_ROUTER", "/opt/router")
    assert bench.parser().parse_args([]).peer_router == "/opt/router"
    monkeypatch.setenv("PEER_ROUTER", "")
    assert bench.parser().parse_args([]).peer_router is None


def test_the_quick_form_is_what_messages_pass() -> None:
    quick = {scenario.name for scenario in bench.chosen(None, quick=True)}
    assert {"uns-100", "hops-2-tls", "ws-100", "stream-1gb", "policy-on"} <= quick
    assert not quick & {"telemetry", "floods", "attacks", "turns", "policy-attach"}
    assert [scenario.name for scenario in bench.chosen(["turns"], quick=True)] == ["turns"]
    assert quick < {scenario.name for scenario in bench.chosen(None)}


@pytest.mark.parametrize("megabytes", ["0", "1001"])
def test_the_length_of_the_stream_is_bounded(megabytes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--only", "stream-1gb", "--stream-mb", megabytes]) == 2
    assert "--stream-mb" in capsys.readouterr().err


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


def test_each_flood_has_its_figures(tmp_path: Path) -> None:
    names = Ground(tmp_path, over_tls=False).floods
    assert {f"{what}-{name}" for what in ("kept", "grows") for name in names} <= set(FIGURES)
