"""Tells all routers of the mesh how many deliveries local consumers can take at each priority, where any has one.

Unlike windows, this is told before anything waits: the first delivery must go to the highest priority. Routers that
ask are told their part of it instead (demand_answers.py). It is a state: it is repeated, soon after a change, as the
announcement of the address may arrive later, and then ever more rarely. All routers are told in portions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding.demand_messages import MOST
from waymesh_router.core.forwarding.exclusive import announced_too, is_possible
from waymesh_router.core.forwarding.ranks import Room, encoded
from waymesh_router.core.portions import Rounds, RoundsOfEach

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, Node

SOON_S, SELDOM_S, SLOWER = 0.25, 10.0, 4.0
"""It is repeated after the first time, then after SLOWER times as long, up to the second one."""
SOONEST_S = 0.05
"""The order of consumers is told at most once in this time, when who gets all deliveries has left."""
AT_ONCE = 4
TELL_COST = 25
"""Messages in one step, and the cost of each."""


@dataclass(slots=True)
class State:
    """Of an address: what is told, and when again."""

    due: float
    repeat: float = SOON_S
    announced_at: float = -math.inf
    room: Room | None = None  # None: not counted yet


class Announcements:
    """`states`: of the addresses whose consumers' priorities are told. `asking`: routers that ask, by address.
    `count`: count the consumers of an address, then call `counted`."""

    def __init__(
        self,
        context: CoreContext,
        nodes: Mapping[str, Node],
        asking: Mapping[Address, Collection[str]],
        count: Callable[[Address], None],
    ) -> None:
        self.states: dict[Address, State] = {}
        self._context = context
        self._nodes = nodes
        self._asking = asking
        self._count = count
        portions = context.portions
        self._sends = RoundsOfEach(portions, "routers that are told of priorities", self._others, self._tell_some)
        self.met = Rounds(portions, "addresses with priorities for a new router", self.states, self._tell_again)

    def changed(self, address: Address) -> None:
        """There are priorities at the address, or not any more, or its local consumers are others."""
        state = self.states.get(address)
        if not is_announced(address):
            if state is not None:
                self._end(address)
        elif state is None:
            self.states[address] = State(self._context.now)
            self._count(address)
        else:
            self._soon(state)

    def look(self, address: Address, now: float) -> None:
        """Tell it again if it is time."""
        if not is_announced(address):
            self._end(address)
        elif now >= self.states[address].due:
            self._count(address)

    def counted(self, address: Address, room: Room) -> None:
        """The local consumers can take this now: tell it when it is due, soon if a priority has got or lost room."""
        state = self.states.get(address)
        if state is None:
            return
        if state.room is not None and _ready(state.room) != _ready(room):
            self._soon(state)
        state.room = room
        now = self._context.now
        if now >= state.due:
            state.due, state.announced_at = now + state.repeat, now
            state.repeat = min(state.repeat * SLOWER, SELDOM_S)
            self._sends.begin_later(address)

    def may_tell_at_once(self, address: Address) -> bool:
        """The first of its local consumers is another one: whether to tell it now, and not within SOON_S."""
        state = self.states.get(address)
        if state is None or self._context.now - state.announced_at < SOONEST_S:
            return False
        state.repeat, state.due = SOON_S, self._context.now
        return True

    def asks_no_more(self, address: Address, router_id: str) -> None:
        """A router that was told its part does not ask any more."""
        state = self.states.get(address)
        if state is not None and state.room is not None:
            self._tell(address, router_id)

    def _soon(self, state: State) -> None:
        state.repeat = SOON_S
        state.due = min(state.due, max(self._context.now, state.announced_at + SOON_S))

    def _tell_again(self, address: Address) -> int:
        """A new router must be told: all are."""
        state = self.states.get(address)
        if state is not None:
            self._soon(state)
        return 1

    def _end(self, address: Address) -> None:
        """There are no priorities any more. Who has no consumer at all tells nothing: no router believes in it."""
        del self.states[address]
        if address.consumers:
            self._sends.begin_later(address)

    def _others(self, address: Address) -> list[str]:
        """The routers that are told the same: those that do not ask."""
        asking = self._asking.get(address, ()) if address in self.states else ()
        return [node.id for node in self._nodes.values() if node.demand and node.id not in asking]

    def _tell_some(self, address: Address, left: list[str]) -> int:
        """Tell some of them; returns the cost."""
        for _ in range(min(len(left), AT_ONCE)):
            self._tell(address, left.pop())
        return AT_ONCE * TELL_COST

    def _tell(self, address: Address, router_id: str) -> None:
        state = self.states.get(address)
        room = (state.room if state is not None else None) or {}
        body = {"address": address.key, "window": min(sum(room.values()), MOST), "ranks": encoded(room)}
        self._context.control_plane.tell(router_id, body | announced_too(address))


def is_announced(address: Address) -> bool:
    """Whether other routers need to know the priorities of the local consumers."""
    return bool(address.prioritized and is_possible(address) and address.consumers)


def _ready(room: Room) -> set[int]:
    """The priorities of consumers that can take a delivery."""
    return {priority for priority, most in room.items() if most}
