"""Processes that are killed during a run: that run or the next one completes, with the same report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.export import HOUR_US, RouterExport
from tests.kit.bound import bound_with_children
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
RUN_S = 400.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
TWO_EXECUTORS = "local-cluster[2,1,512]"
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Run:
    """`waymesh analyze --streaming` as a process with children."""

    def __init__(self, source: Path, out: Path, master: str, log: Path) -> None:
        self.log = log
        settings = [f"--conf={name}={text}" for name, text in SMALL.items()]
        words = ["analyze", str(source), "--out", str(out), "--streaming", "--master", master, *settings]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                bound_with_children([str(Path(sys.executable).with_name("waymesh")), *words]),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
                env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Until that is so; fails at once when the run has ended."""

        def met() -> bool:
            assert self.process.poll() is None, self.said
            return bool(condition())

        wait_until(met, RUN_S, lambda: self.said)

    def executors(self) -> list[int]:
        """Process ids of what holds a part of this run's work."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                group = os.getpgid(int(folder.name))
                if group == self.process.pid and EXECUTOR in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except (ProcessLookupError, FileNotFoundError):
                continue
        return sorted(found)

    def kill(self) -> None:
        """Driver, Java and all."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def write_ten_hours(router: RouterExport, begin: int) -> None:
    """A hundred deliveries and a hundred records of two kinds that say little, from that hour on."""
    for number in range(100):
        at = begin * HOUR_US + number * HOUR_US // 10
        values = {"sid": number, "half": "out", "address": "orders", "phase": 0, "ingress": "A", "egress": "A"}
        router.put("delivery", at, outcome="accepted", weight=2.0, hops=0, path="A", **values)
        router.put("event", at, event="log.warning", severity="warning", object="ROUTER")
        router.put("router", at, ingress=number, records=dict(router.seqs), dropped={})
    router.write()


@pytest.fixture
def export(tmp_path: Path) -> RouterExport:
    return RouterExport(tmp_path / "export", "A")


@pytest.fixture
def run(export: RouterExport, tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    runs: list[Run] = []

    def start(master: str) -> Run:
        runs.append(Run(export.root, tmp_path / "out", master, tmp_path / f"run-{len(runs)}.log"))
        return runs[-1]

    yield start
    for each in runs:
        each.kill()


def test_a_killed_run_and_then_a_killed_executor(
    run: Callable[[str], Run], export: RouterExport, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_ten_hours(export, 0)
    first = run("local[2]")
    first.wait_for(lambda: any("curated/" in path.read_text() for path in (out / "store/manifest").glob("[0-9]*.json")))
    first.kill()
    assert not (out / "report.html").exists()
    # The first run may have committed all that it had: the executor must be lost while there is work in any case.
    write_ten_hours(export, 10)
    second = run(TWO_EXECUTORS)
    second.wait_for(lambda: "2026-01-30T10 to 2026-01-30T19, " in second.said and len(second.executors()) == 2)
    os.kill(second.executors()[0], signal.SIGKILL)
    assert second.process.wait(RUN_S) == 0, second.said
    assert "ended without releasing the store" in second.said
    assert "Lost executor" in second.said
    (traffic,) = json.loads((out / "tables/traffic.json").read_text())
    assert (traffic["samples"], traffic["deliveries"]) == (200, 400)
    rows = json.loads((out / "tables/completeness.json").read_text())
    found = {row["kind"]: (row["records"], row["lost"]) for row in rows}
    assert found == dict.fromkeys(("delivery", "event", "router"), (200, 0))
