"""The order of the consumers of an address whose first consumer in the mesh gets all deliveries.

Each consumer has a number, from a counter that all routers of the address move on together, as each tells the highest
number that it knows. The leader is the router whose first consumer has the lowest number; among equal ones, that with
the lower id. It then counts as FIRST until this consumer has left, so that nobody comes before it: only after a
partition are there two, of which the lower id remains. The numbers are told as priorities are (ranks.py), the lowest
number being the highest priority. Source: protocol/demand.md "Exclusive consumers".

Consumers that attached before the address became exclusive have the same number: there may be thousands, and a client
could have them numbered again and again. At one router their order is that of `Address.consumers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from waymesh_router.core.forwarding.demand_messages import MOST, number
from waymesh_router.core.link_kinds import BALANCED

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, RouterLink, Target

FIRST = 1
"""Number of a consumer that gets the deliveries; others have greater ones."""
LAST = (1 << 31) - 1
"""Number of a router that does not tell any."""
FOLLOWS, ASKS = 1, 2
"""`Target.exclusive`: another router knows that one consumer gets all; or it also is the reason for it."""
KINDS = "M0"
"""Keys of addresses whose consumers routers tell each other of: those in the first phase."""


class Exclusive:
    """The consumers of an address at this router, in the order in which they attached.

    `highest`: number given to any consumer of the address, as far as known; at first that of those in `consumers`.
    `numbers`: of those that attached later. `leads`: the first one gets all deliveries of the mesh. `led`: it did so
    before, and does not any more.
    """

    __slots__ = ("_leader", "_told", "consumers", "highest", "leads", "led", "numbers", "own_id", "usual")

    def __init__(self, own_id: str, consumers: list[RouterLink], highest: int = FIRST) -> None:
        self.own_id = own_id
        self.consumers = consumers
        self.numbers: dict[RouterLink, int] = {}
        self.usual = min(highest + 1, LAST - 1)
        self.highest = self.usual if consumers else highest
        self.leads = self.led = False
        self._leader: RouterLink | None = None
        self._told = LAST

    def join(self, out: RouterLink) -> None:
        """A consumer has attached, which is the last one of `consumers`."""
        if out not in self.numbers:
            self.highest = min(self.highest + 1, LAST - 1)
            self.numbers[out] = self.highest

    def leave(self, out: RouterLink) -> None:
        """A consumer has left `consumers`."""
        if out is self._leader:
            self._lead(False)
        self.numbers.pop(out, None)

    def first(self) -> RouterLink | None:
        """The local consumer that attached first."""
        return self.consumers[0] if self.consumers else None

    def number(self) -> int:
        """The number of the first local consumer; LAST: there is none."""
        first = self.first()
        if first is None:
            return LAST
        return FIRST if self.leads else self.numbers.get(first, self.usual)

    def room(self) -> dict[int, int]:
        """What the first local consumer has and can take, as a rank."""
        first = self.first()
        return {} if first is None else {-self.number(): min(first.unsettled + max(first.credit, 0), MOST)}

    def agree(self, address: Address) -> bool:
        """See whether the first local consumer leads, after something was told or has changed here; returns whether it
        has begun or ended to lead."""
        before = self.leads
        if self.first() is None or leader(address) is not None:
            self._lead(False)
        elif all(target.exclusive or not target.node.demand or target.stale() for target in address.targets.values()):
            self._lead(True)  # else others have not told their numbers yet
        return self.leads != before

    def keeps(self) -> bool:
        """Whether a delivery that another router has sent here as to the leader is for the local consumer: perhaps that
        router knows it earlier. Not if the consumer that led has just left: the next one here may not be the next in
        order."""
        return bool(self.consumers) and not self.led

    def is_news(self) -> bool:
        """Whether the number of the first local consumer has changed since the last call."""
        number, before = self.number(), self._told
        self._told = number
        return number != before

    def _lead(self, leads: bool) -> None:
        if leads != self.leads:
            self.leads, self.led = leads, not leads
        self._leader = self.first() if leads else None


def leader(address: Address) -> Target | None:
    """The other router whose consumer gets the deliveries; None: a local consumer gets them, or nobody."""
    own: Exclusive = address.exclusive
    best: Target | None = None
    least = (own.number(), own.own_id) if own.consumers else (LAST + 1, "")
    for target in address.targets.values():
        place = (-target.ranks[0][0] if target.exclusive and target.ranks else LAST, target.node.id)
        if place < least and (target.link is not None or target.neighbour() is not None):
            best, least = target, place
    return best


def update(address: Address, own_id: str, highest: int = FIRST) -> bool:
    """See whether one consumer gets all deliveries of an address: it is configured so, or a consumer asks for it, here
    or elsewhere. `highest`: number that another router has told. Returns whether that has changed."""
    wanted = is_possible(address) and (asks(address) or asked(address))
    if wanted == (address.exclusive is not None):
        return False
    address.exclusive = None
    if wanted:
        address.exclusive = Exclusive(own_id, address.consumers, highest)
    return True


def is_possible(address: Address) -> bool:
    """Whether routers know the consumers of each other at an address, so that it can have an exclusive one: at balanced
    addresses without a waypoint."""
    return address.treatment == BALANCED and address.key.startswith(KINDS)


def asks(address: Address) -> bool:
    """Whether it is configured here, or a local consumer asks for it."""
    return is_configured(address) or address.asking > 0


def is_configured(address: Address) -> bool:
    """Whether the `address` entity says so."""
    return address.config is not None and bool(address.config.get("exclusive"))


def asked(address: Address) -> bool:
    """Whether another router says so."""
    return any(target.exclusive == ASKS and not target.stale() for target in address.targets.values())


def announced_too(address: Address) -> dict[str, object]:
    """What is told with the ranks."""
    if address.exclusive is None:
        return {}
    return {"exclusive": ASKS if asks(address) else FOLLOWS, "highest": address.exclusive.highest}


def hear(address: Address, target: Target, body: Mapping[str, object], own_id: str) -> bool:
    """Another router tells its ranks. Returns whether the address has become exclusive, or is it no longer."""
    target.exclusive = min(number(body, "exclusive"), ASKS) if target.ranks else 0
    highest = max(FIRST, min(number(body, "highest"), LAST - 1)) if target.exclusive else FIRST
    changed = update(address, own_id, highest)
    if address.exclusive is not None:
        address.exclusive.highest = max(address.exclusive.highest, highest)
    return changed
