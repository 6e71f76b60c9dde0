"""Readiness of a router for clients."""

from __future__ import annotations

from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults


def reason(router: SimRouter) -> str:
    return str(router.router.not_ready(router.world.now))


def test_without_connectors_at_once() -> None:
    network = Network()
    network.router("A")
    network.start()
    assert reason(network.routers["A"]) == ""


def test_when_it_knows_the_mesh_and_from_then_on() -> None:
    network = Network()
    names = [f"r{number:02d}" for number in range(12)]
    for name in names:
        network.router(name)
    for number, name in enumerate(names[1:], 1):
        network.cable(name, names[number // 2], latency=0.02)
    for name in names[:-1]:
        network.routers[name].start()
    network.until(lambda: all(not reason(network.routers[name]) for name in names[:-1]), 5.0, 0.01)
    late = network.routers[names[-1]]
    late.start()
    reasons: list[str] = []

    def ready() -> bool:
        if not reasons or reasons[-1] != reason(late):
            reasons.append(reason(late))
        return reasons[-1] == ""

    network.until(ready, 5.0)
    assert reasons == ["no neighbour is connected yet", "tables of other routers are missing", ""]
    assert len(late.core.nodes) == len(names) - 1
    network.cables[-1].cut()
    network.until(lambda: not late.core.nodes, 5.0)
    assert reason(late) == ""


def test_after_a_while_even_when_all_neighbours_are_away() -> None:
    network = Network()
    network.router("A")
    network.router("B")
    network.cable("B", "A")
    network.routers["B"].start()
    network.run(19.9)
    assert reason(network.routers["B"]) == "no neighbour is connected yet"
    network.run(0.2)
    assert reason(network.routers["B"]) == ""
    network.routers["A"].start()
    network.until(lambda: not faults(network), 10.0)


def test_all_connectors_are_awaited_but_not_for_long() -> None:
    network = Network()
    for name in "ABC":
        network.router(name)
    network.cable("C", "A")
    missing = network.cable("C", "B")
    network.routers["A"].start()
    network.routers["C"].start()
    network.run(4.9)
    assert reason(network.routers["C"]) == f"not connected yet: {missing.name}"
    network.run(0.2)
    assert reason(network.routers["C"]) == ""


def test_ready_as_soon_as_the_last_connector_is_up() -> None:
    network = Network()
    for name in "ABC":
        network.router(name)
    network.cable("C", "A")
    network.cable("C", "B")
    network.routers["A"].start()
    network.routers["C"].start()
    network.run(1.0)
    assert reason(network.routers["C"]) != ""
    network.routers["B"].start()
    network.until(lambda: not reason(network.routers["C"]), 1.0)
    assert set(network.routers["C"].core.nodes) == {"A", "B"}
