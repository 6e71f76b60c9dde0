"""Fixtures of the interop tests: routers that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.shared import ADDRESSES
from tests.kit.fixtures import show_log, within
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess


@pytest.fixture(scope="module")
def shared_routers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedRouters]:
    """What `router1`, `line2` … give out; started when first asked for, stopped behind the module's last test."""
    shared = SharedRouters(tmp_path_factory)
    yield shared
    shared.stop()


@pytest.fixture
def router1(request: pytest.FixtureRequest, shared_routers: SharedRouters) -> RouterProcess:
    """A router, shared by the tests of a module."""
    return shared_routers.watched(request, 1, "line")[0]


@pytest.fixture
def line2(request: pytest.FixtureRequest, shared_routers: SharedRouters) -> Mesh:
    """A – B, shared by the tests of a module."""
    return shared_routers.watched(request, 2, "line")


@pytest.fixture
def line4(request: pytest.FixtureRequest, shared_routers: SharedRouters) -> Mesh:
    """A – B – C – D, shared by the tests of a module: three hops."""
    return shared_routers.watched(request, 4, "line")


@pytest.fixture
def full4(request: pytest.FixtureRequest, shared_routers: SharedRouters) -> Mesh:
    """Four routers, each with each, shared by the tests of a module."""
    return shared_routers.watched(request, 4, "full")


class SharedRouters:
    """Meshes of one test module, by size and topology."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._meshes: dict[tuple[int, str], Mesh] = {}

    def watched(self, request: pytest.FixtureRequest, count: int, topology: str) -> Mesh:
        """A mesh, with its logs in the report if this test fails. Its routers must still run: no test may stop them."""
        mesh = self._meshes.get((count, topology))
        if mesh is None:
            mesh = self._meshes[count, topology] = Mesh(
                self._folders.mktemp(f"{topology}{count}"), count, topology, ADDRESSES
            )
            for router in mesh.routers:
                router.within = within(request)
            mesh.start()
        for router in mesh.routers:
            assert router.alive(), f"a test before this one ended router {router.name}\n{router.log_tail()}"
            show_log(request.node, router)
        return mesh

    def stop(self) -> None:
        """Stop all; a router that does not stop in order fails the test."""
        for mesh in self._meshes.values():
            mesh.stop()
