"""Random schedules of faults for routers of a Router resource on a real cluster: pure, as `schedule`.

The faults of wires are those of the clients' connections; the others need Kubernetes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.chaos.schedule import CALM_S, WAYS, WIRE_KINDS, Planned, Round, wire_fault

SIZE = 3
PODS = tuple(f"mesh-{number}" for number in range(SIZE))
ALL = "all"
"""The target of what concerns no single pod."""
POD_KINDS = {"kill": 3, "pause": 2, "partition": 3, "delete": 2, "evict": 1}
"""The process of a router killed by SIGKILL, or stopped for a while; a pod that other routers do not reach, one way or
both; a pod deleted by force, or evicted as when its node is drained."""
CLUSTER_KINDS = {"operator": 1, "api-server": 1, "node": 1, "scale": 2, "roll": 1}
"""The operator killed; the API server, or kubelet and containerd, away; another size; another template of the pods."""
AWAY = frozenset({"api-server", "node"})
NEED_API = frozenset({"delete", "evict", "scale", "roll"})
"""Not in one round: without the API server, or the node's, it would not be known when they are over."""
SIZES = (2, 4, 5)
AWAY_S = 20.0
RECOVERY_S = 20.0
WIRE_SHARE = 0.25
POD_SHARE = 0.6


def cluster_schedule(seed: int, seconds: float, clients: Iterable[str], idle_s: float) -> list[Round]:
    """Rounds that take about that long."""
    rng = random.Random(f"cluster/{seed}")
    wires = tuple(clients)
    rounds: list[Round] = []
    taken = 0.0
    while taken < seconds:
        planned = _round(rng, wires, idle_s)
        rounds.append(planned)
        taken += max(fault.at + fault.seconds for fault in planned) + CALM_S + RECOVERY_S
    return rounds


def _round(rng: random.Random, wires: tuple[str, ...], idle_s: float) -> Round:
    """One to three faults, no two of one target."""
    faults: dict[str, Planned] = {}
    at = 0.0
    for _ in range(rng.choice((1, 2, 2, 3))):
        fault = _fault(rng, wires, round(at, 1), idle_s)
        kinds = {fault.kind, *(other.kind for other in faults.values())}
        if not (kinds & AWAY and kinds & NEED_API):
            faults.setdefault(fault.target, fault)
        at += rng.uniform(0.0, 3.0)
    return tuple(faults.values())


def _fault(rng: random.Random, wires: tuple[str, ...], at: float, idle_s: float) -> Planned:
    if rng.random() < WIRE_SHARE:
        kind = rng.choices(list(WIRE_KINDS), list(WIRE_KINDS.values()))[0]
        return wire_fault(rng, kind, rng.choice(wires), at, idle_s)
    if rng.random() < POD_SHARE:
        kind = rng.choices(list(POD_KINDS), list(POD_KINDS.values()))[0]
        pod, seconds = rng.choice(PODS), round(rng.uniform(1.0, 8.0), 1)
        match kind:
            case "pause":
                return Planned(at, kind, pod, seconds)
            case "partition":
                return Planned(at, kind, pod, seconds, rng.choice(WAYS))
        return Planned(at, kind, pod)
    kind = rng.choices(list(CLUSTER_KINDS), list(CLUSTER_KINDS.values()))[0]
    match kind:
        case "api-server" | "node":
            return Planned(at, kind, ALL, AWAY_S)
        case "scale":
            return Planned(at, kind, ALL, round(rng.uniform(1.0, 15.0), 1), amount=float(rng.choice(SIZES)))
    return Planned(at, kind, ALL)
