"""Edge routers in numbers, in virtual time: their addresses are known soon, and the loss of an interior moves them."""

from __future__ import annotations

import pytest

from tests.simulation.edge_scale import EdgeRun

FEW_S = 2.0
"""Far more than it takes: some round trips, the spacings of the control plane, and the time of many together."""


@pytest.mark.parametrize(("interiors", "edges"), [(3, 60), (8, 16)])
def test_edges_start_exchange_messages_and_survive_an_interior(interiors: int, edges: int) -> None:
    run = EdgeRun(7, interiors, edges)
    assert run.started() < FEW_S
    assert run.addresses_known(2) < FEW_S
    known, credit = run.one_more_address()
    assert known < 0.2
    assert credit < 0.2
    assert run.exchange(0.05) < FEW_S
    lost, moved, known_again = run.killed(list(run.network.routers)[-1])
    assert lost > 0
    assert moved < 1.0
    assert known_again < FEW_S
    assert not run.finished()
    assert len(run.ledger.sent) == edges * 5 + 1


def test_an_address_costs_one_announcement_however_many_edges_there_are() -> None:
    for edges in (6, 60):
        run = EdgeRun(7, 3, edges)
        run.started()
        run.network.run(1.0)
        run.messages.text()
        run.one_more_address()
        assert run.messages.count["MAU"] == 2, "one to each other interior router"
