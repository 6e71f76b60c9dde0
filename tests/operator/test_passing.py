"""RefusalKey words of `waymesh stat` and `manage` are about the cluster, and which are the tool's."""

from __future__ import annotations

import pytest

from waymesh_operator.cli.passing import pass_on, split
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
def test_passing_splits_words(words: list[str], values: dict[str, str], rest: list[str]) -> None:
    found = split(words)
    assert (found.values, found.rest) == (values, rest)


def test_passing_wants_the_value_of_an_option() -> None:
    with pytest.raises(WaymeshError, match="--pod needs a value"):
        split(["--pod", "-c"])


@pytest.mark.parametrize("words", [["-c"], ["--pod", "x", "--help"]])
def test_passing_leaves_a_router_on_this_machine_to_the_tool(words: list[str]) -> None:
    assert pass_on(lambda got: len(got), words, cluster=False) == len(words)
