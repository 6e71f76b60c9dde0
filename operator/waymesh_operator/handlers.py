"""kopf: the watched kinds, handlers that pass on its events, and a guard that notices when a watch has ended.

kopf is used for watching only. Its create, update and resume handlers store an annotation on objects, its daemons a
finalizer, and neither recovers well from a failed patch; `on.event` needs neither. Events go to the inventory, and
one worker per mesh acts on them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import kopf

from waymesh_operator.errors import WaymeshError
from waymesh_operator.kube import OWNED, RESOURCES, SELECTOR

Sink = Callable[[str | None, Mapping[str, Any]], None]
"""Receives the type of a watch event (None: from the list that precedes a watch) and the object."""
HEARTBEAT = "waymesh-operator-heartbeat"
"""Name of the heartbeat ConfigMap that the operator writes and expects back through a watch."""
BOOKMARKS_S = 70.0
"""A watch without a change or bookmark for this time is restarted (the API server sends a bookmark each minute)."""


def register(registry: kopf.OperatorRegistry, sink: Sink, login: Callable[[], kopf.ConnectionInfo]) -> None:
    """Register handlers that pass every event of the watched kinds to the sink."""

    @kopf.on.login(registry=registry)
    def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    async def on_event(event: kopf.RawEvent, **_: Any) -> None:
        sink(event["type"], event["object"])

    for kind in (*RESOURCES, *OWNED):
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(on_event)


def settings() -> kopf.OperatorSettings:
    """kopf's settings.

    The API server filters owned objects by label; kopf's `labels=` would filter only after every Secret and Pod of the
    cluster has been sent. Scanning is off: it would need to list namespaces and CRDs.
    """
    made = kopf.OperatorSettings()
    made.posting.level = logging.WARNING
    made.posting.loggers = False
    made.peering.standalone = True
    made.scanning.disabled = True
    made.watching.inactivity_timeout = BOOKMARKS_S
    made.watching.reconnect_backoff = 1.0
    made.execution.max_workers = 1
    for kind in OWNED:
        made.watching.label_selectors[kind.group, kind.version, kind.plural] = SELECTOR
    return made


WATCH_TASK = "watcher for "
"""Prefix of the names of kopf's watch tasks, in the versions of kopf that pyproject.toml allows."""
START_S = 60.0
"""Seconds within which all watches must start."""


@dataclass(slots=True)
class WatchGuard:
    """Checks the names of the running tasks. `expected` watches must start within START_S of `began` and never end."""

    expected: int
    began: float
    _complete: bool = False

    def check(self, names: Iterable[str], now: float) -> None:
        """Raises WaymeshError when a watch has ended (kopf does not restart it, and does not always stop itself), or
        when the watches cannot be found: an operator that cannot tell whether it watches must not continue."""
        alive = sum(name.startswith(WATCH_TASK) for name in names)
        if alive >= self.expected:
            self._complete = True
        elif self._complete:
            raise WaymeshError("a watch has ended; the operator must be restarted")
        elif now - self.began > START_S:
            raise WaymeshError(
                f"{alive} of {self.expected} watches of kopf run {START_S:.0f} s after the start (tasks named "
                f"'{WATCH_TASK}...'): a resource kind is missing in the cluster, or this version of kopf names its "
                "tasks differently"
            )
