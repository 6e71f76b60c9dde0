"""Plans for a mesh that is scaled down: order of drains, removal, and return."""

from __future__ import annotations

from dataclasses import replace

import pytest

from waymesh_operator.planning.actions import Scale
from waymesh_operator.planning.mesh import lower_neighbours
from waymesh_operator.planning.plan import plan
from waymesh_operator.router_entities.actions import DrainRouter, UndrainRouter
from waymesh_operator.routers.observed import RouterState

from .cluster_model import ModelCluster
from .test_plan_cluster import mesh, running

pytestmark = pytest.mark.engine_independent


def joined(size: int, topology: str) -> dict[str, tuple[str, ...]]:
    """The neighbours of each router of a mesh."""
    pairs = [(k, peer) for k in range(size) for peer in lower_neighbours(k, size, topology)]
    return {f"mesh-{k}": tuple(f"mesh-{a + b - k}" for a, b in pairs if k in (a, b)) for k in range(size)}


def shrunk(size: int, topology: str, to: int) -> list[str]:
    """What is done so that a mesh shrinks; no router that drains may be cut off."""
    model = ModelCluster()
    model.neighbours = joined(size, topology)
    model.converge(mesh(size))
    done = model.converge(mesh(to))
    assert len(model.routers) == to
    assert model.restarts == 0
    return [a.describe().split(" (")[0] for a in done if isinstance(a, DrainRouter | Scale)]


def test_routers_that_are_joined_to_all_leave_together() -> None:
    drained = [f"drain router mesh-{k}" for k in (4, 3, 2)]
    assert shrunk(5, "Full", 2) == [*drained, "scale mesh to 2"]
    model = running(mesh(5))
    model.converge(mesh(2))
    assert set(model.routers) == {"mesh-0", "mesh-1"}
    assert set(model.objects["ConfigMap", "mesh-seed"]["data"]) == {"mesh-0.json", "mesh-1.json"}


def test_routers_leave_together_only_while_each_has_a_neighbour_that_stays() -> None:
    assert shrunk(8, "Chordal", 1) == [
        *(f"drain router mesh-{k}" for k in (7, 6, 5, 4)),
        *(f"drain router mesh-{k}" for k in (3, 2)), "scale mesh to 4",
        "drain router mesh-1", "scale mesh to 2", "scale mesh to 1",
    ]  # fmt: skip
    assert len([step for step in shrunk(64, "Chordal", 1) if step.startswith("scale")]) == 6


def test_last_router_of_a_mesh_that_shrinks_to_nothing_leaves_last() -> None:
    assert shrunk(3, "Full", 0) == [
        "drain router mesh-2", "drain router mesh-1", "drain router mesh-0", "scale mesh to 1", "scale mesh to 0",
    ]  # fmt: skip


def test_drained_routers_leave_from_the_top_and_wait_for_those_above_them() -> None:
    model = running(mesh(4))
    model.apply(DrainRouter("mesh-3", 30))
    model.apply(DrainRouter("mesh-2", 30))
    model.draining |= {"mesh-2": "drained"}
    planned = plan(model.desire(mesh(1)), model.observed)
    assert not [a for a in planned if isinstance(a, Scale)]
    model.draining |= {"mesh-3": "drained"}
    planned = plan(model.desire(mesh(1)), model.observed)
    assert [a.replicas for a in planned if isinstance(a, Scale)] == [2]
    assert [a.router_id for a in planned if isinstance(a, DrainRouter)] == ["mesh-1"]


def test_neighbours_of_other_meshes_and_foreign_names_are_no_way_out() -> None:
    model = ModelCluster()
    model.neighbours = {name: (*peers, "Router.A.0", "other-0") for name, peers in joined(3, "Full").items()}
    model.converge(mesh(3))
    model.converge(mesh(1))
    assert set(model.routers) == {"mesh-0"}


def test_a_pod_that_ends_keeps_no_other_from_draining() -> None:
    model = running(mesh(4))
    model.reconcile(mesh(3))
    leaving = replace(model.routers["mesh-3"], state=RouterState.DRAINING)
    model.reconcile(mesh(3))
    model.routers["mesh-3"] = leaving
    planned = plan(model.desire(mesh(2)), model.observed)
    assert [a.router_id for a in planned if isinstance(a, DrainRouter)] == ["mesh-2"]


def test_a_size_between_the_former_and_the_wanted_takes_back_those_below() -> None:
    model = running(mesh(5))
    model.reconcile(mesh(1))
    assert [a.router_id for a in model.reconcile(mesh(3)) if isinstance(a, UndrainRouter)] == ["mesh-1", "mesh-2"]
    model.converge(mesh(3))
    assert set(model.routers) == {"mesh-0", "mesh-1", "mesh-2"}
    assert set(model.draining.values()) == {"none"}
