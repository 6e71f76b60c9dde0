"""Selects the outgoing link for a delivery of an address with consumers of several priorities, anywhere in the mesh.

A consumer gets a delivery only while nobody with a higher priority has room, as far as other routers tell it
(ranks.py). Consumers of routers that do not, and consumers without a priority, have priority 0. Broker-J manual 9.7.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.exclusive import Exclusive, leader

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding.spread import is_full, limited, windows_hold
    from cython.cimports.waymesh_router.core.forwarding.target_lists import LAST, by_rank, load_of, rank_of
    from cython.cimports.waymesh_router.core.link_kinds import CLOSEST
else:
    from waymesh_router.core.forwarding.spread import is_full, limited, windows_hold
    from waymesh_router.core.forwarding.target_lists import LAST, by_rank, load_of, rank_of
    from waymesh_router.core.link_kinds import CLOSEST

if TYPE_CHECKING:
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.forwarding.choice import ConsumerChoice
    from waymesh_router.core.model import Address, RouterLink, Target

LIMITLESS = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
"""Larger than any number of deliveries."""
NOBODY = cython.declare(cython.longlong, -0x7FFFFFFFFFFFFFFF)
"""Lower than any priority."""


def pick_prioritized(choice: ConsumerChoice, address: Address, annotations: Annotations) -> RouterLink | None:
    """A ready link toward the consumer of the highest priority that has room.

    Among equal priorities, the choice is as without priorities: round-robin for closest, else the consumer or router
    with the fewest unsettled deliveries.
    """
    if address.exclusive is not None:
        return pick_exclusive(choice, address, annotations)
    links: list[RouterLink] = address.consumers
    n: cython.Py_ssize_t = len(links)
    i: cython.Py_ssize_t = address.turn
    _: cython.Py_ssize_t
    turn: cython.Py_ssize_t = i
    best: RouterLink | None = None
    highest: cython.longlong = NOBODY
    least: cython.longlong = LIMITLESS
    out: RouterLink
    in_turn: cython.bint = address.treatment == CLOSEST
    found_local: cython.bint = False
    for _ in range(n):
        i += 1
        if i >= n:
            i = 0
        out = links[i]
        if out.connection is choice.barred:
            continue
        found_local = True
        if out.consumer_priority < highest or not has_credit(choice, address, out):
            continue
        if out.consumer_priority > highest or (out.unsettled < least and not in_turn):
            best = out
            highest = out.consumer_priority
            least = out.unsettled
            turn = i
    address.turn = turn
    if in_turn:
        return best if found_local else choice.pick_nearest(address, annotations)
    if not address.targets or (annotations.here and n > 0):
        return best
    return pick_remote_prioritized(choice, address, annotations, best, highest, least)


def has_credit(choice: ConsumerChoice, address: Address, out: RouterLink) -> cython.bint:
    """Whether a local consumer is ready. The credit of an edge router is not that of its consumers: its window counts,
    too, if lower priorities elsewhere could wait for it."""
    if not out.edge or not address.ranked:
        return out.ready()
    if out.speed is None:
        choice.spread.measure_link(out)
    return choice.takes(address, out)


def pick_remote_prioritized(
    choice: ConsumerChoice,
    address: Address,
    annotations: Annotations,
    best: RouterLink | None,
    highest: cython.longlong,
    least: cython.longlong,
) -> RouterLink | None:
    """The remote path to consumers above priority `highest`, or of this priority with a load below `least`; else
    `best`."""
    by_window: cython.bint = limited(address, choice.settled, annotations) and windows_hold(address)
    rank: cython.longlong
    load: cython.longlong
    target: Target
    order = None if by_window else by_rank(address, choice.paths)
    if order is not None:
        for t in order:
            target = t
            rank = rank_of(target)
            if rank < highest or (rank == highest and load_of(target) >= least):
                break
            found = choice.remote_link(target, annotations)
            if found is not None and found.ready():
                choice.picked = target
                return found
        return best
    for t in address.targets.values():
        target = t
        if address.ranked and target.speed is None:
            choice.spread.measure_target(target)
        rank = rank_of(target)
        load = load_of(target)
        if rank < highest or (rank == highest and load >= least):
            continue
        if by_window and (rank == LAST or is_full(target)):
            continue
        found = choice.remote_link(target, annotations)
        if found is not None and found.ready():
            best = found
            highest = rank
            least = load
            choice.picked = target
    return best


def pick_exclusive(choice: ConsumerChoice, address: Address, annotations: Annotations) -> RouterLink | None:
    """A ready link toward the consumer that gets all deliveries of the address."""
    target: Target | None = leader_for(address, annotations)
    if target is None:
        first: RouterLink | None = address.exclusive.first()
        return first if first is not None and first.connection is not choice.barred and first.ready() else None
    if address.ranked and target.speed is None:
        choice.spread.measure_target(target)
    if not choice.settled and not annotations.trace and target.window is not None and target.window.announced >= 0.0:
        if is_full(target):
            return None
    found: RouterLink | None = choice.remote_link(target, annotations)
    if found is None or not found.ready():
        return None
    choice.picked = target
    return found


def leads_to_leader(choice: ConsumerChoice, address: Address, annotations: Annotations) -> cython.bint:
    """Whether `pick_exclusive` can find a link, now or later, unless another consumer becomes the first."""
    target: Target | None = leader_for(address, annotations)
    if target is not None:
        return choice.remote_link(target, annotations) is not None
    first: RouterLink | None = address.exclusive.first()
    return first is not None and first.connection is not choice.barred


def leader_for(address: Address, annotations: Annotations) -> Target | None:
    """The router whose consumer gets the delivery; None: a local one, or nobody."""
    own: Exclusive = address.exclusive
    if annotations.here and own.keeps():
        return None
    return leader(address)
