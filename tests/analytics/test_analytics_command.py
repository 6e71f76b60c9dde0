"""The command: options, error messages, exit codes."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from waymesh_analytics import AnalyticsError
from waymesh_analytics.cli.main import main
from waymesh_analytics.errors import StoreBusy
from waymesh_analytics.hours import Window, hours_between, parse_time, window

pytestmark = pytest.mark.engine_independent
WAYMESH = Path(sys.executable).with_name("waymesh")


def test_help_is_that_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    for option in ("--out", "--from", "--to", "--master", "--streaming", "--keep-raw", "--strict"):
        assert option in said


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
    assert [hour in window(begin, end) for hour in hours_between("2026-01-31T04", "2026-01-31T07")] == [
        False, True, True, False,
    ]  # fmt: skip
    with pytest.raises(AnalyticsError, match="ends before it begins"):
        window(end, begin)


@pytest.mark.spark
def test_what_can_not_be_done_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics import pipeline

    def run(*arguments: object) -> None:
        raise AnalyticsError("no such folder: none")

    def busy(*arguments: object) -> None:
        raise StoreBusy("out/store: another run is writing it")

    monkeypatch.setattr(pipeline, "run", run)
    assert main(["none", "--out", "out"]) == 1
    assert main(["none", "--out", "out", "--conf", "spark.ui"]) == 1
    monkeypatch.setattr(pipeline, "run", busy)
    assert main(["none", "--out", "out"]) == 4
    *said, last = capsys.readouterr().err.splitlines()
    assert last == "waymesh analyze: out/store: another run is writing it"
    assert said == ["waymesh analyze: no such folder: none", "waymesh analyze: --conf spark.ui: expected NAME=VALUE"]
