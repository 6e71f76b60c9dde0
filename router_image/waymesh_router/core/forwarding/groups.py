"""Message groups: all messages of one `group-id` go to one consumer of the mesh, as long as it is there.

The group-ids of an address are divided into SLOTS classes by their hash: a slot. Each slot belongs to one router with
consumers, and there, from its first message on, to one of them. So what has to be remembered is limited, and routers
tell each other which slots they have as bits of a number (group_owners.py). A slot without a consumer can be given to
another router; the one that has it decides this, so that never two have it but after a partition, or when both had
their first consumer at the same time: then the router with the lower id keeps it. Broker-J manual 4.7.2, whose default
mode this is. Source: protocol/demand.md "Message groups".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from zlib import crc32

from waymesh_router.core.forwarding.exclusive import is_possible
from waymesh_router.core.portions import AT_ONCE

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, RouterLink, Target

SLOTS = 1024
"""Slot 0 of `Queued.slot` means no group, so they are numbered from 1 on."""
ALL = (1 << (SLOTS + 1)) - 2
"""All slots, as bits."""
LOOKS = 16
"""Most consumers among which one is chosen for a slot."""


class Route(Enum):
    """Where a slot is, if not at another router."""

    HERE = 1
    LATER = 2
    """Not known yet: its deliveries wait."""
    NOWHERE = 3
    """The address has no consumer."""


@dataclass(slots=True)
class Told:
    """What another router tells: the number of its consumers, its slots, and those that it gives to others."""

    consumers: int
    slots: int
    gives: dict[str, int] = field(default_factory=dict)


class Groups:
    """The slots of an address at this router.

    `slots`: those that belong to it; `taken`: those of them that belong to a consumer; `gives`: by router, those that
    belong to it from now on, until it says so itself; `incomplete`: other routers have not told theirs yet.

    `lost`: consumers and links to other routers that have ended, for each of which so much waited that it moves to
    others in portions, the last one that ended first: what has moved to a link is older than what has not. `moving`:
    their slots. What arrives for these waits behind all that, at the first one of `lost`. See lost_links.py.
    """

    __slots__ = (
        "_turn", "gives", "held", "incomplete", "lost", "moving", "own_id", "routes", "slots", "taken", "takers",
    )  # fmt: skip

    def __init__(self, own_id: str) -> None:
        self.own_id = own_id
        self.slots = self.taken = 0
        self.gives: dict[str, int] = {}
        self.takers: dict[int, RouterLink] = {}
        self.held: dict[RouterLink, int] = {}
        self.routes: dict[int, Target | Route] = {}
        self.incomplete = False
        self.lost: dict[RouterLink, None] = {}
        self.moving = 0
        self._turn = 0

    # ---- the consumers of this router
    def consumer(self, address: Address, slot: int) -> RouterLink:
        """The local consumer for a slot of this router: the address must have one."""
        out = self.takers.get(slot)
        if out is None:
            out = self.takers[slot] = self._next(address.consumers)
            self.held[out] = self.held.get(out, 0) | 1 << slot
            self.taken |= 1 << slot
        return out

    def _next(self, consumers: list[RouterLink]) -> RouterLink:
        """Of the next consumers in turn, one with credit that has the fewest slots."""
        count = len(consumers)
        places = [(self._turn + 1 + step) % count for step in range(min(count, LOOKS))]
        ranks = [(consumers[at].credit <= 0, self.held.get(consumers[at], 0).bit_count()) for at in places]
        self._turn = places[ranks.index(min(ranks))]
        return consumers[self._turn]

    def leave(self, address: Address, out: RouterLink) -> None:
        """A local consumer has left: each of its slots goes to another one with its next message."""
        slots = self.held.pop(out, 0)
        self._free(slots)
        if out.over and out.undelivered() > AT_ONCE:
            self.lose(out, slots)
        if not address.consumers:
            self._end()

    def lose(self, out: RouterLink, slots: int) -> None:
        """A link has ended for which deliveries of these slots wait: they move in portions."""
        self.lost[out] = None
        self.moving |= slots

    def next_lost(self) -> RouterLink:
        """The lost link whose deliveries move next: for one of them, some must wait."""
        while True:
            last = next(reversed(self.lost))
            if last.queue is not None:
                return last
            self.has_moved(last)

    def first_lost(self) -> RouterLink | None:
        """The lost link whose deliveries move last, None if all have moved."""
        while self.lost:
            first = next(iter(self.lost))
            if first.queue is not None:
                return first
            self.has_moved(first)
        return None

    def has_moved(self, out: RouterLink) -> None:
        """All that waited for a lost link has moved."""
        self.lost.pop(out, None)
        if not self.lost:
            self.moving = 0

    def _end(self) -> None:
        """This router has no consumer, and so no slots."""
        self.slots = 0
        self.gives.clear()
        self.routes.clear()

    def _free(self, slots: int) -> None:
        self.taken &= ~slots
        for slot in numbers(slots):
            del self.takers[slot]

    # ---- all routers
    def agree(self, address: Address, may_give: bool) -> None:
        """Bring what belongs to this router up to date, after something was told or has changed here. `may_give`: what
        is given away is told at once."""
        self.routes.clear()
        told = {t.node.id: t.groups for t in address.targets.values() if t.groups is not None and not t.stale()}
        here = len(address.consumers)
        if not here:
            self._end()
            return
        self._end_gifts(told)
        self._receive(told)
        self._yield(told)
        if not self.incomplete:
            self._adopt(told)
            if may_give:
                self._give(told, here)

    def _end_gifts(self, told: dict[str, Told]) -> None:
        """Who was given slots has them, or has gone."""
        for router_id, slots in list(self.gives.items()):
            taker = told.get(router_id)
            if taker is None:
                self.slots |= slots
            left = slots & ~_known_to_have(taker) if taker is not None else 0
            if left:
                self.gives[router_id] = left
            else:
                del self.gives[router_id]

    def _receive(self, told: dict[str, Told]) -> None:
        """Other routers give slots to this one."""
        theirs = self._given() | _together(one.slots for one in told.values())
        for one in told.values():
            self.slots |= one.gives.get(self.own_id, 0) & ~theirs

    def _yield(self, told: dict[str, Told]) -> None:
        """Of two routers that have a slot, the one with the lower id keeps it."""
        for router_id, one in told.items():
            if router_id < self.own_id and self.slots & one.slots:
                self._lose(self.slots & one.slots)

    def _lose(self, slots: int) -> None:
        self.slots &= ~slots
        for out, held in list(self.held.items()):
            if held & slots:
                self._free(held & slots)
                if held & ~slots:
                    self.held[out] = held & ~slots
                else:
                    del self.held[out]

    def _adopt(self, told: dict[str, Told]) -> None:
        """What nobody has belongs to the lowest router that has something; if nobody has, to the lowest of all."""
        known = self.slots | self._given()
        for one in told.values():
            known |= one.slots
            for router_id, slots in one.gives.items():
                if router_id in told or router_id == self.own_id:
                    known |= slots
        if known == ALL:
            return
        owners = [router_id for router_id, one in told.items() if one.slots]
        if owners and not self.slots:
            return
        if all(self.own_id < router_id for router_id in (owners if self.slots else told)):
            self.slots |= ALL & ~known

    def _give(self, told: dict[str, Told], here: int) -> None:
        """Slots that no consumer has are divided by the numbers of consumers."""
        everywhere = here + sum(one.consumers for one in told.values())
        free = self.slots & ~self.taken
        spare = self.slots.bit_count() - SLOTS * here // everywhere
        if spare <= 0 or not free:
            return
        given = dict(self.gives)
        for one in told.values():
            for router_id, slots in one.gives.items():
                given[router_id] = given.get(router_id, 0) | slots
        needs = {
            router_id: SLOTS * one.consumers // everywhere - (one.slots | given.get(router_id, 0)).bit_count()
            for router_id, one in sorted(told.items())
        }
        needed = sum(need for need in needs.values() if need > 0)
        for router_id, need in needs.items():
            part = _some(free, spare * need // needed if need > 0 else 0)
            if part:
                free &= ~part
                self.slots &= ~part
                self.gives[router_id] = self.gives.get(router_id, 0) | part

    def _given(self) -> int:
        """What this router has given away."""
        return _together(self.gives.values())


def _known_to_have(taker: Told) -> int:
    """What a router has received: it has it, or has given it away again."""
    return taker.slots | _together(taker.gives.values())


def _together(parts: Iterable[int]) -> int:
    """All slots of some sets of slots."""
    slots = 0
    for part in parts:
        slots |= part
    return slots


def _some(slots: int, count: int) -> int:
    """Up to `count` of the slots."""
    some = 0
    for slot in numbers(slots):
        if count <= 0:
            break
        some |= 1 << slot
        count -= 1
    return some


def numbers(slots: int) -> list[int]:
    """The numbers of slots, as of their bits."""
    found = []
    while slots:
        found.append(slots.bit_length() - 1)
        slots ^= 1 << found[-1]
    return found


def route(address: Address, slot: int) -> Target | Route:
    """Where the deliveries of a slot go."""
    own: Groups = address.groups
    found = own.routes.get(slot)
    if found is None:
        found = own.routes[slot] = _find(address, own, 1 << slot)
    return found


def _find(address: Address, own: Groups, bit: int) -> Target | Route:
    if own.slots & bit:
        return Route.HERE
    live = {t.node.id: t for t in address.targets.values() if not t.stale()}
    if not live:
        return Route.LATER if address.consumers else Route.NOWHERE
    if len(live) == 1 and not address.consumers:
        return next(iter(live.values()))
    told = [router_id for router_id, t in live.items() if t.groups is not None]
    owners = [router_id for router_id in told if live[router_id].groups.slots & bit]
    if owners:
        return live[min(owners)]
    for router_id, slots in own.gives.items():
        if slots & bit and router_id in live:
            return live[router_id]
    for router_id in told:
        for taker, slots in live[router_id].groups.gives.items():
            if slots & bit and taker != own.own_id:
                return live[router_id]  # it knows whether the other one has heard of it
    if told or own.incomplete or address.consumers:
        return Route.LATER
    return live[min(live)]  # only routers that do not know groups have consumers


def add_slot(slots: dict[Address, int], address: Address, slot: int) -> None:
    """Add a slot to those of an address."""
    slots[address] = slots.get(address, 0) | 1 << slot


def moves_in_portions(out: RouterLink) -> bool:
    """Whether what waits for a consumer that has ended moves in portions, as it belongs to message groups."""
    return out.address is not None and out.address.groups is not None and out in out.address.groups.lost


def slot_of(group_id: bytes) -> int:
    """The slot of a group, by its group-id in UTF-8."""
    return crc32(group_id) % SLOTS + 1


def is_configured(address: Address) -> bool:
    """Whether the `address` entity says that the address has message groups, and it can have them."""
    return address.config is not None and bool(address.config.get("messageGroups")) and is_possible(address)
