"""The last observation of a mesh in which there was nothing to do: while all that is observed stays equal, there is
nothing to do either.

With thousands of resources, plan and statuses take most of the time of a turn, also when nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from waymesh_operator.places.kubernetes.context import ClusterContext

from .inventory import Key, Object, version_of
from .reconcile_pass import Observation

FULL_S = 120.0
"""At the latest after this time, by the monotonic or the wall clock, all is computed again: some of it depends on the
time, and the monotonic clock stands still while a machine is suspended."""


@dataclass(slots=True)
class SteadyState:
    """Compares observations, the versions of objects, and what else the desired state depends on."""

    clock: Callable[[], float]
    now: Callable[[], datetime]
    _seen: tuple[Mapping[Key, int], Observation, ClusterContext] | None = None
    _until: tuple[float, float] = (float("-inf"), float("-inf"))

    def holds(self, objects: Mapping[Key, Object], observation: Observation, context: ClusterContext) -> bool:
        """Return whether nothing has changed since `keep`; forgets what was kept if something has."""
        if self._seen is None:
            return False
        fresh = all(moment < end for moment, end in zip(self._moments(), self._until))
        if fresh and self._seen == _all(objects, observation, context):
            return True
        self._seen = None
        return False

    def keep(self, objects: Mapping[Key, Object], observation: Observation, context: ClusterContext) -> None:
        """Keep what was observed in a turn with nothing to do, to change, to write or to try again."""
        self._seen = _all(objects, observation, context)
        monotonic, wall = self._moments()
        self._until = monotonic + FULL_S, wall + FULL_S

    def _moments(self) -> tuple[float, float]:
        return self.clock(), self.now().timestamp()


def _all(
    objects: Mapping[Key, Object], observation: Observation, context: ClusterContext
) -> tuple[Mapping[Key, int], Observation, ClusterContext]:
    return {key: version_of(body) for key, body in objects.items()}, observation, replace(context, entropy=b"")
