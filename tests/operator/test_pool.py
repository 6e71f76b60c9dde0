"""The work queue: reconcile soon after a change, once for simultaneous changes, with back-off, per mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.kit.virtual_time import run_in_virtual_time
from tests.operator.kit import PACE, Lab, lab
from waymesh_operator.errors import WaymeshError
from waymesh_operator.places.kubernetes.worker.environment import Environment
from waymesh_operator.places.kubernetes.worker.mesh_worker import MeshWorker
from waymesh_operator.places.kubernetes.worker.pool import Pool
from waymesh_operator.resources.router import Ref

pytestmark = pytest.mark.engine_independent

A, B = Ref("ns", "a"), Ref("ns", "b")


class Scripted(MeshWorker):
    """A worker whose turns are a function of the test."""

    def __init__(self, mesh: Ref, world: Environment, script: Callable[[int], str | None]) -> None:
        super().__init__(mesh, world)
        self.turns = 0
        self.closed = False
        self._script = script

    async def turn(self) -> str | None:
        self.turns += 1
        return self._script(self.turns)

    async def close(self) -> None:
        self.closed = True


def pool_of(lab: Lab, script: Callable[[int], str | None]) -> tuple[Pool, dict[Ref, Scripted]]:
    workers: dict[Ref, Scripted] = {}

    def make(mesh: Ref, world: Environment) -> MeshWorker:
        workers[mesh] = Scripted(mesh, world, script)
        return workers[mesh]

    object.__setattr__(lab.world, "clock", lambda: asyncio.get_running_loop().time())
    return Pool(lab.world, make), workers


def run(story: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
    with lab() as it:
        run_in_virtual_time(story(it))


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.002)


def test_pool_begins_only_when_started() -> None:
    async def story(lab: Lab) -> None:
        pool, workers = pool_of(lab, lambda turn: "done")
        pool.wake(A)
        pool.wake(B)
        await asyncio.sleep(0.02)
        assert [worker.turns for worker in workers.values()] == [0, 0]
        pool.start()
        await until(lambda: all(worker.turns == 1 for worker in workers.values()))
        await pool.stop()
        assert all(worker.closed for worker in workers.values())

    run(story)


def test_pool_changes_that_come_together_share_a_turn() -> None:
    async def story(lab: Lab) -> None:
        pool, workers = pool_of(lab, lambda turn: "done")
        pool.start()
        for _ in range(100):
            pool.wake(A)
        await until(lambda: workers[A].turns >= 1)
        await asyncio.sleep(PACE.resync_s / 4)
        assert workers[A].turns == 1
        await pool.stop()

    run(story)


def test_pool_resyncs_without_any_event() -> None:
    async def story(lab: Lab) -> None:
        pool, workers = pool_of(lab, lambda turn: "done")
        pool.start()
        pool.wake(A)
        await until(lambda: workers[A].turns >= 3)
        await pool.stop()

    run(story)


def test_pool_a_failing_mesh_stops_no_other_and_backs_off() -> None:
    async def story(lab: Lab) -> None:
        def script(turn: int) -> str | None:
            raise WaymeshError("always")

        pool, workers = pool_of(lab, script)
        pool.start()
        pool.wake(A)
        await until(lambda: workers[A].turns >= 4)
        assert pool.check() is None
        await pool.stop()

    run(story)


def test_pool_even_a_bug_stops_nobody() -> None:
    async def story(lab: Lab) -> None:
        def script(turn: int) -> str | None:
            raise ZeroDivisionError

        pool, workers = pool_of(lab, script)
        pool.start()
        pool.wake(A)
        await until(lambda: workers[A].turns >= 2)
        await pool.stop()

    run(story)


def test_pool_forgets_a_mesh_that_is_gone_and_takes_it_again() -> None:
    async def story(lab: Lab) -> None:
        pool, workers = pool_of(lab, lambda turn: None)
        pool.start()
        pool.wake(A)
        await until(lambda: workers[A].closed)
        former = workers[A]
        pool.wake(A)
        await until(lambda: workers[A] is not former and workers[A].turns == 1)
        await pool.stop()

    run(story)


def test_pool_stops_whatever_happens_at_that_moment() -> None:
    async def story(lab: Lab) -> None:
        for number in range(100):
            pool, _ = pool_of(lab, lambda turn: "done")
            pool.start()
            pool.wake(A)
            for _ in range(number % 7):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0005 * (number % 5))
            pool.wake(A)
            async with asyncio.timeout(5):
                await pool.stop()

    run(story)


def test_pool_notices_a_turn_that_does_not_end() -> None:
    async def story(lab: Lab) -> None:
        now = 0.0
        pool, workers = pool_of(lab, lambda turn: "done")
        object.__setattr__(lab.world, "clock", lambda: now)
        stuck = asyncio.Event()

        async def for_ever() -> str | None:
            await stuck.wait()
            return "done"

        pool.wake(A)
        workers[A].turn = for_ever  # type: ignore[method-assign]
        pool.start()
        await asyncio.sleep(0.05)
        assert pool.check() is None
        now = 700.0
        assert "has been running for 700 s" in str(pool.check())
        stuck.set()
        await pool.stop()

    run(story)
