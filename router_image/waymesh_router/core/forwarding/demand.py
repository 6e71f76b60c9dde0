"""What the consumers of other routers are ready for: told by those routers, while deliveries wait somewhere.

An ingress router whose deliveries wait for windows asks all routers with consumers of the address. Each tells a window
(`Window.told`): what its consumers can take without being idle, divided among those that ask. Both are states: they are
repeated, so that a lost message only makes work slower. Routers that do not tell anything, as old ones, have the
window that is measured. Source: protocol/demand.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding.demand_answers import LOOKS, Answers, look_cost, next_ones
from waymesh_router.core.forwarding.demand_messages import MICROSECONDS, MOST, PER_RATE, number
from waymesh_router.core.forwarding.spread import Spread, is_spread, is_spread_here
from waymesh_router.core.model import Address, Node, Target

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable

KINDS = "M0"
"""Keys of addresses in the first phase, of which demand is known."""
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
    nodes: set[Node] = field(default_factory=set)
    trips: dict[str, float] = field(default_factory=dict)  # seconds to a router and back, by its id


class Demand:
    """Both sides of it."""

    def __init__(self, context: CoreContext, addresses: AddressTable, spread: Spread) -> None:
        self._context = context
        self._addresses = addresses
        self._spread = spread
        self._asked: dict[Address, Asked] = {}
        self._answers = Answers(context, addresses, spread, self._waits, self._hold)

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

    def _hold(self, address: Address) -> None:
        """Local consumers are held back while the address is hungry, and only then."""
        hungry = is_spread_here(address) and (address in self._asked or address in self._answers)
        if hungry:
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
                if target.window is not None:
                    target.window.told = -1.0
        self._hold(address)

    def _told(self, address: Address, target: Target, body: Mapping[str, object]) -> None:
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
        target.window.told = window + rate / PER_RATE * trips.get(target.node.id, 0.0)
        self._spread.freed[address] = None

    # ---- both
    def tick(self, now: float) -> None:
        """Called several times a second; looks at a limited number of addresses each time, at all in turn."""
        self._spread.tick(now)
        for address in next_ones(self._asked):
            asked = self._asked[address]
            if self._waits(address):
                asked.waited_at = now
                self._ask(address, asked)
            elif now - asked.waited_at >= ENDS_S or address.dead or not is_spread(address):
                self._end(address)
        self._answers.tick(now)

    def arrived(self, router_id: str, body: Mapping[str, object]) -> None:
        """A message of another router."""
        key = body.get("address")
        address = self._addresses.by_key.get(key) if isinstance(key, str) else None
        if address is None or not is_spread_here(address):
            return
        if "waits" in body:
            if address.consumers:
                self._answers.heard(address, router_id, body)
            return
        target = address.targets.get(router_id)
        if target is not None and not target.stale():
            self._told(address, target, body)

    def lost(self) -> None:
        """A router is no longer reachable."""
        self._answers.lost.begin()

    def _send(self, router_id: str, body: Mapping[str, object]) -> None:
        self._context.control_plane.tell(router_id, body)
