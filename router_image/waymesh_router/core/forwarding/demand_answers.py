"""What the local consumers of an address are ready for, told to the routers that ask: see demand.py.

The consumers of an address are counted in portions (core/portions.py): there may be thousands, at many addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding.announcements import Announcements
from waymesh_router.core.forwarding.demand_messages import MICROSECONDS, MOST, PER_RATE, number
from waymesh_router.core.forwarding.exclusive import announced_too
from waymesh_router.core.forwarding.ranks import Room, add_consumer, differs, encoded, part_of
from waymesh_router.core.forwarding.spread import Spread, consumers_of, is_brief, is_spread_here
from waymesh_router.core.forwarding.window import enough_for
from waymesh_router.core.model import Address, RouterLink
from waymesh_router.core.portions import Rounds, RoundsOfEach

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable

Value = TypeVar("Value")

FORGETS_S = 25.0
"""Who has not repeated it for this time does not wait any more, or is gone."""
LOOKS = 64
"""Most addresses that are looked at in one tick or turn of the event loop, fewer if they have many routers."""
TURN_S = 5.0
"""What cannot be divided goes to another ingress router after this time."""
CHANGE = 0.25
"""A window is told again when it has changed by more than this part."""
SLOTS = 2
"""Least deliveries that a consumer should have, here or on the way to it: one in work and one that waits."""
NEARLY = 0.75
"""Who has this part of its window has all of it: not each change is told."""
CONSUMERS = 25
"""Most consumers that are counted in one portion, at a cost of 2 each."""


@dataclass(slots=True)
class Asker:
    """An ingress router that waits, and what it was told."""

    since: float
    heard_at: float
    at: int = 0  # of its question if it was not answered yet
    window: int = -1  # -1: tell it, however little has changed
    room: Room | None = None  # the same by priority
    more: dict[str, object] = field(default_factory=dict)  # with it, see exclusive.py
    knows_usual: bool = False


@dataclass(slots=True)
class Count:
    """Of the consumers of an address that were counted in this round."""

    since: float  # somebody has waited since then
    room: Room = field(default_factory=dict)  # at an address with priorities, the only thing that is counted
    wanted: int = 0
    rate: float = 0.0  # deliveries that they settle in a second
    grown: bool = False


class Answers:
    """The routers that ask, by address. `waits`: whether deliveries wait at this router itself; `changed` is called
    when an address gets its first or loses its last router that asks."""

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        spread: Spread,
        waits: Callable[[Address], bool],
        changed: Callable[[Address], None],
    ) -> None:
        self._context = context
        self._nodes = addresses.nodes
        self._spread = spread
        self._waits = waits
        self._changed = changed
        self._askers: dict[Address, dict[str, Asker]] = {}
        self._counts: dict[Address, Count] = {}
        portions = context.portions
        self._rounds = RoundsOfEach(portions, "consumers for which routers ask", consumers_of, self._count_some)
        self.announcements = Announcements(context, addresses.nodes, self._askers, self._rounds.begin_later)
        self.lost = Rounds(portions, "addresses for which lost routers asked", self._askers, self._leave_lost)

    def __contains__(self, address: Address) -> bool:
        """Whether routers ask for the address."""
        return address in self._askers

    def heard(self, address: Address, router_id: str, body: Mapping[str, object]) -> None:
        """An ingress router waits, or does not any more. It is answered in the next turn."""
        askers = self._askers.setdefault(address, {})
        self._changed(address)
        if number(body, "waits"):
            now = self._context.now
            asker = askers.setdefault(router_id, Asker(now, now))
            asker.heard_at, asker.window, asker.at = now, -1, number(body, "at")
        elif askers.pop(router_id, None) is not None:
            self.announcements.asks_no_more(address, router_id)
        if askers:
            self._rounds.begin_later(address)
        else:
            self._forget(address)

    def order_changed(self, address: Address) -> None:
        """The local consumer that gets all deliveries has left, or another one is the first: who sends here must know
        it soon, as what comes meanwhile is perhaps released."""
        if self.announcements.may_tell_at_once(address):
            room = address.exclusive.room()
            self._tell_room(address, self._askers.get(address, {}), room)
            self.announcements.counted(address, room)

    def tick(self, now: float) -> None:
        """Look at a limited number of addresses each time, at all in turn."""
        for address in next_ones(self.announcements.states):
            self.announcements.look(address, now)
        for address in next_ones(self._askers):
            askers = self._askers[address]
            for router_id in [i for i, asker in askers.items() if now - asker.heard_at > FORGETS_S]:
                del askers[router_id]
            if askers and address.consumers and is_spread_here(address):
                self._rounds.begin_later(address)
            else:
                self._forget(address)

    def _forget(self, address: Address) -> None:
        """Nobody asks any more."""
        del self._askers[address]
        self._changed(address)

    def _leave_lost(self, address: Address) -> int:
        """Forget the routers that are no longer reachable; returns the cost."""
        askers = self._askers.get(address)
        if askers is None:
            return 1
        lost = [router_id for router_id in askers if router_id not in self._nodes]
        for router_id in lost:
            del askers[router_id]
        if not askers:
            self._forget(address)
        elif lost:
            self._rounds.begin_later(address)
        return 2 + len(askers) // 4

    # ---- what the consumers can take
    def _count_some(self, address: Address, left: list[RouterLink]) -> int:
        """Take some consumers from the end of the list and count them; tell the windows after the last one. Returns
        the cost."""
        askers = self._askers.get(address, {})
        if not askers and address not in self.announcements.states:
            self._counts.pop(address, None)
            left.clear()
            return 1
        count = self._counts.get(address)
        if count is None:
            since = min((asker.since for asker in askers.values()), default=self._context.now)
            count = self._counts[address] = Count(since)
        taken = min(len(left), CONSUMERS)
        for _ in range(taken):
            out = left.pop()
            if out.address is address:
                self._count(address, count, out)
        if left:
            return 2 * taken
        del self._counts[address]
        if address.prioritized:
            room = count.room if address.exclusive is None else address.exclusive.room()
            self._tell_room(address, askers, room)
            self.announcements.counted(address, room)
        else:
            self._tell(address, askers, count)
        return 2 * taken + len(askers)

    def _count(self, address: Address, count: Count, out: RouterLink) -> None:
        """What a consumer should have: never more than its credit allows, and one that waits here; all that it allows
        if it needs little time.

        Its window grows, as in Spread.look, if it settles nothing although it has all of it: perhaps it settles only
        when it has more."""
        if address.prioritized:
            if address.exclusive is None:
                add_consumer(count.room, out)
            return
        self._spread.hold(out)
        window = out.window
        room = out.unsettled + max(out.credit, 0)
        if room > window.limit and out.unsettled >= NEARLY * window.limit:
            held = max(out.unsettled, math.ceil(window.limit))
            count.grown |= window.look(self._context.now, held, count.since, address.usual)
        at_once = max(min(window.concurrency, room), 1)
        room = max(room, math.ceil(enough_for(at_once)))
        limit = math.ceil(max(window.limit, SLOTS)) if window.concurrency == 0 else math.floor(window.limit)
        count.wanted += room if is_brief(out) else min(room, limit)
        count.rate += at_once / out.speed.each if out.speed.each > 0.0 else 0.0

    def _tell(self, address: Address, askers: dict[str, Asker], count: Count) -> None:
        """Divide what the consumers can take among those that wait, and tell them what has changed."""
        own = self._context.router_id
        ids, turn = self._sharers(address, askers)
        total, rate = min(count.wanted, MOST), min(int(count.rate * PER_RATE), MOST)
        for place, router_id in enumerate(ids):
            if router_id == own:
                continue
            window = (total + (place + turn) % len(ids)) // len(ids)
            asker = askers[router_id]
            news = count.grown or asker.window < 0 or (address.usual > 0.0 and not asker.knows_usual)
            if news or abs(window - asker.window) > CHANGE * asker.window:
                asker.window, asker.knows_usual = window, address.usual > 0.0
                body = {"address": address.key, "window": window, "rate": rate // len(ids)}
                usual = min(int(address.usual * MICROSECONDS), MOST)
                self._context.control_plane.tell(router_id, body | {"usual": usual, "at": asker.at})
                asker.at, asker.room = 0, None

    def _tell_room(self, address: Address, askers: dict[str, Asker], room: Room) -> None:
        """The same by priority, at an address whose consumers have some."""
        ids, turn = self._sharers(address, askers)
        more = announced_too(address)
        for place, router_id in enumerate(ids):
            if router_id == self._context.router_id:
                continue
            asker = askers[router_id]
            part = part_of(room, place, turn, len(ids))
            if asker.window < 0 or asker.more != more or differs(asker.room, part):
                asker.window, asker.room, asker.more = min(sum(part.values()), MOST), part, more
                body = {"address": address.key, "window": asker.window, "ranks": encoded(part), "at": asker.at}
                self._context.control_plane.tell(router_id, body | more)
                asker.at = 0

    def _sharers(self, address: Address, askers: dict[str, Asker]) -> tuple[list[str], int]:
        """The routers that share the consumers, in order; and whose turn it is to get what cannot be divided."""
        own = self._context.router_id
        return sorted([*askers, own] if self._waits(address) else askers), int(self._context.now / TURN_S)


def look_cost(address: Address) -> int:
    """What a look at an address counts, of LOOKS."""
    return 1 + len(address.targets) // 4


def next_ones(table: dict[Address, Value]) -> Iterator[Address]:
    """The addresses of a table that are looked at now; they go to its end, so that all have their turn."""
    left = LOOKS
    for address in list(islice(table, LOOKS)):
        if left <= 0:
            return
        left -= look_cost(address)
        table[address] = table.pop(address)
        yield address
