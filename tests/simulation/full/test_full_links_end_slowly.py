"""Connections whose links end in several turns: each delivery has one correct outcome, and nothing leaks.

Here each link ends in a turn of its own, milliseconds after the one before, so that much happens in between.
"""

from __future__ import annotations

import pytest

from tests.simulation.full.chaos import Chaos, Weather
from tests.simulation.full.slow_portions import slow_portions
from tests.simulation.full.test_full_workload import FAIR, STORMS, converged, leave, work
from waymesh_router.connections import transports

PAUSE_S = 0.003


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have it so; when links were ended."""
    monkeypatch.setattr(transports, "LINKS_AT_ONCE", 0)
    return slow_portions(monkeypatch, PAUSE_S)


@pytest.mark.parametrize("storm", ["none", "connections drop", "clients come and go", "all of it"])
def test_each_delivery_has_one_true_outcome_while_links_end_one_by_one(storm: str, slowly: list[float]) -> None:
    weather: Weather = STORMS.get(storm, FAIR)
    network = converged(7, count=6, extra=3)
    chaos = Chaos(network, 7, size=3000.0)
    work(network, chaos, weather, 1.0, messages=150)
    assert not chaos.violations(faultless=weather is FAIR)
    assert chaos.ledger.open() == 0
    leave(network, chaos)
    assert len(slowly) > 10
