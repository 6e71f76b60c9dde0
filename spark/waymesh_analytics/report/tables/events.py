"""Tables from events: convergence times, denials, and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from waymesh_analytics.rollups.definitions import TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED
from waymesh_analytics.rollups.reader import Rollups

from .rows import convert, sort_rows
from .table import Count, Number, Table, Text, Time, make_table

QUIET = timedelta(seconds=5)
"""When no router has changed its paths for this long, the mesh has converged: a later change is another episode."""
MOST_DIGITS = 15
DENIALS = ("policy.denied", "link.refused")


@dataclass(frozen=True, slots=True)
class Convergence:
    """An episode: a change of the topology until all routers have found new paths."""

    first: Time
    duration_ms: Number
    routers: Count
    changes: Count
    first_router: Text
    last_router: Text
    slowest_ms: Number | None


@dataclass(frozen=True, slots=True)
class Event:
    """Equal events, counted."""

    event: Text
    severity: Text | None
    router: Text
    object: Text | None
    detail: Text | None
    count: Count
    first: Time
    last: Time


@dataclass(frozen=True, slots=True, order=True)
class _TopologyEvent:
    time: datetime
    router: str
    event: str
    # JSON.
    detail: str

    @property
    def is_change(self) -> bool:
        return self.event == TOPOLOGY_CHANGE


def convergence(rollups: Rollups) -> Table[Convergence]:
    """How long the routers took to converge after each change of the topology."""
    events = [
        _TopologyEvent(row["moment"], row["router"], row["event"], row["detail"] or "{}")
        for row in rollups.events
        if row["event"] in (TOPOLOGY_CHANGE, TOPOLOGY_CONVERGED)
    ]
    return make_table(
        "convergence",
        "Convergence",
        "Changes of the topology. Routers computed new paths until nothing changed for "
        f"{QUIET.total_seconds():g} s. duration: from the first to the last of them, by the routers' wall clocks; "
        "slowest: the longest time at a single router from the first news to its last new paths, by its own clock.",
        Convergence,
        [_summary(episode) for episode in _episodes(sorted(events))],
    )


def _episodes(events: Iterable[_TopologyEvent]) -> list[list[_TopologyEvent]]:
    """Each episode begins with a change after a quiet time; a converged event belongs to the episode before it."""
    episodes: list[list[_TopologyEvent]] = []
    latest: datetime | None = None
    for event in events:
        if event.is_change and (latest is None or event.time - latest > QUIET):
            episodes.append([])
        if episodes:
            episodes[-1].append(event)
        latest = event.time if event.is_change else latest
    return episodes


def _summary(episode: list[_TopologyEvent]) -> Convergence:
    changes = [event for event in episode if event.is_change]
    details = [json.loads(event.detail) for event in episode if not event.is_change]
    first, last = changes[0], changes[-1]
    return Convergence(
        first=first.time,
        duration_ms=(last.time - first.time).total_seconds() * 1000,
        routers=len({event.router for event in changes}),
        changes=len(changes),
        first_router=first.router,
        last_router=last.router,
        slowest_ms=max((_duration_us(detail) / 1000 for detail in details), default=None),
    )


def _duration_us(detail: Mapping[str, str | None]) -> int:
    """0 where the detail says nothing of use."""
    text = detail.get("duration_us") or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else 0


def denials(rollups: Rollups) -> Table[Event]:
    """What was denied or refused."""
    return _events(rollups, "denials", "Denials", "What a policy denied, and refused links.", True)


def others(rollups: Rollups) -> Table[Event]:
    """All other events except those of the topology."""
    note = "Other events that the routers reported; equal events are counted."
    return _events(rollups, "events", "Events", note, False)


def _events(rollups: Rollups, name: str, title: str, note: str, denied: bool) -> Table[Event]:
    keys = ("event", "severity", "router", "object", "detail")
    events = (row for row in rollups.events if not (row["event"] or "").startswith("topology."))
    rows = [row for row in events if (row["event"] in DENIALS) is denied]
    return make_table(name, title, note, Event, convert(Event, sort_rows(rows, ("count",), keys)))
