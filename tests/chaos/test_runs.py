"""Runs on real routers: what docs/reliability.md promises is kept under faults, and defects are found.

Excuses are what really happened, and waits are for conditions: a verdict does not depend on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.events import Answered, Concluded, Outcome, Received
from tests.chaos.mesh import shape
from tests.chaos.planted import DEFECTS, FOUND_BY, words
from tests.chaos.processes import Processes
from tests.chaos.run import Options, Result, Run, save
from tests.chaos.schedule import Planned, Round, schedule, to_rows
from tests.chaos.workload import ASKING, LANGUAGES, PLANS
from tests.kit.bound import bound

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
ALL = os.environ.get("WAYMESH_TEST_ALL") == "1"
IDLE_S = 16
LONG_IDLE_S = 120
SHORT_S = 20.0
SEED = 1
GENTLE: list[Round] = [
    (Planned(0.0, "delay", "C-B", 2.0, "both", 0.2), Planned(0.5, "slow", "E-A", 2.0, "there", 10000)),
    (Planned(0.0, "pause", "B", 1.5), Planned(0.5, "hold", "A-C", 1.2, "back")),
]
"""Nothing that ends a connection or a route: not one message may be lost, unless the machine ends one."""
LOSSES: list[Round] = [
    (Planned(0.0, "kill", "A", 1.0), Planned(0.5, "cut", "C-B"), Planned(0.5, "cut", "taker-e")),
    (Planned(0.0, "half-open", "E-B", 0.0, "there"), Planned(0.2, "half-open", "taker-c", 0.0, "back")),
    (Planned(0.0, "restart", "B", 1.0), Planned(1.0, "kill", "E", 1.0)),
    (Planned(0.0, "pause", "C", 5.0),),
]
"""In the last round, C is silent for longer than `helloMaxAgeSeconds`, and its consumers miss multicast messages."""
SEEDED = schedule(12, 300, shape(PLANS), IDLE_S)[:3]
CERTIFICATES: Round = (Planned(0.0, "renew", "B", 1.0), Planned(0.5, "authority", "all", 1.5))
"""No connection may be lost by that."""
WIDE: list[Round] = [
    CERTIFICATES,
    (Planned(0.0, "kill", "broker-1", 1.0), Planned(0.5, "cut", "broker-2"), Planned(1.0, "kill", "B", 1.0)),
    (
        Planned(0.0, "pause", "broker-2", 2.0),
        Planned(0.0, "expire", "C", 1.5),
        Planned(0.0, "cut", "taker-q"),
        Planned(0.5, "cut", "sender-q"),
        Planned(0.5, "cut", "C-B"),
    ),
]
APART: list[Round] = [
    (
        Planned(0.0, "loss", "B-A", 2.0, amount=0.1),
        Planned(0.0, "clock", "C", 2.0, amount=-3600.0),
        Planned(0.0, "full", "A", 2.0),
        Planned(0.5, "reorder", "C-B", 2.0, amount=0.05),
    ),
    (Planned(0.0, "far", "E-A", 6.0, amount=0.5), Planned(0.0, "partition", "B", 5.0, "there")),
]
"""Needs namespaces, which a process of its own makes."""
QUICK: list[Round] = [(Planned(0.0, "delay", "C-B", 1.0, "both", 0.1),)]
WAITING: list[Round] = [(Planned(0.0, "hold", "taker-b", 2.5), Planned(0.0, "hold", "taker-e", 2.5))]
DIRECTED: dict[str, list[Round]] = {
    "lost-credit": QUICK * 5,  # the first 250 deliveries of a link need no renewal
    # The relay holds back what the consumer settles, so that there is something to forget when it is cut.
    "forgotten-consumer": [(Planned(0.0, "hold", "taker-b", 4.0), Planned(1.5, "cut", "taker-b"))],
    "overtaking": WAITING,
}
"""Schedules for defects that need one of their own."""


def run(folder: Path, rounds: list[Round], defect: str = "", options: Options | None = None) -> Result:
    place = Processes(folder, SEED, IDLE_S, words(defect) if defect else None)
    result = Run(place, options or Options()).go(rounds)
    save(folder, rounds, result, SEED)
    return result


@pytest.mark.parametrize("rounds", [GENTLE, LOSSES, SEEDED], ids=["gentle", "losses", "seeded"])
def test_promises_are_kept_under_faults(tmp_path: Path, rounds: list[Round]) -> None:
    result = run(tmp_path, rounds)
    assert result.violations == [], f"see {tmp_path}"
    assert result.rounds == len(rounds)


def test_promises_are_kept_with_brokers_and_clients_of_three_languages_over_tls(tmp_path: Path) -> None:
    """Nothing in the schedule needs an idle time-out, and on a machine that lets processes wait, a short one would end
    connections while certificates are replaced."""
    result = Run(Processes(tmp_path, SEED, LONG_IDLE_S, wide=True, tls=True), Options()).go(WIDE)
    save(tmp_path, WIDE, result, SEED)
    assert result.violations == [], f"see {tmp_path}"
    assert {type(event) for event in result.events} >= {Concluded, Outcome, Answered}
    assert set(result.lost[WIDE.index(CERTIFICATES)]) <= {"route"}
    received = {event.link.partition(".")[0] for event in result.events if isinstance(event, Received)}
    assert received >= {*LANGUAGES, *ASKING}


def test_promises_are_kept_with_lost_packets_full_disks_and_clocks_that_jump(tmp_path: Path) -> None:
    schedule_file = tmp_path / "fixed.json"
    schedule_file.write_text(json.dumps(to_rows(APART)), encoding="utf-8")
    words = ["--apart", "--schedule", str(schedule_file), "--idle", str(IDLE_S), "--folder", str(tmp_path / "run")]
    done = subprocess.run(
        bound([sys.executable, "-m", "tests.chaos", *words]), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"kept: {len(APART)} rounds" in done.stdout


@pytest.mark.parametrize("defect", DEFECTS if ALL else ["sent-twice"])
def test_a_planted_defect_is_found(tmp_path: Path, defect: str) -> None:
    """The defect makes it wait: messages do not get through, or do not come to rest. A short wait is no excuse for a
    slow machine, as what is found must be of the kind that the defect brings about."""
    options = Options(rest_s=SHORT_S, patience_s=SHORT_S if "recovery" in FOUND_BY[defect] else 300.0)
    result = run(tmp_path, DIRECTED.get(defect, QUICK), defect, options)
    assert FOUND_BY[defect] & {found.kind for found in result.violations}, result.violations
