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
from itertools import islice
from typing import TYPE_CHECKING

from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding.spread import Spread, is_brief, is_spread
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import Address, Node, RouterLink, Target

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable

KINDS = "M0"
"""Keys of addresses in the first phase, of which demand is known."""
ASKS_AGAIN_S = 10.0
"""Interval at which an ingress router repeats that it waits; each time it is told the window again."""
FORGETS_S = 25.0
"""Who has not repeated it for this time does not wait any more, or is gone."""
LOOKS = 64
"""Most addresses that are looked at in one turn of the event loop."""
ENDS_S = 2.0
"""An ingress router says that it does not wait any more when nothing has waited for this time."""
TURN_S = 5.0
"""What cannot be divided goes to another ingress router after this time."""
CHANGE = 0.25
"""A window is told again when it has changed by more than this part."""
SLOTS = 2
"""Least deliveries that a consumer should have, here or on the way to it: one in work and one that waits."""
NEARLY = 0.75
"""Who has this part of its window has all of it: not each change is told."""
LONGEST_TRIP_S = 60.0
MICROSECONDS = 1e6
PER_RATE = 1000
"""Rates are told as deliveries in this number of seconds."""
MOST = 1 << 31
"""Largest number in a message."""


@dataclass(slots=True)
class Asked:
    """Of an address whose deliveries wait here: the routers that were asked, and when."""

    waited_at: float
    asked_at: float = -math.inf
    nodes: set[Node] = field(default_factory=set)
    trips: dict[str, float] = field(default_factory=dict)  # seconds to a router and back, by its id


@dataclass(slots=True)
class Asker:
    """An ingress router that waits, and what it was told."""

    since: float
    heard_at: float
    window: int = -1
    knows_usual: bool = False


