"""What the workers need of the world; tests put their own in."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from waymesh_operator.cluster.context import OperatorSettings
from waymesh_operator.cluster.metrics import Metrics
from waymesh_operator.kube.api import KubeClient
from waymesh_operator.routers.secure import KeyFolder, Reach, SecureReach

from .awaited import Awaited
from .inventory import Inventory
from .reporter import Reporter

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between turns: while all is as it should be, while something is under way, and after errors at most.

    `gather_s` is how long a change waits for others to come with it. What a resource refers to and is not there is
    looked for every `missing_s`.
    """

    resync_s: float = 30.0
    busy_s: float = 1.0
    busiest_s: float = 5.0
    backoff_s: float = 60.0
    gather_s: float = 0.1
    missing_s: float = 1.0
    jitter: float = 0.15

    @property
    def least_resync_s(self) -> float:
        """What is to be done with each resync must be due by then, or it is done with every second one."""
        return self.resync_s * (1 - self.jitter)


@dataclass(frozen=True, slots=True)
class World:
    """Everything around a worker. Threads of `executor` do what blocks: management requests and long computations."""

    kube: KubeClient
    inventory: Inventory
    reporter: Reporter
    settings: OperatorSettings
    executor: Executor
    keys: KeyFolder
    metrics: Metrics = field(default_factory=Metrics)
    reach: Reach = field(default_factory=SecureReach)
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    rng: random.Random = field(default_factory=random.Random)
    awaited: Awaited = field(default_factory=Awaited)

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Do what blocks."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)
