"""Chooses the routers that move clients to others after a router was added or restarted. Pure.

Only connections older than the youngest router move, so none moves twice; a router keeps at least its share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.router_entities.actions import MoveClients
from waymesh_operator.router_entities.names import ROUTER
from waymesh_operator.routers.observed import RouterState

from .mesh import DesiredMesh

TOLERANCE = 1.15
"""A router with up to this multiple of its share keeps its clients."""
FEW = 2
"""A router keeps up to this many clients beyond its share."""
SKEW_S = 3
"""Ages of the same event, read one after the other, differ by less: they are whole seconds, up to two seconds old."""

JOINED_S = 5
"""Minimum age of a router before clients move: earlier, they would reconnect to old routers and not move again."""


@dataclass(frozen=True, slots=True)
class Load:
    """The report of one router: clients, the share that was set last and the youngest router's age at that time, the
    router's age in seconds, and whether it is moving clients."""

    clients: int
    share: int
    share_age_s: int
    age_s: int
    moving: bool


def moves(mesh: DesiredMesh, observed: Any) -> Iterable[MoveClients]:
    """Return the routers that should move clients; none unless all desired routers serve clients and no other exists.

    `observed`: an ObservedState.
    """
    if not mesh.balance or len(mesh.routers) < 2 or len(observed.mesh.routers) != len(mesh.routers):
        return []
    loads: dict[str, Load] = {}
    for router in mesh.routers:
        live = observed.mesh.routers.get(router.id)
        serves = live is not None and live.state is RouterState.RUNNING
        load = _load(live.entities) if serves and observed.draining.get(router.id, "none") == "none" else None
        if load is None:
            return []
        loads[router.id] = load
    return surplus(loads)


def surplus(loads: Mapping[str, Load]) -> list[MoveClients]:
    """Return the routers above their share of clients whose share was not set since the youngest router started.

    Excludes routers that may be as young as the youngest: all their clients have connected since then. While clients
    move, the share stays unchanged: the numbers are read one after the other, and a client that moves in between counts
    twice or not at all.
    """
    youngest = min(load.age_s for load in loads.values())
    if youngest < JOINED_S:
        return []
    told_by = youngest + 2 * SKEW_S  # a share is set with an age of SKEW_S more than the youngest router's
    average = max(1, math.ceil(sum(load.clients for load in loads.values()) / len(loads)))
    share = max((load.share for load in loads.values() if load.moving and load.share_age_s <= told_by), default=average)
    found = []
    for name, load in sorted(loads.items()):
        over = load.clients > share * TOLERANCE and load.clients > share + FEW
        already_set = abs(load.share - share) <= share * (TOLERANCE - 1) and load.share_age_s <= told_by
        if over and not already_set and load.age_s > youngest + SKEW_S:
            found.append(MoveClients(name, share, youngest + SKEW_S))
    return found


def _load(entities: Iterable[Any]) -> Load | None:
    """Return a router's load; None if it does not report it, or was not read yet."""
    own: Mapping[str, Any] = next((entity.attributes for entity in entities if entity.type == ROUTER), {})
    names = ("clientConnections", "clientShare", "clientShareAge", "uptimeSeconds", "clientsMoving")
    if any(own.get(name) is None for name in names):
        return None
    clients, share, share_age, age, moving = (int(own[name]) for name in names)
    return Load(clients, share, share_age, age, bool(moving))
