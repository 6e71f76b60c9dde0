"""The path of a message of a message group: to the consumer that has its slot, here or at another router.

A message whose consumer is not ready waits at the link to it, beside those for other consumers; one of which it is not
known yet where it goes waits at its address. What comes for a slot that another router has by now goes on to that one.
Which slots exist, and who has them: groups.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.attaching import OVER_CONSUMER_MAXIMUM
from waymesh_router.core.forwarding.annotations import entering, meant_for
from waymesh_router.core.forwarding.groups import Groups, Route, route, slot_of
from waymesh_router.core.model import Address, Queued, RouterLink, Target
from waymesh_router.core.settlement.outcomes import RELEASED

if cython.compiled:
    from cython.cimports.waymesh_amqp.transfer import whole_transfer
    from cython.cimports.waymesh_amqp.wire import Octets, to_bytes
    from cython.cimports.waymesh_router.core.forwarding.sending import enough_wait_for
else:
    from waymesh_amqp.transfer import whole_transfer
    from waymesh_amqp.wire import Octets, to_bytes
    from waymesh_router.core.forwarding.sending import enough_wait_for

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.forwarding.choice import ConsumerChoice
    from waymesh_router.core.forwarding.forwarder import Forwarder
    from waymesh_router.core.forwarding.pending import PendingDeliveries
    from waymesh_router.core.forwarding.pending_queue import PendingGroup, PendingQueue
    from waymesh_router.core.forwarding.sections import Sections

HERE = Route.HERE
LATER = Route.LATER
NOWHERE = Route.NOWHERE
A_SHARE = cython.declare(cython.int, 3)
"""A_SHARE + 1 deliveries that are passed on count as one expired one that ends, see `Expiry.may_end`."""
GROUP_ID = cython.declare(cython.int, 10)
"""Position in the properties. Spec: 3.2.4."""


def read_slot(sections: Sections, transfer: IncomingTransfer) -> cython.int:
    """The slot of a scanned message; 0 without a group-id, -1 if more frames are needed to know it."""
    at: cython.Py_ssize_t = sections.find_property(transfer, GROUP_ID)
    if at < 0:
        return -1 if at == -2 and transfer.more else 0
    b: Octets = transfer.data
    size: cython.Py_ssize_t
    if b[at] == 0xA1:
        size = b[at + 1]
        at += 2
    elif b[at] == 0xB1:
        size = b[at + 1] << 24 | b[at + 2] << 16 | b[at + 3] << 8 | b[at + 4]
        at += 5
    else:
        return 0
    slot: cython.int = slot_of(to_bytes(b, at, at + size))
    return slot


def slot_in(sections: Sections, message: bytes) -> cython.int:
    """The slot of a complete message; 0 without a group-id."""
    transfer: IncomingTransfer = whole_transfer(message, False)
    return read_slot(sections, transfer) if sections.scan(transfer) else 0


def forward_grouped(
    forwarder: Forwarder, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
) -> cython.bint:
    """Send a delivery of a group, or queue it. False if its group has no consumer that may get it."""
    pending: PendingDeliveries = forwarder.pending
    choice: ConsumerChoice = forwarder.choice
    slot: cython.int = choice.slot
    where = route(address, slot)
    out: RouterLink | None = None
    if where is NOWHERE or (where is HERE and is_barred(address, slot, lk)):
        return False
    if where is HERE:
        out = address.groups.consumer(address, slot)
    elif isinstance(where, Target):
        annotations = passed_on(pending, choice, address, slot, annotations, where)
        out = choice.remote_link(where, annotations)
    choice.picked = None
    if out is not None and out.queue is None and out.ready() and not transfer.state_bytes:
        if not waits_already(pending, address, slot):
            forwarder.forward(lk, address, annotations, out, transfer)
            return True
    if where is HERE and lk.transfer_settled and (
        pending.sender.budget.must_drop(lk) or enough_wait_for(pending.sender, out, lk)
    ):
        forwarder.settlement.refuse(lk, transfer.more, RELEASED)  # dropped
        return True
    pending.enqueue(lk, address, annotations, transfer, True)
    return True


def has_slot(target: Target, slot: cython.int) -> cython.bint:
    """Whether another router says that it has a slot."""
    return target.groups is not None and bool(target.groups.slots >> slot & 1)


def is_barred(address: Address, slot: cython.int, lk: RouterLink) -> cython.bint:
    """Whether the consumer of a slot is the edge router that the delivery came from: it has not kept it for its own
    consumers, as it does not know message groups."""
    if not lk.edge:
        return False
    out: RouterLink = address.groups.consumer(address, slot)
    return out.connection is lk.connection


def waits_already(pending: PendingDeliveries, address: Address, slot: cython.int) -> cython.bint:
    """Whether deliveries of the slot wait at the address, or for a lost link: a new one must not overtake them."""
    lost_links = pending.streams.lost_links
    if lost_links.untold:
        lost_links.tell(address)
    if address.groups.moving >> slot & 1:
        return True
    if address.pending is None:
        return False
    queue: PendingQueue = address.pending
    return queue.grouped is not None and slot in queue.grouped


def wait_behind(pending: PendingDeliveries, address: Address, q: Queued) -> cython.bint:
    """If older deliveries of its slot wait for a lost link and move to others in portions, a new one waits behind all
    of them. False if there are none."""
    expires: cython.double = q.expires
    own: Groups | None = address.groups
    if own is None:
        return False
    lost_links = pending.streams.lost_links
    if lost_links.untold:
        lost_links.tell(address)
    if not own.moving >> q.slot & 1:
        return False
    out: RouterLink | None = own.first_lost()
    if out is None:
        return False
    pending.choice.picked = None
    pending.streams.wait_for(q, out)
    q.expires = expires  # that link leads nowhere
    pending.streams.behind += 1
    return True


def passed_on(
    pending: PendingDeliveries,
    choice: ConsumerChoice,
    address: Address,
    slot: cython.int,
    a: Annotations,
    target: Target,
) -> Annotations:
    """The annotations of a delivery for the consumers of another router. If the path there leads back, it enters the
    mesh here once more. If it came from that router, only when this says that it has the slot: while they do not agree,
    each would send it to the other."""
    if target.link is not None:
        return a
    own: Groups = address.groups
    if a.trace and choice.remote_link(target, a) is None and target.neighbour() is not None:
        if has_slot(target, slot) or (target.node.id != a.ingress and target.node.id not in a.trace):
            a = entering(a, own.own_id)
    return meant_for(a, target.node.id, address.key, pending.stamp)


def pass_on_grouped(pending: PendingDeliveries, address: Address, q: Queued) -> cython.bint:
    """Send a delivery of a group that waits at its address, or let it wait for the link to its consumer. False if it is
    not known yet where it goes."""
    choice: ConsumerChoice = pending.choice
    where = route(address, q.slot)
    out: RouterLink | None = None
    lk: RouterLink | None = q.barring()
    annotations: Annotations = q.annotations
    choice.priority = q.priority
    if where is LATER:
        return False
    if where is HERE:
        if lk is None or not is_barred(address, q.slot, lk):
            out = address.groups.consumer(address, q.slot)
    elif isinstance(where, Target):
        target: Target = where
        if target.neighbour() is None and target.link is None:
            return False  # it is lost: another router will have the slot
        annotations = passed_on(pending, choice, address, q.slot, annotations, target)
        out = choice.remote_link(target, annotations)
        if out is None and target.link is None and (target.groups is not None or address.groups.incomplete):
            return False  # where it came from: it will say soon whether it has the slot
    pending.take_out(address, q)
    choice.picked = None
    if out is not None:
        q.annotations = annotations
        send_grouped(pending, q, out)
    elif where is HERE:
        q.slot = 0
        pending.wait_again(q)
    elif where is NOWHERE and address.fallback is not None and address.fallback.direct():
        pending.redirect(q, address.fallback)
    else:
        pending.give_back(q, RELEASED)
    return True


def send_grouped(pending: PendingDeliveries, q: Queued, out: RouterLink) -> None:
    """Send a delivery, which is in no queue, on a link, or let it wait for this link alone."""
    if out.max_message_size != 0 and not pending.sizes.fits(q, out):
        q.unstarted = 0
        pending.give_back(q, OVER_CONSUMER_MAXIMUM)
        return
    link: RouterLink = pending.streams.instead(q, out)
    if link.queue is None and link.ready():
        pending.sender.send(q, link, None)
    else:
        pending.streams.wait_for(q, link)


def place_waiting(pending: PendingDeliveries, address: Address) -> None:
    """Pass on the deliveries of groups that wait at an address until it is known where they go."""
    queue: PendingQueue = address.pending  # type: ignore[assignment]  # the caller has checked
    group: PendingGroup
    placed: cython.int = 0
    for slot in list(queue.grouped or ()):
        while queue.grouped is not None and slot in queue.grouped:
            group = queue.grouped[slot]
            if not pending.pass_on(address, group.first()):
                break
            placed += 1
            if placed & A_SHARE == 0 and not pending.expiry.may_end():
                pending.expiry.addresses[address] = None
                return
