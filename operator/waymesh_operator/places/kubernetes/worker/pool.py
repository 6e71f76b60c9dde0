"""The queue: a mesh that has changed is reconciled soon, and several changes share one reconcile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from waymesh_operator.errors import WaymeshError
from waymesh_operator.resources.router import Ref

from .environment import Environment
from .mesh_worker import MeshWorker

log = logging.getLogger(__name__)
STUCK_S = 600.0
"""A reconcile that takes longer than this counts as stuck."""


@dataclass(slots=True)
class _Slot:
    """One mesh: its worker, and the state of its next and present reconcile."""

    worker: MeshWorker
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    asked_at: float | None = None
    began_at: float | None = None
    failures: int = 0
    busy: int = 0
    task: asyncio.Task[None] | None = None


class Pool:
    """All workers. `wake` may be called at any time in the loop's thread; work begins with `start`."""

    def __init__(self, world: Environment, make: Callable[[Ref, Environment], MeshWorker] = MeshWorker) -> None:
        self._world = world
        self._make = make
        self._slots: dict[Ref, _Slot] = {}
        self._started = False

    def wake(self, mesh: Ref) -> None:
        """Request a reconcile of this mesh."""
        slot = self._slots.get(mesh)
        if slot is None:
            slot = self._slots[mesh] = _Slot(self._make(mesh, self._world))
        if slot.asked_at is None:
            slot.asked_at = self._world.clock()
        slot.wanted.set()
        if self._started and slot.task is None:
            slot.task = asyncio.create_task(self._look_after(mesh, slot), name=f"mesh {mesh}")
        self._measure()

    def start(self) -> None:
        """Start work, with the meshes that `wake` named so far."""
        self._started = True
        for mesh in list(self._slots):
            self.wake(mesh)

    async def stop(self) -> None:
        """Cancel all work."""
        self._started = False
        slots, self._slots = list(self._slots.values()), {}
        tasks = [slot.task for slot in slots if slot.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(slot.worker.close() for slot in slots))

    def check(self) -> str | None:
        """Liveness check: return a problem if a reconcile does not end, or a worker's task has ended."""
        now = self._world.clock()
        for mesh, slot in self._slots.items():
            if slot.began_at is not None and now - slot.began_at > STUCK_S:
                return f"the reconcile of {mesh} has been running for {now - slot.began_at:.0f} s"
            if slot.task is not None and slot.task.done():
                return f"the worker of {mesh} has ended"
        return None

    async def _look_after(self, mesh: Ref, slot: _Slot) -> None:
        delay = 0.0
        while True:
            # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await slot.wanted.wait()
            await asyncio.sleep(self._world.pace.gather_s)
            async with self._world.turns.one():
                left = await self._turn(mesh, slot)
            if left is None and not slot.wanted.is_set():
                del self._slots[mesh]
                await slot.worker.close()
                self._world.metrics.forget(mesh.namespace, mesh.name)
                self._measure()
                return
            delay = left or 0.0

    async def _turn(self, mesh: Ref, slot: _Slot) -> float | None:
        """One reconcile; returns the seconds until the next resync, None when the mesh is gone."""
        metrics, now = self._world.metrics, self._world.clock()
        if slot.asked_at is not None:
            metrics.waiting.observe(now - slot.asked_at)
        slot.asked_at, slot.began_at = None, now
        slot.wanted.clear()
        self._measure()
        extra = {"namespace": mesh.namespace, "router": mesh.name}
        try:
            result = await slot.worker.turn()
        except WaymeshError as error:
            log.warning("reconcile failed: %s", error, extra=extra)
            result = "error"
        except Exception:
            log.exception("reconcile failed", extra=extra)
            result = "error"
        finally:
            slot.began_at = None
        seconds = self._world.clock() - now
        metrics.duration.observe(seconds)
        log.debug("reconcile took %.3f s: %s", seconds, result, extra=extra)
        if result is not None:
            metrics.reconciles.labels(mesh.namespace, mesh.name, result).inc()
        return self._delay(slot, result)

    def _delay(self, slot: _Slot, result: str | None) -> float | None:
        pace = self._world.pace
        slot.failures = slot.failures + 1 if result == "error" else 0
        slot.busy = slot.busy + 1 if result == "busy" else 0
        if result is None:
            return None
        if slot.failures:
            delay = min(pace.backoff_s, pace.busy_s * 2.0 ** min(slot.failures - 1, 10))
        elif slot.busy:
            delay = min(pace.busiest_s, pace.busy_s * (1 + slot.busy / 10))
        else:
            delay = pace.resync_s
        return delay * (1 + self._world.rng.uniform(-pace.jitter, pace.jitter))

    def _measure(self) -> None:
        self._world.metrics.queue.set(sum(slot.asked_at is not None for slot in self._slots.values()))
        self._world.metrics.workers.set(len(self._slots))
