"""The links between routers: their traffic and losses."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from waymesh_analytics.rollups.reader import INTER_ROUTER, Rollups, Row
from waymesh_schema.telemetry import ORDERLY_STOP

from .table import Count, Table, Text, make_table

CONNECTION_DOWN = "connection.down"
COUNTERS = ("deliveries", "dropped_presettled")
Direction = tuple[str, str]
"""From a router to its neighbour."""


@dataclass(frozen=True, slots=True)
class MeshLink:
    """What connects two routers; `router` sorts before `neighbour`."""

    router: Text
    neighbour: Text
    cost: Count | None
    # Deliveries from `router` to `neighbour`, and back.
    forth: Count
    back: Count
    dropped: Count
    broken: Count

    @property
    def deliveries(self) -> int:
        """In both directions."""
        return self.forth + self.back

    @property
    def lossy(self) -> bool:
        """Whether it lost its connection or dropped deliveries."""
        return self.broken > 0 or self.dropped > 0

    @property
    def losses(self) -> str:
        """A description of its losses; empty if none."""
        broken = f"broke {'once' if self.broken == 1 else f'{self.broken:,} times'}"
        parts = ((broken, self.broken), (f"{self.dropped:,} dropped", self.dropped))
        return ", ".join(text for text, number in parts if number)


def mesh_links(rollups: Rollups) -> Table[MeshLink]:
    """Each pair of linked routers."""
    carried = [row for row in rollups.links if row["type"] == INTER_ROUTER]
    return make_table(
        "mesh_links",
        "Links between routers",
        "Deliveries from router to neighbour (forth) and back. dropped: dropped pre-settled deliveries; broken: "
        "connections that were lost, without those of routers that were stopped in order.",
        MeshLink,
        link_rows(rollups.edges, carried, rollups.events),
    )


def link_rows(edges: Iterable[Row], carried: Iterable[Row], events: Iterable[Row]) -> list[MeshLink]:
    """The busiest link first. Both routers count what a link carries and whether it breaks: the larger number holds,
    because records can be missing."""
    costs: dict[Direction, int] = {(row["dest"], row["neighbour"]): row["cost"] for row in edges}
    deliveries, dropped = _carried(carried)
    broken = _broken(events)
    ways = {*costs, *deliveries, *broken}
    rows = []
    for here, there in sorted({(min(way), max(way)) for way in ways}):
        both = [(here, there), (there, here)]
        row = MeshLink(
            here,
            there,
            cost=min((costs[way] for way in both if way in costs), default=None),
            forth=deliveries.get((here, there), 0),
            back=deliveries.get((there, here), 0),
            dropped=sum(dropped.get(way, 0) for way in both),
            broken=max(broken.get(way, 0) for way in both),
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (-row.deliveries, row.router, row.neighbour))


def _carried(rows: Iterable[Row]) -> tuple[Mapping[Direction, int], Mapping[Direction, int]]:
    """Deliveries and dropped deliveries of each way: sums over its links and boots, as counted at one of its ends."""
    sums: dict[str, dict[Direction, Counter[str]]] = {name: defaultdict(Counter) for name in COUNTERS}
    for row in rows:
        if row["container"] is None:
            continue
        here, there = row["router"], row["container"]
        way = (here, there) if row["dir"] == "out" else (there, here)
        for name in COUNTERS:
            sums[name][way][here] += row[name] or 0
    deliveries, dropped = ({way: max(ends.values()) for way, ends in sums[name].items()} for name in COUNTERS)
    return deliveries, dropped


def _broken(events: Iterable[Row]) -> Mapping[Direction, int]:
    """How often a router lost the connection to another one that had not been stopped."""
    found: Counter[Direction] = Counter()
    for row in events:
        if row["event"] == CONNECTION_DOWN and row["object"] is not None:
            detail = json.loads(row["detail"] or "{}")
            error = detail.get("error")
            if detail.get("role") == INTER_ROUTER and error is not None and ORDERLY_STOP not in error:
                found[row["router"], row["object"]] += row["count"]
    return found
