"""What all meshes share: the threads, and the number of turns at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

PLANNERS, CONVERSATIONS = 4, 256
"""Threads for computations, and for requests to routers. A router that does not answer occupies a thread for seconds;
threads are created as needed."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads for computations and, apart from them, for requests to routers."""

    plans: Executor
    routers: Executor

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Threads]:
        """Provide threads. Does not wait for those that wait for routers."""
        threads = cls(ThreadPoolExecutor(PLANNERS, "plan"), ThreadPoolExecutor(CONVERSATIONS, "router"))
        try:
            yield threads
        finally:
            for executor in (threads.plans, threads.routers):
                executor.shutdown(wait=False, cancel_futures=True)


AT_ONCE = 8
"""Turns that make requests to the API server or compute at the same time."""


class Turns:
    """Limits the number of turns at a time. A turn that waits for routers is not counted: routers that do not answer
    must not delay other meshes."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)
        self._held: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Take a turn in the present task, as soon as there are few enough others."""
        task = _this_task()
        await self._take(task)
        try:
            yield
        finally:
            self._give(task)

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Let others take the turn of the present task, if it has one, until the end of the block."""
        task = _this_task()
        held = task in self._held
        self._give(task)
        yield  # after an exception the task goes on without a turn
        if held:
            await self._take(task)

    async def _take(self, task: asyncio.Task[Any]) -> None:
        await self._free.acquire()
        self._held.add(task)

    def _give(self, task: asyncio.Task[Any]) -> None:
        if task in self._held:
            self._held.remove(task)
            self._free.release()


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
