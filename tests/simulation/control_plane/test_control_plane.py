"""Meshes of routing engines under virtual time: they converge to correct, equal tables, and are quiet then.

Times are virtual; a link takes 1 ms unless said.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.control_plane.mesh import Cable, Mesh
from waymesh_router.routing.paths import Paths

pytestmark = pytest.mark.engine_independent


def line(*ids: str) -> tuple[Mesh, list[Cable]]:
    mesh = Mesh()
    mesh.add(*ids)
    return mesh, [mesh.connect(one, other) for one, other in pairwise(ids)]


def random_mesh(count: int, extra: int, rng: random.Random) -> Mesh:
    """A random tree with some links more, of different latency and cost, an address at every third router."""
    mesh = Mesh()
    ids = [f"r{number:03d}" for number in range(count)]
    mesh.add(*ids)
    pairs = [(ids[number], ids[rng.randrange(number)]) for number in range(1, count)]
    for _ in range(extra):
        one, other = rng.sample(ids, 2)
        pairs.append((one, other))
    for one, other in pairs:
        mesh.connect(one, other, rng.choice([1, 1, 1, 3]), rng.uniform(0.0005, 0.003))
    for number in range(0, count, 3):
        mesh.mobile(ids[number], f"M0a{number % 7}", number % 6)
    return mesh


def assert_right(mesh: Mesh, looked_at: int = 1000) -> None:
    """The tables of (so many) routers are what follows from the cables that are there."""
    assert mesh.converged()
    links: dict[str, dict[str, int]] = {router_id: {} for router_id in mesh.alive()}
    for router in mesh.alive().values():
        for cable in router.links.values():
            peer = cable.far(router.id)[0]
            links[router.id][peer] = min(cable.cost, links[router.id].get(peer, cable.cost))
    for router in list(mesh.alive().values())[:looked_at]:
        paths = Paths(router.id)
        for router_id, peers in links.items():
            paths.set_links(router_id, peers)
        paths.update()
        assert router.table.keys() == paths.routes.keys()
        assert all(entry.origins <= router.table.keys() for entry in router.table.values())
        for router_id, entry in router.table.items():
            assert (entry.cost, entry.next_hop or router_id, entry.origins) == paths.routes[router_id]
            assert (entry.link_id is not None) == (router_id in links[router.id])


def converge(mesh: Mesh, limit: float, step: float = 0.02) -> float:
    """Run until the tables are right; looked at after each step. Returns the time it took."""
    start = mesh.now
    while True:
        mesh.run(step)
        if mesh.converged():
            mesh.run(0.15)  # Costs and origins may lag behind by one held-back computation.
            assert_right(mesh, looked_at=12)
            return mesh.now - start
        assert mesh.now - start < limit, "no convergence"


def test_a_line_of_three_converges_in_a_few_milliseconds() -> None:
    mesh, _ = line("A", "B", "C")
    mesh.mobile("C", "M0orders", 3)
    assert mesh.run_until(mesh.converged, 1.0) < 0.015
    mesh.run(0.05)
    assert_right(mesh)


def test_an_address_is_known_everywhere_after_one_way_across() -> None:
    mesh, _ = line("A", "B", "C")
    mesh.run(1.0)
    mesh.mobile("C", "M0orders", 3)
    assert mesh.run_until(mesh.converged, 1.0) <= 0.0021
    mesh.mobile("C", "M0orders", None)
    assert mesh.run_until(mesh.converged, 1.0) <= 0.0051


def test_a_killed_router_is_gone_everywhere_within_milliseconds() -> None:
    mesh, _ = line("A", "B", "C", "A")
    mesh.mobile("B", "M0orders", 3)
    mesh.run(1.0)
    mesh.kill("B")
    assert mesh.run_until(mesh.converged, 1.0) < 0.005
    assert_right(mesh)


def test_a_square_finds_the_other_way() -> None:
    mesh, cables = line("A", "B", "C", "D", "A")
    mesh.run(1.0)
    mesh.cut(cables[0])
    assert mesh.run_until(lambda: mesh.routers["A"].toward("B") is not None, 1.0) < 0.01
    converge(mesh, 0.2)
    assert mesh.routers["A"].table["B"].cost == 3


def test_a_silent_connection_is_given_up_after_hello_max_age() -> None:
    mesh, cables = line("A", "B", "C")
    mesh.run(1.0)
    cables[0].silent = True
    mesh.run(2.0)
    assert "B" in mesh.routers["A"].table
    mesh.run(1.3)
    assert mesh.routers["A"].table == {}
    assert mesh.routers["C"].table.keys() == {"B"}
    cables[0].silent = False
    assert mesh.run_until(mesh.converged, 2.0) < 1.1, "the next HELLO brings it back"


def test_a_parted_mesh_heals() -> None:
    mesh, cables = line("A", "B", "C", "D")
    for router_id in "ABCD":
        mesh.mobile(router_id, f"M0{router_id}", 3)
    mesh.run(1.0)
    mesh.cut(cables[1])
    converge(mesh, 0.2)
    mesh.mobile("D", "M0new", 2)
    mesh.mobile("A", "M0A", None)
    mesh.run(5.0)
    mesh.mend(cables[1])
    assert mesh.run_until(mesh.converged, 5.0) < 0.5
    mesh.run(0.2)
    assert_right(mesh)


def test_a_mesh_parted_for_long_heals() -> None:
    mesh, cables = line("A", "B", "C", "D")
    mesh.mobile("D", "M0new", 2)
    mesh.run(1.0)
    mesh.cut(cables[1])
    mesh.run(200.0)
    mesh.mend(cables[1])
    assert mesh.run_until(mesh.converged, 5.0) < 0.5


@pytest.mark.parametrize("instance", [2, 1], ids=["later", "within the same second"])
def test_a_restarted_router_is_learnt_anew(instance: int) -> None:
    mesh, _ = line("A", "B", "C", "D", "E")
    mesh.mobile("C", "M0old", 3)
    mesh.mobile("C", "M0older", 3)
    mesh.run(1.0)
    mesh.mobile("C", "M0oldest", 3)
    mesh.run(1.0)
    mesh.restart("C", instance)
    mesh.mobile("C", "M0new", 2)
    converge(mesh, 5.0)


def test_a_router_moves_to_another_place() -> None:
    mesh, cables = line("A", "B", "C", "D")
    mesh.mobile("A", "M0a", 3)
    mesh.run(1.0)
    mesh.cut(cables[0])
    mesh.connect("D", "A")
    converge(mesh, 1.0)


def test_parallel_connections_survive_the_loss_of_one() -> None:
    mesh, cables = line("A", "B", "C")
    mesh.mobile("C", "M0c", 3)
    second = mesh.connect("A", "B", latency=0.002)
    converge(mesh, 0.2)
    for gone in (cables[0], second):
        mesh.cut(gone)
        if gone is cables[0]:
            assert mesh.routers["A"].table.keys() == {"B", "C"}, "no interruption"
    mesh.run(0.1)
    assert mesh.routers["A"].table == {}


def test_a_cheaper_parallel_connection_takes_over() -> None:
    mesh = Mesh()
    mesh.add("A", "B", "C")
    mesh.connect("A", "B", cost=5)
    mesh.connect("B", "C")
    converge(mesh, 0.2)
    mesh.connect("A", "B", cost=2)
    converge(mesh, 0.2)
    assert mesh.routers["C"].table["A"].cost == 3


def test_after_convergence_only_hellos_and_periodic_advertisements() -> None:
    mesh = random_mesh(12, 8, random.Random(3))
    converge(mesh, 5.0)
    mesh.run(30.0)
    mesh.sent.clear()
    mesh.run(60.0)
    assert mesh.sent.keys() == {"HELLO", "RA"}
    assert mesh.sent["HELLO"] == 2 * len(mesh.cables) * 60
    assert mesh.sent["RA"] == 12 * 11 * 2


def test_one_change_costs_few_messages() -> None:
    """A flood crosses each router once; each router asks each of the two ends at most once and is answered once."""
    mesh = random_mesh(16, 12, random.Random(5))
    converge(mesh, 5.0)
    mesh.run(60.0)
    mesh.sent.clear()
    mesh.cut(mesh.cables[-1])
    mesh.run(0.9)
    assert mesh.sent["RA"] <= 4 * 2 * 15 + 16 * 15
    assert mesh.sent["LSR"] <= 2 * 16 * 16
    assert mesh.sent["MAR"] == mesh.sent["MAU"] == 0


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(2, 9), st.integers(0, 6))
def test_any_mesh_converges_after_any_events(rng: random.Random, count: int, extra: int) -> None:
    mesh = random_mesh(count, extra, rng)
    spare: list[Cable] = []
    instance = 1
    for _ in range(12):
        match rng.choice(["cut", "mend", "mobile", "restart", "wait"]):
            case "cut":
                up = [cable for cable in mesh.cables if cable.up]
                if up:
                    spare.append(rng.choice(up))
                    mesh.cut(spare[-1])
            case "mend" if spare:
                mesh.mend(spare.pop(rng.randrange(len(spare))))
            case "mobile":
                router = rng.choice(list(mesh.routers.values()))
                key = f"M0a{rng.randrange(4)}"
                mesh.mobile(router.id, key, None if key in router.local_mobiles else rng.randrange(6))
            case "restart":
                instance += rng.randrange(2)
                mesh.restart(rng.choice(sorted(mesh.routers)), instance)
            case _:
                mesh.run(rng.choice([0.0003, 0.002, 0.01, 0.3, 4.0]))
    converge(mesh, 12.0)


def test_a_hundred_routers() -> None:
    """Two hundred are whole routers in tests/simulation/full."""
    rng = random.Random(11)
    mesh = random_mesh(100, 30, rng)
    assert converge(mesh, 5.0, 0.1) < 1.0
    cables = [cable for cable in mesh.cables if cable.up]
    lost = rng.sample(cables, 8)
    for cable in lost:
        mesh.cut(cable)
    assert converge(mesh, 5.0, 0.1) < 1.0
    victim = rng.choice(sorted(mesh.routers))
    mesh.restart(victim, 2)
    assert converge(mesh, 5.0, 0.1) < 1.0
