"""One mesh through its life, against fakes: created, kept, grown, shrunk, taken over."""

from __future__ import annotations

from tests.operator.kit import Lab, run


def test_worker_from_a_router_to_a_mesh() -> None:
    async def story(lab: Lab) -> None:
        lab.router(3)
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0", "mesh-1", "mesh-2"]
        assert lab.condition("Converged")[0] == "True"
        assert lab.condition("Ready")[0] == "True"
        assert lab.status()["size"] == 3

    run(story)


def test_worker_resync_of_a_steady_mesh_asks_the_api_server_nothing() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.settle()
        lab.kube.calls.clear()
        for _ in range(5):
            lab.later(30)
            assert await lab.turn() == "done"
        assert lab.kube.calls == []

    run(story)
