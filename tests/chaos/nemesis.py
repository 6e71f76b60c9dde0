"""Carries out the faults of a round on routers and wires."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.chaos.mesh import ChaosMesh
from tests.chaos.schedule import Planned, Round

LOOK_S = 0.02
TERMS = {"hold": "held", "delay": "delay_s", "slow": "rate"}
"""Which term of a wire a fault sets."""


class Nemesis:
    """The faults of a mesh."""

    def __init__(self, mesh: ChaosMesh, say: Callable[[str], None]) -> None:
        self._mesh = mesh
        self._relay = mesh.relay
        self._say = say

    def carry_out(self, planned: Round) -> None:
        """All faults of a round, each at its time, until the last one is over."""
        began = time.monotonic()
        steps: list[tuple[float, Planned, bool]] = []
        for fault in planned:
            steps.append((fault.at, fault, True))
            if fault.seconds:
                steps.append((fault.at + fault.seconds, fault, False))
        for at, fault, begins in sorted(steps, key=lambda step: step[0]):
            while (left := began + at - time.monotonic()) > 0:
                time.sleep(min(left, LOOK_S))
            self._say(f"{'begin' if begins else 'end  '} {fault}")
            (self._begin if begins else self._end)(fault)

    def _begin(self, fault: Planned) -> None:
        if fault.kind in ("kill", "restart", "pause"):
            router = self._mesh.routers[fault.target]
            {"kill": router.kill, "restart": router.stop, "pause": router.pause}[fault.kind]()
            return
        wire = self._relay.wires[fault.target]
        if fault.kind == "cut":
            self._relay.cut(wire)
        elif fault.kind == "half-open":
            self._relay.halve(wire, fault.way)
        else:
            self._relay.change(wire, fault.way, **{TERMS[fault.kind]: fault.amount or True})

    def _end(self, fault: Planned) -> None:
        if fault.kind in ("kill", "restart"):
            self._mesh.routers[fault.target].start()
        elif fault.kind == "pause":
            self._mesh.routers[fault.target].resume()
        else:
            self._relay.change(self._relay.wires[fault.target], "both", **{TERMS[fault.kind]: 0})
