"""Two routers with one id in a mesh of routing engines: the one that is there is not disturbed."""

from __future__ import annotations

from functools import partial

import pytest

from tests.simulation.control_plane.mesh import Cable, Mesh

pytestmark = pytest.mark.engine_independent


def line() -> Mesh:
    """A – B – C – D, an address at C."""
    mesh = Mesh()
    mesh.add("A", "B", "C", "D")
    for one, other in ("AB", "BC", "CD"):
        mesh.connect(one, other)
    mesh.mobile("C", "M0c", 3)
    mesh.run(5.0)
    assert mesh.converged()
    return mesh


def critical(mesh: Mesh) -> list[str]:
    return [log.text for router in mesh.routers.values() for log in router.logs if log.level == "critical"]


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("instance", [0, 9], ids=["older", "newer"])
@pytest.mark.parametrize("place", ["A", "B", "C"])
def test_a_router_with_the_id_of_another_is_refused(place: str, instance: int, phase: float) -> None:
    """Also if that one is some hops away, or the very router it connects to."""
    mesh = line()
    mesh.run(phase)
    mesh.add_at("twin", "C", instance=instance)
    for _ in range(5):
        changes = {name: router.engine.local.last_topo_change for name, router in mesh.routers.items()}
        cable = mesh.connect("twin", place)
        mesh.run_until(partial(is_down, cable), 1.5)
        mesh.run(0.7)
        assert {name: router.engine.local.last_topo_change for name, router in mesh.routers.items()} == changes
        assert mesh.routers["A"].table["C"].mobiles == {"M0c": 3}
    assert not critical(mesh)


def is_down(cable: Cable) -> bool:
    return not cable.up


@pytest.mark.parametrize("away", [0.0, 0.4])
def test_a_restart_is_not_refused_while_the_old_connections_hang(away: float) -> None:
    mesh = line()
    for cable in mesh.routers["C"].links.values():
        cable.silent = True
    mesh.routers["C"].alive = False
    mesh.run(away)
    mesh.add("C", instance=2)
    mesh.mobile("C", "M0c", 3)
    cables = [mesh.connect(other, "C") for other in "BD"]
    a = mesh.routers["A"]
    mesh.run_until(lambda: "D" in a.table and a.engine.nodes["C"].instance == 2, 1.5)
    mesh.run(5.0)
    assert all(cable.up for cable in cables)
    assert mesh.routers["A"].table["C"].mobiles == {"M0c": 3}
    assert not critical(mesh)


def test_two_meshes_that_have_a_router_of_the_same_id_each_tell_it_when_they_are_joined() -> None:
    mesh = line()
    mesh.add("X")
    mesh.add_at("twin", "C", instance=2)
    mesh.connect("X", "twin")
    mesh.run(3.0)
    mesh.connect("X", "A")
    mesh.run(30.0)
    assert critical(mesh)
    assert all("the id C" in text and "1" in text and "2" in text for text in critical(mesh))
