"""Arguments of `waymesh stat` and `manage` that select a cluster, and the router that they reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from waymesh_operator.cli.main import run_command
from waymesh_operator.cli.options import DEFAULT_BUS, RouterOptions, router_url, split
from waymesh_operator.errors import WaymeshError

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("words", "values", "rest"),
    [
        (["-c"], {}, ["-c"]),
        (["-n"], {}, ["-n"]),
        (["-n", "--csv"], {}, ["-n", "--csv"]),
        (["-n", "prod", "-n"], {"namespace": "prod"}, ["-n"]),
        (["--pod", "mesh-0", "-l", "--context=c"], {"pod": "mesh-0", "context": "c"}, ["-l"]),
        (["query", "--type", "router"], {}, ["query", "--type", "router"]),
        (["--namespace=x", "update", "a=b"], {"namespace": "x"}, ["update", "a=b"]),
    ],
)
def test_options_about_a_cluster_are_split_off(words: list[str], values: dict[str, str], rest: list[str]) -> None:
    found = split(words)
    assert (found.values, found.rest) == (values, rest)


def test_option_about_a_cluster_without_value_is_refused() -> None:
    with pytest.raises(WaymeshError, match="--pod needs a value"):
        split(["--pod", "-c"])


def test_without_options_the_router_is_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with router_url(RouterOptions()) as url:
        assert url == DEFAULT_BUS


@pytest.mark.parametrize("options", [RouterOptions(bus="r:1"), RouterOptions(bus="r:1", pod="x")])
def test_bus_names_the_router(options: RouterOptions) -> None:
    with router_url(options) as url:
        assert url == "r:1"


@pytest.mark.parametrize("command", ["stat", "manage"])
@pytest.mark.parametrize("words", [["--help"], ["--pod", "x", "-h"]])
def test_help_needs_no_cluster(command: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([command, *words]) == 0
    assert "--pod" in capsys.readouterr().out


def test_option_without_value_is_an_error_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["stat", "--pod", "-c"]) == 1
    assert capsys.readouterr().err == "waymesh: --pod needs a value\n"
