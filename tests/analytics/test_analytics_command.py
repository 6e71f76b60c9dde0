"""The command: options, error messages, exit codes."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from waymesh_analytics import AnalyticsError, Options, launch
from waymesh_analytics.cli.main import limits, main, parser
from waymesh_analytics.errors import StoreBusy
from waymesh_analytics.hours import Window, parse_time, window
from waymesh_schema.findings import FINDING_KINDS, parse_findings

pytestmark = pytest.mark.engine_independent
WAYMESH = Path(sys.executable).with_name("waymesh")


def test_help_is_that_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    for option in ("--out", "--from", "--to", "--last", "--master", "--streaming", "--keep-raw", "--strict"):
        assert option in said
    assert "--findings-file" in said


def test_waymesh_analyze_passes_words_and_exit_code_on() -> None:
    done = subprocess.run([WAYMESH, "analyze", "--out"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "waymesh analyze" in done.stderr


def test_moments() -> None:
    assert parse_time("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_time("2026-01-31T05:30+02:00") == datetime(2026, 1, 31, 3, 30, tzinfo=UTC)
    with pytest.raises(AnalyticsError, match="not a time"):
        parse_time("yesterday")


def test_a_window_holds_whole_hours() -> None:
    assert window(None, None) == Window()
    begin, end = parse_time("2026-01-31T05:30"), parse_time("2026-01-31T07:00")
    assert window(begin, end) == Window("2026-01-31T05", "2026-01-31T07")
    assert window(begin, parse_time("2026-01-31T07:01")).end == "2026-01-31T08"
    assert [f"2026-01-31T{hour:02d}" in window(begin, end) for hour in range(4, 8)] == [
        False, True, True, False,
    ]  # fmt: skip
    with pytest.raises(AnalyticsError, match="ends before it begins"):
        window(end, begin)


def test_the_last_hours_exclude_a_begin_and_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime(2026, 1, 31, 5, 30, tzinfo=UTC)
    words = ["none", "--out", "out"]
    assert limits(parser().parse_args([*words, "--last", "24"]), now) == (now - timedelta(days=1), None)
    assert limits(parser().parse_args([*words, "--to", "2026-01-31"]), now) == (None, parse_time("2026-01-31"))
    for option in ("--from", "--to"):
        with pytest.raises(AnalyticsError, match="cannot be combined"):
            limits(parser().parse_args([*words, "--last", "24", option, "2026-01-31"]), now)
    for hours in ("0", "-1", "nan", "1e9"):
        with pytest.raises(AnalyticsError, match="expected a number of hours"):
            limits(parser().parse_args([*words, f"--last={hours}"]), now)


@pytest.mark.spark
def test_the_findings_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from waymesh_analytics.report.findings import Finding

    stuck = FINDING_KINDS["ConsumersStuck"]
    report = SimpleNamespace(findings=[Finding(stuck, ("c at router B: 1 delivery", "d at router B: 2 deliveries"))])
    monkeypatch.setattr(launch, "run", lambda *arguments: report)
    file = tmp_path / "termination-log"
    assert main(["none", "--out", "out", "--quiet", "--findings-file", str(file)]) == 0
    (found,) = parse_findings(file.read_text()) or []
    assert (found.kind, found.count) == (stuck, 2)
    assert found.text.endswith("c at router B: 1 delivery; d at router B: 2 deliveries")
    assert main(["none", "--out", "out", "--quiet", "--findings-file", str(tmp_path / "no/file")]) == 1
    assert "cannot write the findings" in capsys.readouterr().err


@pytest.mark.spark
def test_what_can_not_be_done_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:

    def run(*arguments: object) -> None:
        raise AnalyticsError("no such folder: none")

    def busy(*arguments: object) -> None:
        raise StoreBusy("out/store: another run is writing it")

    monkeypatch.setattr(launch, "run", run)
    assert main(["none", "--out", "out"]) == 1
    assert main(["none", "--out", "out", "--conf", "spark.ui"]) == 1
    monkeypatch.setattr(launch, "run", busy)
    assert main(["none", "--out", "out"]) == 4
    *said, last = capsys.readouterr().err.splitlines()
    assert last == "waymesh analyze: out/store: another run is writing it"
    assert said == ["waymesh analyze: no such folder: none", "waymesh analyze: --conf spark.ui: expected NAME=VALUE"]


INTERRUPTED = """
import os, signal
from waymesh_analytics.cli.interrupt import ends_on_interrupt
with ends_on_interrupt("interrupted") as spark_started:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark does
    spark_started()
    os.kill(os.getpid(), signal.SIGINT)
    print("goes on")
"""


def test_ctrl_c_ends_with_one_line_also_when_spark_has_started() -> None:
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_missing_package_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'")

    monkeypatch.setattr(launch, "run", run)
    assert main(["none", "--out", "out"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("waymesh analyze: No module named 'matplotlib'\n")
    assert "make analytics" in said


@pytest.mark.spark
def test_the_job_says_that_it_begins_before_spark_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics.spark import session

    said: list[str] = []

    def opened(*arguments: object) -> None:
        assert said == ["starting Spark on local[1]"]
        raise AnalyticsError("no Java")

    monkeypatch.setattr(session, "open_session", opened)
    with pytest.raises(AnalyticsError, match="no Java"):
        launch.run(Options("none", "out", master="local[1]"), said.append)


@pytest.mark.spark
def test_spark_ends_when_a_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics.spark import session

    stopped: list[bool] = []
    spark = SimpleNamespace(version="4", stop=lambda: stopped.append(True))

    def load() -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'")

    monkeypatch.setattr(session, "open_session", lambda *arguments: spark)
    monkeypatch.setattr(launch, "_load", load)
    with pytest.raises(ModuleNotFoundError):
        launch.run(Options("none", "out"))
    assert stopped == [True]


@pytest.mark.spark
def test_spark_opens_outside_of_the_main_thread_where_it_would_handle_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics.spark import session

    opened: list[threading.Thread] = []

    class Builder:
        """Of sessions."""

        def appName(self, name: str) -> Builder:
            return self

        def master(self, name: str) -> Builder:
            return self

        def config(self, name: str, value: str) -> Builder:
            return self

        def getOrCreate(self) -> None:
            opened.append(threading.current_thread())

    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=Builder()))
    session.open_session()
    assert opened
    assert opened[0] is not threading.main_thread()


@pytest.mark.parametrize(("code", "wanted"), [("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 2)", 130)])
def test_waymesh_analyze_ends_with_the_exit_code_of_shells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, wanted: int
) -> None:
    from waymesh_operator.cli.programs import run_job

    (tmp_path / "job.py").write_text(f"import os, signal\nsignal.signal(2, signal.SIG_DFL)\n{code}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run_job([], "job") == wanted
