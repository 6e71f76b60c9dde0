"""How many deliveries the consumers of an address can take, by their priority: told between routers.

`Room` is what can be taken at each priority. A message has it as a flat list: priority, room, priority, room …, the
highest priority first. `Ranks` has the sums: so many deliveries may be outstanding before those of the next priority
get one. Source: protocol/demand.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from waymesh_router.core.forwarding.demand_messages import MOST
from waymesh_router.core.forwarding.exclusive import ASKS

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, RouterLink, Target

Room = dict[int, int]
Ranks = tuple[tuple[int, int], ...]

MOST_PRIORITIES = 32
"""Most priorities of an address that a router tells; the lowest ones count as the last of them."""
HIGHEST = 1 << 31
CHANGE = 0.25
"""Room is told again when it has grown by more than this part."""


def add_consumer(room: Room, out: RouterLink) -> None:
    """Add what a consumer has and can take: never more than its credit allows. That of an edge router has the window
    that is measured for it."""
    more = min(out.unsettled + max(out.credit, 0), MOST)
    if out.edge and out.window is not None:
        more = min(more, math.ceil(out.window.limit))
    room[out.consumer_priority] = min(room.get(out.consumer_priority, 0) + more, MOST)


def part_of(room: Room, place: int, turn: int, parts: int) -> Room:
    """What router `place` of those that share it may use; what cannot be divided goes round with `turn`."""
    if parts == 1:
        return room
    return {priority: (most + (place + turn) % parts) // parts for priority, most in room.items()}


def encoded(room: Room) -> list[int]:
    """As in a message."""
    ranks: list[int] = []
    for priority in sorted(room, reverse=True):
        if len(ranks) < 2 * MOST_PRIORITIES:
            ranks += (priority, room[priority])
        else:
            ranks[-1] = min(ranks[-1] + room[priority], MOST)
    return ranks


def differs(before: Room | None, now: Room) -> bool:
    """Whether the room must be told again: if there is less, as deliveries would wait for consumers without credit, or
    much more."""
    if before is None or before.keys() != now.keys():
        return True
    return any(most < before[priority] or most > (1.0 + CHANGE) * before[priority] for priority, most in now.items())


def decoded(body: Mapping[str, object]) -> Ranks | None:
    """What a message tells of priorities; None: nothing, or what is not such a list."""
    listed = body.get("ranks")
    if not isinstance(listed, list) or not listed or len(listed) % 2 or len(listed) > 2 * MOST_PRIORITIES:
        return None
    ranks: list[tuple[int, int]] = []
    until = 0
    for priority, room in zip(listed[::2], listed[1::2], strict=True):
        if not (_whole(priority) and _whole(room) and -HIGHEST <= priority < HIGHEST and room >= 0):
            return None
        if ranks and priority >= ranks[-1][0]:
            return None
        until = min(until + room, MOST)
        ranks.append((priority, until))
    return tuple(ranks)


def has_priorities(address: Address) -> bool:
    """Whether a consumer has a priority other than 0, here or at another router, as far as this tells it; or the
    first consumer gets all, which is told in the same way."""
    if address.exclusive is not None:
        return True
    if any(tells_priorities(target) for target in address.targets.values()):
        return True
    return address.preferred > 0


def tells_priorities(target: Target) -> bool:
    """Whether another router has a consumer with a priority other than 0, as far as it tells."""
    if target.exclusive:
        return target.exclusive == ASKS
    return target.ranks is not None and any(priority for priority, _ in target.ranks)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
