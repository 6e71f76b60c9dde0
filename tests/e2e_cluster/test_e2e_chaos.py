"""Routers of a Router resource under a fixed schedule of faults, with every delivery accounted for.

Random schedules, also with operator, API server and node away: `python -m tests.chaos --cluster NAME --seed N`.
"""

from __future__ import annotations

from pathlib import Path

from tests.chaos.events import Fault
from tests.chaos.on_cluster import OnCluster
from tests.chaos.run import Options, Run, save
from tests.chaos.schedule import Planned, Round
from tests.cluster.namespace import Namespace

IDLE_S = 16
SEED = 1
ROUNDS: list[Round] = [
    (Planned(0.0, "kill", "mesh-1"), Planned(0.5, "partition", "mesh-2", 5.0, "there")),
    (Planned(0.0, "delete", "mesh-0"), Planned(0.0, "scale", "all", 1.0, amount=4)),
]


def test_promises_are_kept_on_a_cluster(operator: Namespace, tmp_path: Path) -> None:
    result = Run(OnCluster(operator.cluster.name, SEED, IDLE_S), Options()).go(ROUNDS)
    save(tmp_path, ROUNDS, result, SEED)
    assert result.violations == [], f"see {tmp_path}"
    faults = [event for event in result.events if isinstance(event, Fault) and event.what != "start"]
    assert [fault.breaks for fault in faults[: len(ROUNDS)]] == [True] * len(ROUNDS)
