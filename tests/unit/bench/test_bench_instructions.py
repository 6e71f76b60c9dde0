"""What is read from the files of callgrind, and how it is compared."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.bench import instructions
from tests.bench.errors import BenchError

pytestmark = pytest.mark.engine_independent

DUMP = """\
# callgrind format
version: 1
events: Ir
ob=(1) /lib/engine.so
fl=(1) ???
fn=(1) __pyx_f_take
0 100
+3 20
cfn=(2) memcpy
calls=2 0
0 4000
0

fn=(2)
0 4000
-3
fn=(1)
* 5
totals: 4125
"""


def test_costs_of_calls_count_for_the_called_function() -> None:
    assert instructions.self_costs(DUMP.splitlines()) == {"__pyx_f_take": 125, "memcpy": 4000}


def test_functions_that_changed_most_come_first() -> None:
    ours, other = {"a": 100.0, "b": 10.0, "new": 30.0}, {"a": 99.0, "b": 60.0}
    assert [row.split() for row in instructions.rows(ours, other, 2)] == [
        ["-50.0", "10.0", "60.0", "b"],
        ["+30.0", "30.0", "0.0", "new"],
    ]
    assert [row.split() for row in instructions.rows(ours, None, 1)] == [["100.0", "a"]]


def test_the_sum_of_the_engine() -> None:
    costs = {"__pyx_f_take": 7.0, "memcpy": 4.0}
    assert (instructions.sum_of(costs, instructions.ENGINE), instructions.sum_of(costs, "")) == (7.0, 11.0)


def test_the_router_is_run_by_its_own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    command = instructions.counted("/other/.venv/bin/waymesh-router -c {config}")
    assert shlex.split(command)[-4:] == [
        *("/other/.venv/bin/python", "/other/.venv/bin/waymesh-router", "-c", "{config}"),
    ]


def test_without_valgrind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(BenchError, match="no valgrind"):
        instructions.counted("waymesh-router -c {config}")


def test_an_unknown_scenario() -> None:
    with pytest.raises(BenchError, match="no such scenario: some"):
        instructions.main(["some", "--versus", str(Path("/nowhere"))])
