"""Local mode while routers start: what depends on them waits, and nothing is reported as a fault that is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from waymesh_operator.places.local.processes import START_S
from waymesh_operator.places.local.status import SETTLE_S
from waymesh_operator.resources.router import Ref

from .local_fakes import FakeRouter, Stage, manifest

pytestmark = pytest.mark.engine_independent
LINK = """---
apiVersion: waymesh.io/v1alpha1
kind: AutoLink
metadata: {name: l}
spec: {routerRef: {name: mesh}, address: q, direction: in, containerId: c}
"""
LINK_IS = "AutoLink/l"
STEP_S = 0.5
STARTING, SILENT = "the router is starting", "the router does not answer"


class SlowStart(Stage):
    """A stage whose routers do not answer after their start, until they are told to."""

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(folder, text)
        self.slow = True
        start = self.network.start

        def start_slowly(config: Path, log: Path) -> FakeRouter:
            router = start(config, log)
            router.hangs = self.slow
            return router

        self.network.start = start_slowly  # type: ignore[method-assign]

    def wait(self, seconds: float) -> None:
        """Let this time pass."""
        self.step(int(seconds / STEP_S), seconds=STEP_S)

    def answer(self) -> None:
        """All routers have started."""
        self.slow = False
        for router in self.network.alive():
            router.hangs = False

    def link(self) -> tuple[str, str]:
        """State of the autolink, and what is said about the first router on which it is not active."""
        (view,) = self.supervisor.resources[Ref("default", "mesh")]
        return view.state, view.error.partition(": ")[2]

    def told(self) -> list[str]:
        """What was said about the autolink."""
        return [text for text in self.network.said if text.startswith(LINK_IS)]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[SlowStart]:
    made = SlowStart(tmp_path, manifest(2) + LINK)
    yield made
    made.supervisor.close()


def test_a_router_that_has_just_been_started_is_starting_and_no_fault(stage: SlowStart) -> None:
    stage.wait(2 * SETTLE_S)
    assert stage.link() == ("starting", STARTING)
    assert stage.told() == []
    assert not stage.supervisor.settled
    stage.answer()
    stage.settle()
    assert stage.told() == [f"{LINK_IS} is active on 2/2"]


def test_a_router_that_never_answers_is_a_fault(stage: SlowStart) -> None:
    stage.wait(START_S + 2 * SETTLE_S)
    assert stage.link() == ("lost", SILENT)
    assert stage.told() == [f"{LINK_IS}: mesh-0: {SILENT}"]


def test_what_was_active_stays_so_while_a_router_is_added(stage: SlowStart) -> None:
    stage.answer()
    stage.settle()
    stage.slow = True
    stage.write(manifest(3) + LINK)
    stage.wait(2 * SETTLE_S)
    assert stage.link() == ("starting", STARTING)
    stage.answer()
    stage.settle()
    assert stage.told() == [f"{LINK_IS} is active on 2/2"]


def test_a_router_that_answered_once_is_not_starting(stage: SlowStart) -> None:
    stage.answer()
    stage.settle()
    stage.network.router("mesh-1").hangs = True
    stage.wait(2 * SETTLE_S)
    assert stage.link() == ("lost", SILENT)
    assert stage.told()[-1] == f"{LINK_IS}: mesh-1: {SILENT}"
