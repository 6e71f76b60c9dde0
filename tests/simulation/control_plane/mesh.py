"""A mesh of routing engines under virtual time. The harness does what a core does with the effects, and no more:
it keeps the tables that the effects describe, forwards control messages by them and refuses inconsistent effects.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

from waymesh_router.routing.effects import (
    Effect,
    LinkStateChanged,
    LogEvent,
    MobileAdd,
    MobileDel,
    MobileFlush,
    NodeDown,
    NodeUp,
    RefuseRouter,
    SendAll,
    SendHello,
    SendTo,
    SetCost,
    SetLink,
    SetNextHop,
    SetValidOrigins,
    TopologyChanged,
)
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.settings import RoutingSettings


@dataclass
class Entry:
    """A node as the core knows it."""

    link_id: int | None = None
    next_hop: str | None = None
    cost: int = 0
    origins: Set[str] = frozenset()
    mobiles: dict[str, int] = field(default_factory=dict)


@dataclass
class Cable:
    """An inter-router connection: two ends (router, link id)."""

    ends: tuple[tuple[str, int], tuple[str, int]]
    latency: float
    cost: int
    up: bool = True
    silent: bool = False

    def far(self, router_id: str) -> tuple[str, int]:
        return self.ends[1] if self.ends[0][0] == router_id else self.ends[0]


class Router:
    """One router: its engine and the tables made of its effects."""

    def __init__(self, place: str, settings: RoutingSettings, now: float) -> None:
        self.id = place
        self.engine = RoutingEngine(settings, now)
        self.table: dict[str, Entry] = {}
        self.neighbours: dict[str, Entry] = {}
        self.links: dict[int, Cable] = {}
        self.logs: list[LogEvent] = []
        self.refused: list[RefuseRouter] = []
        self.alive = True
        self.local_mobiles: dict[str, int] = {}
        self.wakes: set[float] = set()
        self.flood_cache: dict[tuple[str, int | None], set[int]] = {}

    def toward(self, router_id: str) -> int | None:
        """Link by which a router is reached, as a core finds it."""
        entry = self.table.get(router_id)
        if entry is not None and entry.next_hop is not None:
            entry = self.table[entry.next_hop]
        return None if entry is None else entry.link_id

    def note_link(self, router_id: str) -> None:
        """The link to a router changed."""
        entry = self.table[router_id]
        if entry.link_id is None:
            self.neighbours.pop(router_id, None)
        else:
            self.neighbours[router_id] = entry

    def flood_links(self, ingress: str, came_by: int | None) -> set[int]:
        """Links for a flooded message of this ingress router.

        A path on the tree of the ingress router leads through a neighbour only where that neighbour's own path does.
        """
        cached = self.flood_cache.get((ingress, came_by))
        if cached is not None:
            return cached
        found = self.flood_cache[ingress, came_by] = {
            entry.link_id
            for router_id, entry in self.neighbours.items()
            if entry.next_hop is None
            and entry.link_id is not None
            and entry.link_id != came_by
            and router_id != ingress
            and (ingress == self.id or ingress in entry.origins)
        }
        return found


class Mesh:
    """Routers, cables and a heap of events. Times are virtual seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.routers: dict[str, Router] = {}
        self.cables: list[Cable] = []
        self.sent: Counter[str] = Counter()
        """Messages handed to a link, by opcode (each hop counts)."""
        self.unroutable = 0
        self._events: list[tuple[float, int, tuple[object, ...]]] = []
        self._count = itertools.count()
        self._link_ids = itertools.count(1)

    # How a mesh is built and broken.

    def add(self, *ids: str, instance: int = 1) -> None:
        for router_id in ids:
            self.add_at(router_id, router_id, instance)

    def add_at(self, place: str, router_id: str, instance: int = 1) -> None:
        """A router at a place of another name than its id: with an id that another router has."""
        self.routers[place] = Router(place, RoutingSettings(router_id, instance=instance), self.now)
        self._arm(self.routers[place])

    def connect(self, one: str, other: str, cost: int = 1, latency: float = 0.001) -> Cable:
        cable = Cable(((one, next(self._link_ids)), (other, next(self._link_ids))), latency, cost)
        self.cables.append(cable)
        self._attach(cable)
        return cable

    def _attach(self, cable: Cable) -> None:
        for router_id, link_id in cable.ends:
            router = self.routers[router_id]
            router.links[link_id] = cable
            self.apply(router, router.engine.link_up(link_id, cable.cost, self.now))

    def cut(self, cable: Cable) -> None:
        """The connection drops; both ends notice at once. Messages in flight are lost."""
        cable.up = False
        for router_id, link_id in cable.ends:
            router = self.routers[router_id]
            if router.alive and router.links.pop(link_id, None) is not None:
                self.apply(router, router.engine.link_lost(link_id, self.now))

    def mend(self, cable: Cable) -> Cable:
        return self.connect(cable.ends[0][0], cable.ends[1][0], cable.cost, cable.latency)

    def kill(self, router_id: str) -> list[Cable]:
        """The router dies; returns its cables."""
        router = self.routers[router_id]
        router.alive = False
        cables = list(router.links.values())
        for cable in cables:
            self.cut(cable)
        return cables

    def restart(self, router_id: str, instance: int) -> None:
        cables = self.kill(router_id)
        self.add(router_id, instance=instance)
        for cable in cables:
            self.mend(cable)

    def mobile(self, router_id: str, key: str, treatment: int | None) -> None:
        """Set or (None) remove a local address."""
        router = self.routers[router_id]
        if treatment is None:
            del router.local_mobiles[key]
            self.apply(router, router.engine.mobile_removed(key, self.now))
        else:
            router.local_mobiles[key] = treatment
            self.apply(router, router.engine.mobile_added(key, treatment, self.now))

    # Time

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            self._handle(event)
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit: float) -> float:
        """Run until the condition holds after an event; returns the time it took. Fails after `limit` seconds."""
        start = self.now
        while not condition():
            assert self._events[0][0] <= start + limit, f"not reached within {limit} virtual seconds"
            self.now, _, event = heapq.heappop(self._events)
            self._handle(event)
        return self.now - start

    def _push(self, at: float, *event: object) -> None:
        heapq.heappush(self._events, (at, next(self._count), event))

    def _arm(self, router: Router) -> None:
        at = max(self.now, router.engine.deadline())
        if at < math.inf and at not in router.wakes:
            router.wakes.add(at)
            self._push(at, "tick", router)

    def _handle(self, event: tuple[Any, ...]) -> None:
        if event[0] == "tick":
            router = event[1]
            router.wakes.discard(self.now)
            if router.alive and router.engine.deadline() <= self.now:
                self.apply(router, router.engine.tick(self.now))
            elif router.alive:
                self._arm(router)
            return
        _, cable, router_id, link_id, envelope = event
        router = self.routers[router_id]
        if cable.up and not cable.silent and router.links.get(link_id) is cable:
            self._receive(router, link_id, *envelope)

    # What a core does

    def apply(self, router: Router, effects: list[Effect]) -> None:
        for effect in effects:
            self._apply(router, effect)
        self._arm(router)
        for effect in effects:
            if isinstance(effect, RefuseRouter) and effect.link_id in router.links:
                router.refused.append(effect)
                self.cut(router.links[effect.link_id])

    def _apply(self, router: Router, effect: Effect) -> None:
        match effect:
            case SendHello(link_id, body):
                self._transmit(router, link_id, ("HELLO", body, router.id, None))
            case SendAll(opcode, body, _):
                for link_id in router.flood_links(router.id, None):
                    self._transmit(router, link_id, (opcode, body, router.id, None))
            case SendTo(router_id, opcode, body, _):
                assert router_id in router.table
                self._unicast(router, (opcode, body, router.id, router_id))
            case LinkStateChanged() | RefuseRouter():
                pass
            case LogEvent():
                router.logs.append(effect)
            case TopologyChanged():
                router.flood_cache.clear()
            case _:
                if not isinstance(effect, MobileAdd | MobileDel | MobileFlush):
                    router.flood_cache.clear()
                self._tabulate(router.table, effect)
                if isinstance(effect, SetLink):
                    router.note_link(effect.router_id)

    def _tabulate(self, table: dict[str, Entry], effect: Effect) -> None:
        match effect:
            case NodeUp(router_id):
                assert router_id not in table
                table[router_id] = Entry()
            case NodeDown(router_id):
                entry = table.pop(router_id)
                assert not entry.mobiles
                assert entry.link_id is None
                assert all(other.next_hop != router_id for other in table.values())
            case SetLink(router_id, link_id):
                assert table[router_id].link_id != link_id
                table[router_id].link_id = link_id
            case SetNextHop(router_id, next_hop):
                assert table[router_id].next_hop != next_hop
                assert next_hop is None or next_hop in table
                table[router_id].next_hop = next_hop
            case SetCost(router_id, cost):
                assert table[router_id].cost != cost
                table[router_id].cost = cost
            case SetValidOrigins(router_id, origins):
                assert table[router_id].origins is not origins
                table[router_id].origins = origins
            case MobileAdd(router_id, key, treatment):
                assert table[router_id].mobiles.get(key) != treatment
                table[router_id].mobiles[key] = treatment
            case MobileDel(router_id, key):
                del table[router_id].mobiles[key]
            case MobileFlush(router_id):
                assert table[router_id].mobiles
                table[router_id].mobiles.clear()
            case _:
                raise AssertionError(effect)

    def _unicast(self, router: Router, envelope: tuple[Any, ...]) -> None:
        link_id = router.toward(envelope[3])
        if link_id is None:
            self.unroutable += 1
        else:
            self._transmit(router, link_id, envelope)

    def _transmit(self, router: Router, link_id: int, envelope: tuple[Any, ...], hops: int = 0) -> None:
        cable = router.links.get(link_id)
        assert cable is not None, "sent on a connection that is gone"
        self.sent[envelope[0]] += 1
        far_id, far_link = cable.far(router.id)
        self._push(self.now + cable.latency, "arrive", cable, far_id, far_link, (*envelope, hops + 1))

    def _receive(
        self, router: Router, link_id: int, opcode: str, body: Any, ingress: str, target: str | None, hops: int
    ) -> None:
        if hops > 400:
            self.unroutable += 1  # A trace list would have stopped it where it came by twice.
            return
        envelope = (opcode, body, ingress, target)
        if target is not None and target != router.id:
            onward = router.toward(target)
            if onward is None:
                self.unroutable += 1
            else:
                self._transmit(router, onward, envelope, hops)
            return
        if target is None and opcode != "HELLO":
            for onward in router.flood_links(ingress, link_id):
                self._transmit(router, onward, envelope, hops)
        self.apply(router, router.engine.on_control(link_id, opcode, body, self.now))

    # Questions

    def alive(self) -> dict[str, Router]:
        return {router_id: router for router_id, router in self.routers.items() if router.alive}

    def components(self) -> list[set[str]]:
        """Sets of routers that are connected with each other."""
        left = set(self.alive())
        parts = []
        while left:
            part, stack = set(), [left.pop()]
            while stack:
                router_id = stack.pop()
                part.add(router_id)
                stack.extend({cable.far(router_id)[0] for cable in self.routers[router_id].links.values()} - part)
            left -= part
            parts.append(part)
        return parts

    def converged(self) -> bool:
        """Every router has every router of its component with its addresses, and nobody else."""
        return all(self._complete(self.routers[router_id], part) for part in self.components() for router_id in part)

    def _complete(self, router: Router, part: set[str]) -> bool:
        nodes = router.engine.nodes
        return router.table.keys() == part - {router.id} and all(
            entry.mobiles == self.routers[other].local_mobiles
            and nodes[other].link_state == self.routers[other].engine.local.link_state
            for other, entry in router.table.items()
        )
