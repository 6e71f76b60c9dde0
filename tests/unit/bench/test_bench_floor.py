"""The relay floor forwards all frames of the load generator."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.bench.floor import FloorProcess
from tests.bench.tools import Tools
from tests.kit.certificates import Authority
from tests.kit.waiting import DEADLINE_S
from tests.unit.bench.conftest import Loadgen

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize("mode", ["--count 3000", "--count 3000 --unsettled", "--count 300 --body 60000 --pairs 3"])
def test_everything_passes(tools: Tools, loadgen: Loadgen, mode: str) -> None:
    with FloorProcess(tools.floor) as relay:
        run = loadgen(f"--relay --port {relay.port} --pid {relay.pid} {mode}")
    assert run.code == 0
    assert run.result["sent"] == run.result["received"]


@pytest.mark.parametrize("mode", ["--count 3000 --unsettled", "--count 300 --body 60000 --pairs 3"])
def test_everything_passes_over_tls(tools: Tools, loadgen: Loadgen, tmp_path: Path, mode: str) -> None:
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"})
    with FloorProcess(tools.floor, pair=pair) as relay:
        run = loadgen(f"--relay --tls --port {relay.port} --pid {relay.pid} {mode}")
    assert run.code == 0
    assert run.result["sent"] == run.result["received"]


def test_round_trips(tools: Tools, loadgen: Loadgen) -> None:
    with FloorProcess(tools.floor) as relay:
        run = loadgen(f"--relay --port {relay.port} --mode rtt --count 100 --unsettled")
    assert run.code == 0
    assert run.result["rtt_us"]["n"] == 100


def test_usage(tools: Tools) -> None:
    done = subprocess.run([str(tools.floor)], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_ends_with_its_input(tools: Tools) -> None:
    with subprocess.Popen([str(tools.floor), "30"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout
        assert "listening" in relay.stdout.readline()
        assert relay.stdin
        relay.stdin.close()
        assert relay.wait(DEADLINE_S) == 0
