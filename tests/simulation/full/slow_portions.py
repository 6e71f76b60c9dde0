"""Walks over many things, stretched: each step in a turn of its own, and time passes in between."""

from __future__ import annotations

import math

import pytest

from waymesh_router import ticks
from waymesh_router.core import portions


def slow_portions(monkeypatch: pytest.MonkeyPatch, pause_s: float) -> list[float]:
    """Have it so in all routers; when portions were done."""
    done: list[float] = []
    due: dict[ticks.LongWork, float] = {}
    run = ticks.LongWork.run

    def run_slowly(work: ticks.LongWork, now: float) -> float:
        at = due.get(work, now)
        if now < at:
            return at
        if run(work, now) == math.inf:
            return math.inf
        done.append(now)
        due[work] = now + pause_s
        return due[work]

    monkeypatch.setattr(ticks, "LINKS_A_STEP", 1)
    monkeypatch.setattr(portions, "COST_A_TURN", 1)
    monkeypatch.setattr(ticks.LongWork, "run", run_slowly)
    return done
