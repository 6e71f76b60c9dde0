"""Changes of other routers' addresses that are made bit by bit: every router knows all of them in the end, and each
delivery has one true outcome meanwhile."""

from __future__ import annotations

import pytest

from tests.simulation.full.chaos import Chaos
from tests.simulation.full.network import Network
from tests.simulation.full.slow_portions import slow_portions
from tests.simulation.full.test_full_workload import STORMS, converged, leave, work
from waymesh_router import mesh
from waymesh_router.control_messages import control_message
from waymesh_router.core.addresses import later_changes
from waymesh_router.routing import effects as fx
from waymesh_router.routing import mobile

ADDRESSES = 30
PAUSE_S = 0.003
A_TURN = 256
"""TURN_BUDGET of runtime/transport/connection_io.py, which the compiled engine keeps to itself."""


def two_routers() -> Network:
    """A knows B and nothing of its addresses."""
    network = Network()
    network.router("A")
    network.router("B")
    network.cable("A", "B")
    network.start()
    network.until(lambda: "B" in network.routers["A"].core.nodes, 5.0)
    network.run(1.0)
    return network


@pytest.mark.parametrize("storm", ["connections drop", "routers die", "all of it"])
def test_each_delivery_has_one_true_outcome(storm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "CHANGES_AT_ONCE", 1)
    slow_portions(monkeypatch, PAUSE_S)
    monkeypatch.setattr(mobile, "MAU_CHANGES", 2)
    network = converged(9, count=6, extra=3)
    chaos = Chaos(network, 9, size=3000.0)
    work(network, chaos, STORMS[storm], 1.0, messages=150)
    assert not chaos.violations()
    assert chaos.ledger.open() == 0
    leave(network, chaos)


def test_many_addresses_come_some_a_turn_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_changes, "COST_A_TURN", 10 * later_changes.CHANGES_AT_ONCE)
    network = two_routers()
    router = network.routers["A"].router
    keys = [f"M0many.{n}" for n in range(ADDRESSES)]
    router.mesh.run([fx.MobileAdd("B", key, 3) for key in keys])
    router.mesh.run([fx.MobileDel("B", keys[-1])])

    def known() -> list[bool]:
        return [key in router.core.addresses for key in keys]

    for turn in range(4):
        assert sum(known()) == (0, 10, 20, ADDRESSES)[turn]
        wanted = router.tick(network.now)
        assert (wanted == network.now) or turn == 3
    assert known() == [True] * (ADDRESSES - 1) + [False]


def test_what_waits_of_a_router_that_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_changes, "COST_A_TURN", 10 * later_changes.CHANGES_AT_ONCE)
    network = two_routers()
    router = network.routers["A"].router
    router.mesh.run([fx.MobileAdd("B", f"M0many.{n}", 3) for n in range(ADDRESSES)])
    network.cables[0].cut()
    network.until(lambda: "B" not in router.core.nodes, 30.0)
    network.run(1.0)
    assert not [key for key in router.core.addresses if key.startswith("M0many")]


def test_a_large_control_message_takes_the_turn_of_its_connection() -> None:
    """So those that were sent together are handled in several turns."""
    network = two_routers()
    router = network.routers["A"].router
    (connection,) = router.core.connections.values()

    def spent(addresses: int) -> int:
        keys = [f"M0large.{n}" for n in range(addresses)]
        body = {"id": "B", "pv": 1, "mobile_seq": 1, "add": keys, "del": [], "hints": [3] * addresses}
        before = connection.budget
        router.mesh.control_message(connection, control_message("amqp:/_topo/0/A/qdrouter.ma", "MAU", body, "B"))
        return int(before - connection.budget)

    assert mesh.MESSAGE_WORK < spent(1) < A_TURN < spent(mobile.MAU_CHANGES)
