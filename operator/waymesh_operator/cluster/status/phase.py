"""What is going on in a mesh, in one word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.cluster.observed import RouterState
from waymesh_operator.resources.model import Router

from .conditions import Condition
from .seen import Seen

PAUSED, STALLED, ROLLING, DRAINING, SCALING = "Paused", "Stalled", "Rolling", "Draining", "Scaling"
STARTING, READY, NOT_READY = "Starting", "Ready", "NotReady"


def phase(router: Router, seen: Seen, conditions: Mapping[str, Condition], before: Mapping[str, Any]) -> str:
    """The word. `before` is the former status: a mesh that grows is Scaling until its new routers are in it."""
    live = seen.observed.mesh.routers
    running = sum(one.state is RouterState.RUNNING for one in live.values())
    converged = conditions["Converged"].holds is True
    if router.paused:
        return PAUSED
    if conditions["Stalled"].holds is True:
        return STALLED
    if conditions["RestartPending"].reason == ROLLING:
        return ROLLING
    if conditions["Draining"].holds is True or any(one.ordinal >= router.size for one in live.values()):
        return DRAINING
    if running and (len(live) < router.size or (before.get("phase") == SCALING and not converged)):
        return SCALING
    if conditions["Ready"].holds is True:
        return READY
    return NOT_READY if converged else STARTING
