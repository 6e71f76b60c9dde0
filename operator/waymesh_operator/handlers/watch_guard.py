"""Whether kopf still runs all its watches. It has no public way to ask, so its tasks are counted by their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from waymesh_operator.errors import WaymeshError

WATCH_TASK = "watcher for "
"""How the names of kopf's watching tasks begin, in the versions of kopf that pyproject.toml allows."""
START_S = 60.0
"""Time for all watches to begin."""


@dataclass(slots=True)
class WatchGuard:
    """Looks at the names of the tasks that run. `expected` watches begin within START_S of `began` and never end."""

    expected: int
    began: float
    _complete: bool = False

    def look(self, names: Iterable[str], now: float) -> None:
        """Raises WaymeshError when a watch has ended (kopf neither makes it anew nor always ends itself for it), or
        when the watches cannot be found: an operator that cannot tell whether it watches must not go on."""
        alive = sum(name.startswith(WATCH_TASK) for name in names)
        if alive >= self.expected:
            self._complete = True
        elif self._complete:
            raise WaymeshError("a watch has ended; the operator must be started anew")
        elif now - self.began > START_S:
            raise WaymeshError(
                f"{alive} of {self.expected} watches of kopf run {START_S:.0f} s after the start (tasks named "
                f"'{WATCH_TASK}...'): a resource kind is missing in the cluster, or this version of kopf names its "
                "tasks differently"
            )
