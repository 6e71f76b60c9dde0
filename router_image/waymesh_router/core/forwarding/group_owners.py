"""Which router has which message groups of an address: told to all routers of the mesh by those with consumers.

It is a state: told when it changes, and repeated soon after a change, as the announcement of the address may arrive
later, and then ever more rarely. What a router gives to another one is told to that one first. All routers are told in
portions. Source: protocol/demand.md "Message groups".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding.announcements import AT_ONCE, SELDOM_S, SLOWER, SOON_S, SOONEST_S, TELL_COST
from waymesh_router.core.forwarding.demand_answers import LOOKS, look_cost, next_ones
from waymesh_router.core.forwarding.demand_messages import MOST, number
from waymesh_router.core.forwarding.groups import ALL, SLOTS, Groups, Told
from waymesh_router.core.portions import Rounds, RoundsOfEach

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.forwarding.spread import Spread
    from waymesh_router.core.model import Address, Target

GRACE_S = 2.0
"""A router that tells nothing for this time after it got consumers does not know message groups, or not here."""
MOST_GIFTS = 32
"""Most routers to which one gives slots at a time; others that it names are ignored."""
SLOTS_BYTES = SLOTS // 8
CHANGE = 0.125
"""The number of consumers is told again when it has changed by more than this part."""


@dataclass(slots=True)
class State:
    """Of an address: what was told last, when it is told again, and since when others have not told anything.

    `early`: at the last look, it was too early to tell more, and so to give anything to others.
    """

    due: float = math.inf
    repeat: float = SOON_S
    told_at: float = -math.inf
    told: Told | None = None
    early: bool = False
    silent: dict[Target, float] = field(default_factory=dict)


class GroupOwners:
    """The addresses with message groups."""

    def __init__(self, context: CoreContext, addresses: AddressTable, spread: Spread) -> None:
        self._context = context
        self._nodes = addresses.nodes
        self._spread = spread
        self._states: dict[Address, State] = {}
        self.unseen: dict[Address, None] = {}  # those that have changed since the last look
        portions = context.portions
        self._sends = RoundsOfEach(portions, "routers that are told of message groups", self._others, self._tell_some)
        self.met = Rounds(portions, "addresses with message groups for a new router", self._states, self._tell_again)
        addresses.on_groups = self.changed

    def changed(self, address: Address) -> None:
        """The consumers of an address with message groups have changed, here or elsewhere, or whether it has any."""
        if address.groups is not None:
            address.groups.routes.clear()
        self.unseen[address] = None

    def soon(self) -> None:
        """Look at the addresses that have changed; called in each turn."""
        left = LOOKS
        while self.unseen and left > 0:
            address = next(iter(self.unseen))
            del self.unseen[address]
            left -= look_cost(address)
            self._look(address)

    def tick(self) -> None:
        """Called several times a second; looks at a limited number of addresses each time, at all in turn."""
        for address in next_ones(self._states):
            state = self._states[address]
            if state.early or state.silent or self._context.now >= state.due:
                self.unseen[address] = None

    def hear(self, address: Address, target: Target, body: Mapping[str, object]) -> None:
        """Another router tells which slots it has, or that it has no message groups there any more."""
        consumers = number(body, "groups", MOST)
        target.groups = Told(consumers, _slots(body.get("slots")), _gifts(body.get("gives"))) if consumers else None
        if address.groups is not None:
            self.changed(address)

    # ---- an address
    def _look(self, address: Address) -> None:
        own: Groups | None = address.groups
        if own is None or address.dead or not (address.consumers or address.targets):
            self._end(address)
            return
        state = self._states.setdefault(address, State())
        now = self._context.now
        own.incomplete = self._is_incomplete(address, state, now)
        state.early = now - state.told_at < SOONEST_S
        own.agree(address, not state.early)
        if address.pending is not None:
            self._spread.freed[address] = None
        if not address.consumers:
            state.told, state.due = None, math.inf
        elif _is_news(state.told, own, len(address.consumers)):
            state.repeat = SOON_S
            state.due = state.told_at + SOONEST_S
        elif state.due == math.inf:
            state.due = now
        if now >= state.due:
            self._begin_to_tell(address, state, own)

    def _is_incomplete(self, address: Address, state: State, now: float) -> bool:
        """Whether routers that know demand have not told their slots yet."""
        silent = [t for t in address.targets.values() if t.groups is None and t.node.demand and not t.stale()]
        state.silent = {target: state.silent.get(target, now) for target in silent}
        return any(now - since < GRACE_S for since in state.silent.values())

    def _begin_to_tell(self, address: Address, state: State, own: Groups) -> None:
        """Tell all routers: at first those that are given something."""
        state.told = Told(len(address.consumers), own.slots, dict(own.gives))
        state.told_at = self._context.now
        state.due, state.repeat = state.told_at + state.repeat, min(state.repeat * SLOWER, SELDOM_S)
        for router_id in state.told.gives:
            self._tell(address, router_id)
        self._sends.begin_later(address)

    def _tell_again(self, address: Address) -> int:
        """A new router must be told: all are."""
        state = self._states.get(address)
        if state is not None and state.told is not None:
            state.repeat = SOON_S
            state.due = min(state.due, max(self._context.now, state.told_at + SOON_S))
        return 1

    def _end(self, address: Address) -> None:
        """The address has no message groups any more."""
        state = self._states.pop(address, None)
        if state is not None and state.told is not None and address.consumers:
            self._sends.begin_later(address)

    def _others(self, address: Address) -> list[str]:
        return [node.id for node in self._nodes.values() if node.demand] if address.consumers else []

    def _tell_some(self, address: Address, left: list[str]) -> int:
        """Tell some of them; returns the cost."""
        for _ in range(min(len(left), AT_ONCE)):
            self._tell(address, left.pop())
        return AT_ONCE * TELL_COST

    def _tell(self, address: Address, router_id: str) -> None:
        state = self._states.get(address)
        body: dict[str, object] = {"address": address.key, "groups": 0}
        if state is not None and state.told is not None:
            gives = {taker: _encoded(slots) for taker, slots in state.told.gives.items()}
            body |= {"groups": state.told.consumers, "slots": _encoded(state.told.slots), "gives": gives}
        self._context.control_plane.tell(router_id, body)


def _is_news(told: Told | None, own: Groups, consumers: int) -> bool:
    """Whether what was told has changed."""
    if told is None or told.slots != own.slots or told.gives != own.gives:
        return True
    return abs(consumers - told.consumers) > CHANGE * told.consumers


def _encoded(slots: int) -> bytes:
    return (slots >> 1).to_bytes(SLOTS_BYTES, "big") if slots else b""


def _slots(value: object) -> int:
    """Slots in a message; none if that is not what they are."""
    return int.from_bytes(value, "big") << 1 & ALL if isinstance(value, bytes) and len(value) <= SLOTS_BYTES else 0


def _gifts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {key: _slots(slots) for key, slots in list(value.items())[:MOST_GIFTS] if isinstance(key, str)}
