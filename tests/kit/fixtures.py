"""Fixtures: routers and meshes, and their logs in the report of a failed test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.kit.mesh import Edges, Mesh
from tests.kit.process import RouterProcess, standalone

StartRouter = Callable[..., RouterProcess]
StartMesh = Callable[..., Mesh]
_KEY = pytest.StashKey[list[RouterProcess]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the test's routers to the report of its failure."""
    report = yield
    if report.failed:
        for router in item.stash.get(_KEY, []):
            report.sections.append((f"log of router {router.name}", router.log[-6000:]))
    return report


def show_log(node: pytest.Item, router: RouterProcess) -> None:
    """Add the log of this router to the report of the test, if it fails."""
    node.stash.setdefault(_KEY, []).append(router)


def within(request: pytest.FixtureRequest) -> tuple[str, ...] | None:
    """How RouterProcess is to start routers of this test: by exec if it has the mark `by_exec`, else by fork."""
    return None if request.node.get_closest_marker("by_exec") is None else ()


@pytest.fixture
def start_router(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartRouter]:
    """Start standalone routers: `start_router(name="A", extra="…")`. They are stopped at the end."""
    routers: list[RouterProcess] = request.node.stash.setdefault(_KEY, [])

    def start(name: str = "A", extra: str = "") -> RouterProcess:
        router = standalone(tmp_path, name, extra, within(request))
        routers.append(router)
        return router.start()

    yield start
    for router in routers:
        router.stop()


@pytest.fixture
def start_mesh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartMesh]:
    """Start meshes: `start_mesh(3, "line", extra="…", costs={"BA": 10})`, converged. They are stopped at the end."""
    routers: list[RouterProcess] = request.node.stash.setdefault(_KEY, [])

    def start(count: int, topology: str | Edges = "line", extra: str = "", costs: dict[str, int] | None = None) -> Mesh:
        mesh = Mesh(tmp_path, count, topology, extra, costs)
        for router in mesh.routers:
            router.within = within(request)
        routers.extend(mesh.routers)
        return mesh.start()

    yield start
    for router in routers:
        router.stop()


@pytest.fixture
def router(start_router: StartRouter) -> RouterProcess:
    """A standalone router."""
    return start_router()


@pytest.fixture
def mesh2_line(start_mesh: StartMesh) -> Mesh:
    """A – B."""
    return start_mesh(2)


@pytest.fixture
def mesh3_line(start_mesh: StartMesh) -> Mesh:
    """A – B – C."""
    return start_mesh(3)


@pytest.fixture
def mesh3_ring(start_mesh: StartMesh) -> Mesh:
    """A triangle."""
    return start_mesh(3, "ring")


@pytest.fixture
def mesh4_line(start_mesh: StartMesh) -> Mesh:
    """A – B – C – D: three hops."""
    return start_mesh(4)


@pytest.fixture
def mesh4(start_mesh: StartMesh) -> Mesh:
    """Four routers, each with each."""
    return start_mesh(4, "full")
