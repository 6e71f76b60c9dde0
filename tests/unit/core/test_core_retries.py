"""When failed ends of autolinks are attached again, and refused ones ended; whole attaches: test_core_autolinks.py."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_router.core.containers.retries import REFUSED_S, Retries
from waymesh_router.core.portions import COST_A_TURN, Portions

MANY = COST_A_TURN


class End:
    """The link of an autolink on one connection."""

    def __init__(self, retry_at: float = math.inf) -> None:
        self.retry_at = retry_at
        self.detached = 0
        self.link: Any = SimpleNamespace(detach=self._detach)

    def _detach(self) -> None:
        self.detached += 1


class Scene:
    def __init__(self) -> None:
        self.portions = Portions()
        self.context: Any = SimpleNamespace(portions=self.portions, now=0.0)
        self.attached: list[Any] = []
        self.retries = Retries(self.context, self._attach)  # type: ignore[arg-type]

    def _attach(self, end: Any) -> None:
        self.retries.forget(end)
        self.attached.append(end)

    def failed(self, retry_at: float) -> Any:
        end: Any = End(retry_at)
        self.retries.failed(end)
        return end

    def refused(self) -> Any:
        end: Any = End()
        self.retries.refused(end)
        return end

    def tick(self, now: float) -> None:
        """One turn."""
        self.context.now = now
        self.retries.tick(now)

    def finish(self) -> None:
        while self.portions:
            self.portions.run()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_each_failed_one_is_attached_when_it_is_due(scene: Scene) -> None:
    late, early = scene.failed(2.0), scene.failed(1.0)
    scene.tick(0.9)
    assert (scene.attached, bool(scene.portions)) == ([], False)
    scene.tick(1.0)
    scene.finish()
    assert scene.attached == [early]
    scene.tick(1.9)
    assert not scene.portions
    scene.tick(2.0)
    assert scene.attached == [early, late]


def test_a_turn_attaches_a_few_of_many(scene: Scene) -> None:
    ends = [scene.failed(1.0) for _ in range(MANY)]
    scene.tick(1.0)
    assert 0 < len(scene.attached) < MANY
    scene.finish()
    assert scene.attached == ends


def test_one_that_is_forgotten_amid_the_portions_is_left_out(scene: Scene) -> None:
    ends = [scene.failed(1.0) for _ in range(MANY)]
    scene.tick(1.0)
    scene.retries.forget(ends[-1])
    scene.finish()
    assert scene.attached == ends[:-1]


def test_one_that_fails_again_waits_for_its_next_time(scene: Scene) -> None:
    end = scene.failed(1.0)
    scene.tick(1.0)
    end.retry_at = 3.0
    scene.retries.failed(end)
    scene.tick(2.9)
    assert scene.attached == [end]
    scene.tick(3.0)
    assert scene.attached == [end, end]


def test_a_refused_one_is_ended_if_the_container_does_not(scene: Scene) -> None:
    ends = [scene.refused() for _ in range(MANY)]
    scene.context.now = 1.0
    young = scene.refused()
    scene.tick(REFUSED_S - 0.1)
    assert not any(end.detached for end in ends)
    scene.tick(REFUSED_S)
    assert 0 < sum(end.detached for end in ends) < MANY
    scene.finish()
    assert all(end.detached == 1 for end in ends)
    assert young.detached == 0
    scene.tick(REFUSED_S + 0.1)
    assert not scene.portions, "the router waits for the detaches of the container, and ends none again"
    assert scene.retries.was_refused(ends[0])


def test_one_that_was_refused_is_known_when_it_is_detached(scene: Scene) -> None:
    end, other = scene.refused(), scene.failed(1.0)
    assert scene.retries.was_refused(end)
    assert not scene.retries.was_refused(end)
    assert not scene.retries.was_refused(other)
    scene.tick(REFUSED_S)
    scene.finish()
    assert end.detached == 0
