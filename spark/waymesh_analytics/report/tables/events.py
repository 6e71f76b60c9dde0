"""What the events say: how quickly the mesh agreed, who was denied what."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from waymesh_analytics.rollups.definitions import TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED
from waymesh_analytics.rollups.reader import Rollups

from .rows import ordered
from .table import COUNT, NUMBER, TEXT, TIME, Cell, Table, columns, fill, fill_from

EPISODE = timedelta(seconds=5)
"""When no router has changed its ways for so long, they agree: what comes later is another change."""
DENIALS = ("policy.denied", "link.refused")


def convergence(rollups: Rollups) -> Table:
    """How long the routers took to agree after each change of the topology."""
    table = Table(
        "convergence",
        "Convergence",
        "Changes of the topology: routers that found new ways, one after the other, until nothing changed for "
        f"{EPISODE.total_seconds():g} s; duration: from the first to the last, by their wall clocks; slowest: from the "
        "first news of it to its last new way, at one router by its own clock.",
        columns(
            first=TIME,
            duration_ms=NUMBER,
            routers=COUNT,
            changes=COUNT,
            first_router=TEXT,
            last_router=TEXT,
            slowest_ms=NUMBER,
        ),
    )
    topology = [row for row in rollups.events if row["event"] in (TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED)]
    told = sorted((row["moment"], row["router"], row["event"], row["detail"]) for row in topology)
    return fill(table, [_episode_row(episode) for episode in _episodes(told)])


_Told = tuple[Any, ...]
"""moment, router, event, detail"""


def _episodes(told: list[_Told]) -> list[list[_Told]]:
    """Each begins with a change behind a quiet time; what routers say of having converged belongs to the last one."""
    episodes: list[list[_Told]] = []
    latest: datetime | None = None
    for each in told:
        change = each[2] == TOPOLOGY_CHANGE
        if change and (latest is None or each[0] - latest > EPISODE):
            episodes.append([])
        if episodes:
            episodes[-1].append(each)
        latest = each[0] if change else latest
    return episodes


def _episode_row(episode: list[_Told]) -> tuple[Cell, ...]:
    changes = [(moment, router) for moment, router, event, _ in episode if event == TOPOLOGY_CHANGE]
    (first, first_router), (last, last_router) = changes[0], changes[-1]
    own = [json.loads(detail or "{}") for _, _, event, detail in episode if event == TOPOLOGY_CONVERGED]
    slowest = max((int(detail.get("duration_us", 0)) / 1000 for detail in own), default=None)
    routers = len({router for _, router in changes})
    return (first, (last - first).total_seconds() * 1000, routers, len(changes), first_router, last_router, slowest)


def denials(rollups: Rollups) -> Table:
    """What was refused."""
    return _events(rollups, "denials", "Denials", "What policy denied and which links were refused.", True)


def others(rollups: Rollups) -> Table:
    """All other events but those of the topology."""
    return _events(rollups, "events", "Events", "What else the routers told, equal events counted.", False)


def _events(rollups: Rollups, name: str, title: str, note: str, denied: bool) -> Table:
    table = Table(
        name,
        title,
        note,
        columns(event=TEXT, severity=TEXT, router=TEXT, object=TEXT, detail=TEXT, count=COUNT, first=TIME, last=TIME),
    )
    keys = ("event", "severity", "router", "object", "detail")
    events = (row for row in rollups.events if not row["event"].startswith("topology."))
    rows = [row for row in events if (row["event"] in DENIALS) is denied]
    return fill_from(table, ordered(rows, ("count",), keys))
