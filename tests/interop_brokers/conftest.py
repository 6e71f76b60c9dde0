"""Fixtures: routers with a broker behind them, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.behind import ROUTES, Scene
from tests.brokers.process import BrokerProcess
from tests.kit.fixtures import show_log


class Scenes:
    """The scenes of one test file, by broker, count of routers and engine."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._scenes: dict[tuple[BrokerProcess, int, str], Scene] = {}

    def get(self, request: pytest.FixtureRequest, broker: BrokerProcess, count: int, engine: str) -> Scene:
        """A scene, with its logs in the report if this test fails. No test may stop its routers."""
        key = (broker, count, engine)
        if key not in self._scenes:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("WAYMESH_ENGINE", engine)
                self._scenes[key] = Scene.start(self._folders.mktemp(f"line{count}"), count, broker, ROUTES)
        scene = self._scenes[key]
        for router in scene.routers:
            assert router.alive(), f"a test before this one ended router {router.name}\n{router.log_tail()}"
            show_log(request.node, router)
        return scene

    def stop(self) -> None:
        """Stop all; a router that does not stop in order fails the test."""
        for scene in self._scenes.values():
            scene.stop()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    """Started when first asked for, stopped behind the file's last test."""
    made = Scenes(tmp_path_factory)
    yield made
    made.stop()