class Demand:
    """Both sides of it."""

    def __init__(self, context: CoreContext, addresses: AddressTable, spread: Spread) -> None:
        self._context = context
        self._addresses = addresses
        self._spread = spread
        self._asked: dict[Address, Asked] = {}
        self._askers: dict[Address, dict[str, Asker]] = {}

    # ---- at the ingress router
    def ask_soon(self) -> None:
        """Ask about the addresses at which deliveries began to wait since the last call; called in each turn."""
        began = self._spread.began
        for address in list(islice(began, LOOKS)) if began else ():
            del began[address]
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
        hungry = is_spread_here(address) and (address in self._asked or address in self._askers)
        if hungry and not address.hungry:
            self._spread.hold(address)
        elif address.hungry and not hungry:
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
        at, window, rate = _number(body, "at"), _number(body, "window"), _number(body, "rate")
        if address.usual == 0.0:
            address.usual = _number(body, "usual") / MICROSECONDS
        trips = self._asked[address].trips
        if at > 0:
            trips[target.node.id] = min(max(self._context.now - at / MICROSECONDS, 0.0), LONGEST_TRIP_S)
        target.window.told = window + rate / PER_RATE * trips.get(target.node.id, 0.0)
        self._spread.freed[address] = None

    # ---- at the egress router
    def _heard(self, address: Address, router_id: str, body: Mapping[str, object]) -> None:
        """An ingress router waits, or does not any more."""
        askers = self._askers.setdefault(address, {})
        self._hold(address)
        if _number(body, "waits"):
            now = self._context.now
            asker = askers.setdefault(router_id, Asker(now, now))
            asker.heard_at, asker.window = now, -1
            self._tell(address, askers, router_id, _number(body, "at"))
        elif askers.pop(router_id, None) is not None:
            self._tell(address, askers)
        if not askers:
            self._forget(address)

    def _forget(self, address: Address) -> None:
        """Nobody asks any more."""
        del self._askers[address]
        self._hold(address)

    def _tell(self, address: Address, askers: dict[str, Asker], asker_id: str = "", at: int = 0) -> None:
        """Divide what the consumers can take among those that wait, and tell them what has changed."""
        own = self._context.router_id
        ids = sorted([*askers, own] if self._waits(address) else askers)
        self._spread.hold(address)  # some may be new
        total, rate = _wanted(address)
        turn = int(self._context.now / TURN_S)
        for place, router_id in enumerate(ids):
            if router_id == own:
                continue
            window = (total + (place + turn) % len(ids)) // len(ids)
            asker = askers[router_id]
            news = address.usual > 0.0 and not asker.knows_usual
            if news or asker.window < 0 or abs(window - asker.window) > CHANGE * asker.window:
                asker.window, asker.knows_usual = window, address.usual > 0.0
                body = {"address": address.key, "window": window, "rate": rate // len(ids)}
                usual = min(int(address.usual * MICROSECONDS), MOST)
                self._send(router_id, body | {"usual": usual, "at": at if router_id == asker_id else 0})

    # ---- both
    def tick(self, now: float) -> None:
        """Called several times a second; looks at a limited number of addresses each time, at all in turn."""
        self._spread.tick(now)
        for address in list(islice(self._asked, LOOKS)):
            asked = self._asked[address] = self._asked.pop(address)
            if self._waits(address):
                asked.waited_at = now
                self._ask(address, asked)
            elif now - asked.waited_at >= ENDS_S or address.dead or not is_spread(address):
                self._end(address)
        for address in list(islice(self._askers, LOOKS)):
            askers = self._askers[address] = self._askers.pop(address)
            for router_id in [i for i, asker in askers.items() if now - asker.heard_at > FORGETS_S]:
                del askers[router_id]
            if askers and address.consumers and is_spread_here(address):
                self._tell(address, askers)
                if _grow(address, now, min(asker.since for asker in askers.values())):
                    for asker in askers.values():
                        asker.window = -1  # tell it, however little it is
            else:
                self._forget(address)

    def arrived(self, router_id: str, body: Mapping[str, object]) -> None:
        """A message of another router."""
        key = body.get("address")
        address = self._addresses.by_key.get(key) if isinstance(key, str) else None
        if address is None or not is_spread_here(address):
            return
        if "waits" in body:
            if address.consumers:
                self._heard(address, router_id, body)
            return
        target = address.targets.get(router_id)
        if target is not None and not target.stale():
            self._told(address, target, body)

    def lost(self, router_id: str) -> None:
        """A router is no longer reachable."""
        for address, askers in list(self._askers.items()):
            if askers.pop(router_id, None) is not None and not askers:
                self._forget(address)

    def _send(self, router_id: str, body: Mapping[str, object]) -> None:
        self._context.control_plane.tell(router_id, body)


def is_spread_here(address: Address) -> bool:
    """Whether demand has a meaning for the address: several could ask for its consumers."""
    if address.treatment != BALANCED or address.prioritized:
        return False
    return bool(address.consumers) or is_spread(address)


def _wanted(address: Address) -> tuple[int, int]:
    """How many deliveries all local consumers should have, and how many they settle in PER_RATE seconds: never more
    than their credit allows, and one that waits here; of those that need little time, all that it allows."""
    total = 0
    rate = 0.0
    out: RouterLink
    for out in address.consumers:
        room = max(out.unsettled + max(out.credit, 0), SLOTS)
        total += room if is_brief(out) else min(room, math.ceil(max(out.window.limit, SLOTS)))
        rate += 1.0 / out.speed.each if out.speed.each > 0.0 else 0.0
    return min(total, MOST), min(int(rate * PER_RATE), MOST)


def _grow(address: Address, now: float, since: float) -> bool:
    """Windows of consumers that settle nothing although they have all of it become larger, as in Spread.look: perhaps
    they settle only when they have more. `since`: somebody has waited since then. Returns whether one has grown."""
    grown = False
    out: RouterLink
    for out in address.consumers:
        held = max(out.unsettled, math.ceil(out.window.limit))
        if out.unsettled >= NEARLY * out.window.limit:
            grown |= out.window.look(now, held, since, address.usual)
    return grown


def _number(body: Mapping[str, object], key: str) -> int:
    value = body.get(key)
    return value if isinstance(value, int) and value >= 0 else 0
