"""What the consumers of other routers are ready for: told by those routers, while deliveries wait somewhere.

An ingress router whose deliveries wait for windows asks all routers with consumers of the address. Each tells a window
(`Window.announced`): what its consumers can take without being idle, divided among those that ask. Both are states:
they are repeated, so that a lost message only makes work slower. Routers that do not tell anything, as old ones, have
the window that is measured. Source: protocol/demand.md.

If a consumer of the address has a priority anywhere, the routers with consumers tell by priority how many deliveries
these can take, also while nothing waits (announcements.py): the first delivery goes to who has the highest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding import exclusive
from waymesh_router.core.forwarding.demand_answers import LOOKS, Answers, look_cost, next_ones
from waymesh_router.core.forwarding.demand_messages import MICROSECONDS, MOST, PER_RATE, number
from waymesh_router.core.forwarding.exclusive import KINDS
from waymesh_router.core.forwarding.group_owners import GroupOwners
from waymesh_router.core.forwarding.ranks import decoded, has_priorities, tells_priorities
from waymesh_router.core.forwarding.spread import Spread, is_spread, is_spread_here
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import Address, Node, Target

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable

ASKS_AGAIN_S = 10.0
"""Interval at which an ingress router repeats that it waits; each time it is told the window again."""
ENDS_S = 2.0
"""An ingress router says that it does not wait any more when nothing has waited for this time."""
LONGEST_TRIP_S = 60.0


@dataclass(slots=True)
class Asked:
    """Of an address whose deliveries wait here: the routers that were asked, and when."""

    waited_at: float
    asked_at: float = -math.inf
    ingress: int = 0  # `Address.ingress` at the last look
    nodes: set[Node] = field(default_factory=set)
    trips: dict[str, float] = field(default_factory=dict)  # seconds to a router and back, by its id


@dataclass(slots=True)
class Ranked:
    """Of an address about whose priorities other routers tell: what it was like at the last look."""

    ingress: int
    priorities: int = 0  # number of routers with priorities other than 0


class Demand:
    """Both sides of it."""

    def __init__(self, context: CoreContext, addresses: AddressTable, spread: Spread) -> None:
        self._context = context
        self._addresses = addresses
        self._spread = spread
        self._asked: dict[Address, Asked] = {}
        self._ranked: dict[Address, Ranked] = {}
        self._answers = Answers(context, addresses, spread, self._shares, self._hold)
        addresses.on_priorities = self._priorities_changed
        self.groups = GroupOwners(context, addresses, spread)

    # ---- at the ingress router
    def ask_soon(self) -> None:
        """Ask about the addresses at which deliveries began to wait since the last call; called in each turn."""
        began = self._spread.began
        left = LOOKS
        while began and left > 0:
            address = next(iter(began))
            del began[address]
            left -= look_cost(address)
            if address not in self._asked and self._waits(address):
                self._asked[address] = Asked(self._context.now)
                self._ask(address, self._asked[address])
                self._hold(address)

    def _waits(self, address: Address) -> bool:
        """Whether deliveries that entered the mesh here wait for consumers of which other routers can tell."""
        pending = address.pending
        if pending is None or pending.own() == 0 or not address.key.startswith(KINDS) or not is_spread(address):
            return False
        return any(target.node.demand and not target.stale() for target in address.targets.values())

    def _shares(self, address: Address) -> bool:
        """Whether this router itself is one of those that share the local consumers."""
        return (address.prioritized and address in self._asked) or self._waits(address)

    def _hold(self, address: Address) -> None:
        """Local consumers are held back while the address is hungry, and only then. Priorities go by credit."""
        asks = address in self._asked or address in self._answers
        if asks and is_spread_here(address) and not address.prioritized:
            address.hungry = True
        elif address.hungry:
            self._spread.release(address)

    def _ask(self, address: Address, asked: Asked) -> None:
        """Tell the routers with consumers that deliveries wait here: all of them when it is time, else new ones."""
        now = self._context.now
        again = now - asked.asked_at >= ASKS_AGAIN_S
        if again:
            asked.asked_at = now
        for target in address.targets.values():
            node = target.node
            if node.demand and not target.stale() and (again or node not in asked.nodes):
                asked.nodes.add(node)
                self._send(node.id, {"address": address.key, "waits": 1, "at": int(now * MICROSECONDS)})

    def _end(self, address: Address) -> None:
        """Nothing has waited for a while."""
        asked = self._asked.pop(address)
        for target in address.targets.values():
            if target.node in asked.nodes:
                self._send(target.node.id, {"address": address.key, "waits": 0})
                if target.window is not None and target.ranks is None:
                    target.window.announced = -1.0
        self._hold(address)

    def _on_window(self, address: Address, target: Target, body: Mapping[str, object]) -> None:
        """A router tells its window. What it settles during a round trip is added, so that nobody there waits."""
        if address not in self._asked:
            return
        if target.speed is None:
            self._spread.measure_target(target)
        at, window, rate = number(body, "at"), number(body, "window", MOST), number(body, "rate", MOST)
        if address.usual == 0.0:
            address.usual = number(body, "usual", MOST) / MICROSECONDS
        trips = self._asked[address].trips
        if at > 0:
            trips[target.node.id] = min(max(self._context.now - at / MICROSECONDS, 0.0), LONGEST_TRIP_S)
        if target.ranks is None:
            target.window.announced = window + rate / PER_RATE * trips.get(target.node.id, 0.0)
            self._spread.freed[address] = None

    # ---- priorities
    def _on_ranks(self, address: Address, target: Target, body: Mapping[str, object]) -> None:
        """A router tells the priorities of its consumers, or that it knows of none any more."""
        ranks = decoded(body)
        if ranks is None:
            if target.ranks is None:
                return
            target.window.announced = -1.0
        else:
            if target.speed is None:
                self._spread.measure_target(target)
            target.window.announced = float(ranks[-1][1])
        target.ranks = ranks
        address.ordered = 0
        changed = exclusive.hear(address, target, body, self._context.router_id)
        self._ranked.setdefault(address, Ranked(address.ingress))
        self._look_at_ranks(address, changed)
        if address.consumers and ranks is not None and not address.prioritized:
            self._send(target.node.id, {"address": address.key, "ranks": []})  # it believes that there are some here
        self._spread.freed[address] = None

    def _look_at_ranks(self, address: Address, changed: bool = False) -> None:
        """See whether there are priorities still: routers have told, or have left the address. `changed`: it has
        become exclusive, or is it no longer."""
        seen = self._ranked[address]
        changed |= exclusive.update(address, self._context.router_id)
        if address.exclusive is not None:
            changed |= address.exclusive.agree(address)
        priorities = sum(tells_priorities(target) for target in address.targets.values())
        address.ranked = any(target.ranks is not None for target in address.targets.values())
        if changed or priorities != seen.priorities:
            seen.priorities = priorities
            address.prioritized = has_priorities(address)
            self._priorities_changed(address)
        if not address.ranked:
            del self._ranked[address]
        elif address.ingress != seen.ingress:
            seen.ingress = address.ingress
            if address.prioritized and address not in self._asked:
                asked = self._asked[address] = Asked(self._context.now, ingress=address.ingress)
                self._ask(address, asked)

    def _priorities_changed(self, address: Address) -> None:
        """The address has got its first consumer with a priority, here or elsewhere, or lost the last one; or the local
        consumers of one with priorities are others."""
        if address.exclusive is not None:
            address.exclusive.agree(address)
        self._hold(address)
        self._answers.announcements.changed(address)
        if address.exclusive is not None and address.exclusive.is_news():
            self._answers.order_changed(address)
        if address.pending is not None:
            self._spread.freed[address] = None

    def _flows(self, address: Address, asked: Asked) -> bool:
        """Whether deliveries enter the mesh here for consumers with priorities: windows are shared before any waits."""
        before, asked.ingress = asked.ingress, address.ingress
        return address.prioritized and address.ranked and asked.ingress != before

    def met(self) -> None:
        """A router with demand became reachable."""
        self.groups.met.begin()
        self._answers.announcements.met.begin()

    # ---- both
    def tick(self, now: float) -> None:
        """Called several times a second; looks at a limited number of addresses each time, at all in turn."""
        self._spread.tick(now)
        for address in next_ones(self._ranked):
            self._look_at_ranks(address)
        for address in next_ones(self._asked):
            asked = self._asked[address]
            if self._flows(address, asked) or self._waits(address):
                asked.waited_at = now
                self._ask(address, asked)
            elif now - asked.waited_at >= ENDS_S or address.dead or not is_spread(address):
                self._end(address)
        self._answers.tick(now)
        self.groups.tick()

    def arrived(self, router_id: str, body: Mapping[str, object]) -> None:
        """A message of another router."""
        key = body.get("address")
        address = self._addresses.by_key.get(key) if isinstance(key, str) else None
        if address is None or address.treatment != BALANCED:
            return
        if "waits" in body:
            if address.consumers:
                self._answers.heard(address, router_id, body)
            return
        target = address.targets.get(router_id)
        if target is None or target.stale():
            return
        if "groups" in body:
            self.groups.hear(address, target, body)
            return
        self._on_ranks(address, target, body)
        if "window" in body and is_spread_here(address):
            self._on_window(address, target, body)

    def lost(self) -> None:
        """A router is no longer reachable."""
        self._answers.lost.begin()

    def _send(self, router_id: str, body: Mapping[str, object]) -> None:
        self._context.control_plane.tell(router_id, body)
