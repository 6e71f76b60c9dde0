"""Deliveries to several consumers: ready ones get their copy at once, the others after they issue credit."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import cython

from waymesh_router.core.attaching import EXPIRED_REJECTED, OVER_CONSUMER_MAXIMUM, UNSETTLED_MULTICAST_REJECTED
from waymesh_router.core.forwarding.annotations import Annotations
from waymesh_router.core.forwarding.buffer_budget import BRANCH_BYTES
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.expiry import Expiry
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.forwarding.streams import Streams
from waymesh_router.core.forwarding.wide_copies import WideCopies
from waymesh_router.core.model import Address, Branch, Group, Queued, RouterConnection, RouterLink
from waymesh_router.core.portions import AT_ONCE, Portions
from waymesh_router.core.settlement.outcomes import ACCEPTED, RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding.sending import enough_wait_for, send_scanned, size_on
    from cython.cimports.waymesh_router.core.link_kinds import DATA, ENDPOINT, SETTLED_MODE
else:
    from waymesh_router.core.forwarding.sending import enough_wait_for, send_scanned, size_on
    from waymesh_router.core.link_kinds import DATA, ENDPOINT, SETTLED_MODE

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.forwarding.sections import Sections

WIDE = cython.declare(cython.Py_ssize_t, AT_ONCE)
"""Consumers up to which a message gets all its copies at once."""
A_SHARE = cython.declare(cython.int, 3)
"""A_SHARE + 1 copies that are sent count as one expired one that ends, see `Expiry.may_end`."""
MANY_GONE = 64
"""Copies of aborted deliveries are removed from a queue together when there are more of them, and more than half."""


def elsewhere(links: list[Any], lk: RouterLink) -> list[Any]:
    """The links of other connections than that of `lk`."""
    out: RouterLink
    others: list[Any] = []
    for e in links:
        out = e
        if out.connection is not lk.connection:
            others.append(out)
    return others


class Multicast:
    """Copies deliveries. The outcome of an unsettled one is combined from those of its copies, see `Settlement`."""

    def __init__(
        self,
        choice: ConsumerChoice,
        sender: QueuedSender,
        settlement: Settlement,
        streams: Streams,
        portions: Portions,
    ) -> None:
        self.uplink_address: Address | None = None  # AddressTable.uplink_address
        self.choice = choice
        self.sender = sender
        self.settlement = settlement
        self.gone: dict[RouterLink, int] = {}  # number of copies of aborted deliveries in `RouterLink.queue`
        self.streams = streams
        self.wide = WideCopies(portions, self.branch, self.all_branched)
        self.unsettled_allowed = True  # clients may send unsettled deliveries to multicast addresses

    def forward(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """Send the scanned first frame of a delivery to all consumers of the address."""
        if not (self.unsettled_allowed or lk.transfer_settled or lk.kind == DATA):
            self.settlement.refuse(lk, transfer.more, UNSETTLED_MULTICAST_REJECTED)
            return
        outs = self.choice.all_links(address, annotations, lk.connection if lk.kind == DATA else None)
        if self.uplink_address is not None and lk.address is None:
            outs = self.with_uplink(outs, address, annotations)
        if lk.edge:
            outs = elsewhere(outs, lk)
        if outs and lk.transfer_settled:
            kept: cython.bint = transfer.more or transfer.state_bytes or lk.streamed or len(outs) > WIDE
            others: list[Any] = outs if kept else copy_to_ready(self, lk, address, annotations, outs, transfer)
            sent: cython.bint = len(others) < len(outs)
            outs = self.with_room(others, lk) if others else others
            if sent and not outs:
                if others:
                    self.settlement.counters.dropped_presettled += 1  # the copy that `with_room` leaves to `refuse`
                self.settlement.forwarded_settled(lk)
                return
        if outs:
            self.branch_out(self.sender.new_queued(lk, address, annotations, transfer), outs)
        else:
            self.settlement.refuse(lk, transfer.more, RELEASED)

    def with_uplink(self, outs: list[Any], address: Address, annotations: Annotations) -> list[Any]:
        """For an anonymous sender at an edge router: the interior router gets a copy, too.

        It tells whether it has consumers only for addresses with senders. One copy is sent to it, on the link for the
        address if that is in use.
        """
        uplink_address: Address = self.uplink_address  # type: ignore[assignment]
        if address.targets:
            return outs
        return outs + self.choice.all_links(uplink_address, annotations, None)

    def with_room(self, outs: list[Any], lk: RouterLink) -> list[Any]:
        """The links without those of consumers that are too slow: a pre-settled delivery is dropped for these.

        Each copy that is dropped counts. If all are too slow, the message also counts at the link of its sender, and as
        one of these copies for the router: see `Settlement.refuse`.
        """
        out: RouterLink
        room: list[Any] = []
        slow: list[Any] = []
        for e in outs:
            out = e
            if out.kind != DATA and enough_wait_for(self.sender, out, lk):
                slow.append(out)
            else:
                room.append(out)
        for e in slow:
            out = e
            out.dropped_presettled += 1
        self.settlement.counters.dropped_presettled += len(slow) if room else len(slow) - 1
        return room

    def without_queues(self, outs: list[Any]) -> list[Any]:
        """The links without those of clients for which copies wait: they get none of a message of the router."""
        out: RouterLink
        room: list[Any] = []
        for e in outs:
            out = e
            if out.kind == ENDPOINT and out.queue is not None:
                out.dropped_presettled += 1
                self.settlement.counters.dropped_presettled += 1
            else:
                room.append(out)
        return room

    def branch_out(self, q: Queued, outs: list[Any]) -> None:
        """Create one branch for each consumer: ready ones start now, the others are queued."""
        lk: RouterLink | None = q.link
        if not q.settled and lk is not None:
            if not self.sender.track_incoming(q, lk):
                return
            q.group = Group(lk, q.did)
            q.group.delivery = q.delivery
            q.delivery.group = q.group  # type: ignore[union-attr]  # `track_incoming` has made it
        q.branches = None if q.complete else []
        q.unstarted = len(outs)
        if q.unstarted > WIDE or (lk is None and self.wide):
            self.wide.begin(q, outs)
            return
        for e in list(outs):
            self.branch(q, e)
        self.all_branched(q)

    def branch(self, q: Queued, consumer: RouterLink) -> None:
        """Create the branch of one consumer."""
        out: RouterLink = self.streams.instead(q, consumer)
        branch: Branch = new_branch(q, out)
        if q.branches is not None:
            q.branches.append(branch)
        if q.group is not None and out.snd_settle_mode != SETTLED_MODE:
            q.group.waiting += 1
        if out.max_message_size and size_on(out, q) > out.max_message_size:
            self.refuse_copy(out, branch)
        elif out.queue is None and out.ready():
            self.sender.send(q, out, branch)
        elif out.over:  # since `branch_out`
            self.count_dropped(out, q)
            self.drop_branch(out, branch, RELEASED)
        else:
            if out.queue is None:
                out.queue = deque()
            out.queue.append(branch)
            if out.kind == DATA:
                q.to_routers += 1

    def all_branched(self, q: Queued) -> None:
        """Each consumer has its branch."""
        if q.unstarted:
            self.sender.expiry.begin(q)
            if q.settled:
                self.sender.expiry.joined += q.unstarted
            self.sender.budget.take(q, q.size + q.unstarted * BRANCH_BYTES)
            if q.to_routers == 0:
                self.sender.return_early(q)
        if q.complete:
            q.branches = None
        if q.group is not None:
            q.group.sealed = True
            if q.group.waiting == 0:
                self.settlement.group_done(q.group, q.group.state or ACCEPTED)

    def send_waiting(self, out: RouterLink) -> None:
        """The link has credit: send the copies that wait for it, unless they have expired."""
        branch: Branch
        expired: cython.bint
        sent: cython.int = 0
        expiry: Expiry = self.sender.expiry
        while out.queue is not None and out.ready():
            branch = out.queue[0]
            if branch.queued.unstarted == 0:
                self.leave_queue(out)
                continue
            expired = branch.queued.expires != 0.0 and expiry.is_over(branch.queued)
            if expired and not expiry.may_end():
                expiry.go_on_later(out)
                return
            self.leave_queue(out)
            if expired:
                self.expire(out, branch)
                continue
            if out.max_message_size and size_on(out, branch.queued) > out.max_message_size:
                self.refuse_copy(out, branch)  # it has grown while it waited
                continue
            self.sender.send(branch.queued, out, branch)
            if out.kind == DATA:
                self.left_router_queue(branch.queued)
            sent += 1
            if sent & A_SHARE == 0 and not expiry.may_end():
                expiry.go_on_later(out)
                return

    def expire(self, out: RouterLink, branch: Branch) -> None:
        """A copy has expired. For its sender, the consumer has released it: others may have accepted theirs."""
        q: Queued = branch.queued
        state: bytes = ACCEPTED if q.address.drops_expired else EXPIRED_REJECTED
        self.sender.expiry.count(q.address)
        self.count_dropped(out, q)
        self.drop_branch(out, branch, state if q.alone else RELEASED)

    def refuse_copy(self, out: RouterLink, branch: Branch) -> None:
        """A copy is too large for its consumer: for its sender, this consumer has rejected it."""
        q: Queued = branch.queued
        self.count_dropped(out, q)
        if q.group is not None and out.snd_settle_mode == SETTLED_MODE:
            q.group.waiting += 1
            self.settlement.branch_done(q.group, OVER_CONSUMER_MAXIMUM)
        self.drop_branch(out, branch, OVER_CONSUMER_MAXIMUM)

    def count_dropped(self, out: RouterLink, q: Queued) -> None:
        """Count a copy that is not sent, if it is pre-settled."""
        if q.settled:
            out.dropped_presettled += 1
            self.settlement.counters.dropped_presettled += 1

    def left_router_queue(self, q: Queued) -> None:
        """A copy for another router waits no longer: perhaps all others wait for consumers of this router."""
        q.to_routers -= 1
        if q.to_routers == 0:
            self.sender.return_early(q)

    def drop_waiting(self, out: RouterLink, count: cython.Py_ssize_t) -> None:
        """The link is gone: drop up to `count` copies that wait for it."""
        while count > 0 and out.queue is not None:
            count -= 1
            self.drop_first(out)

    def drop_first(self, out: RouterLink) -> None:
        """Drop the first copy that waits for this link."""
        branch: Branch = out.queue[0]  # type: ignore[index]  # the caller has checked
        self.leave_queue(out)
        if branch.queued.unstarted:
            self.count_dropped(out, branch.queued)
            self.drop_branch(out, branch, RELEASED)

    def leave_queue(self, out: RouterLink) -> None:
        """Remove the first copy from the queue of this link."""
        out.queue.popleft()  # type: ignore[union-attr]  # the caller has checked
        self.trim(out)

    def trim(self, out: RouterLink) -> None:
        """Remove copies of aborted deliveries from both ends of the queue, so that the first one waits, if there is
        any. Searching for one would take time for all copies behind it; too many of them are removed together."""
        queue: deque[Any] = out.queue  # type: ignore[assignment]
        gone: cython.Py_ssize_t = self.gone.get(out, 0) if self.gone else 0
        if gone == 0:
            if not queue:
                out.queue = None
            return
        if gone > MANY_GONE and gone * 2 > len(queue):
            queue = out.queue = deque([branch for branch in queue if branch.queued.unstarted])
            gone = 0
        while queue and queue[0].queued.unstarted == 0:
            queue.popleft()
            gone -= 1
        while queue:
            last = queue.pop()
            if last.queued.unstarted:
                queue.append(last)
                break
            gone -= 1
        if not queue:
            out.queue = None
        if queue and gone > 0:
            self.gone[out] = gone
        else:
            self.gone.pop(out, None)

    def abort_branch(self, out: RouterLink) -> None:
        """A delivery was aborted of which a copy may wait for this link: its `unstarted` is 0."""
        if out.queue is not None:
            self.gone[out] = self.gone.get(out, 0) + 1
            self.trim(out)

    def drop_branch(self, out: RouterLink, branch: Branch, state: bytes) -> None:
        """A copy is not sent on this link; its outcome is `state`."""
        q: Queued = branch.queued
        q.unstarted -= 1
        if q.group is not None and out.snd_settle_mode != SETTLED_MODE:
            self.settlement.branch_done(q.group, state)
        elif q.alone and q.delivery is not None:
            self.settlement.settle_incoming(q.delivery, state)
        if q.unstarted == 0:
            q.drop_data()
            self.sender.all_started(q)
            self.sender.return_credit(q)
        elif out.kind == DATA:
            self.left_router_queue(q)


def copy_to_ready(
    copies: Multicast,
    lk: RouterLink,
    address: Address,
    annotations: Annotations,
    outs: list[Any],
    transfer: IncomingTransfer,
) -> list[Any]:
    """Send a complete pre-settled message to the consumers that are ready: no record is needed. Returns the others."""
    sections: Sections = copies.sender.sections
    size: cython.Py_ssize_t = transfer.end - transfer.start + len(annotations.transit)
    out: RouterLink
    others: list[Any] = []
    for e in outs:
        out = e
        if out.queue is not None or not out.ready() or (out.max_message_size != 0 and out.max_message_size < size):
            others.append(out)
            continue
        send_scanned(lk, out, True, annotations, sections, transfer)
        out.presettled += 1
        copies.settlement.counters.count_out(address, out)
        if copies.settlement.sampling.current is not None:
            copies.settlement.sampling.went_out(copies.settlement.sampling.current, out)
    return others


def new_branch(q: Queued, out: RouterLink) -> Branch:
    """Like `Branch(q, out)`; compiled code takes it from a free list without a call of `__init__`."""
    if cython.compiled:
        branch: Branch = Branch.__new__(Branch)
        branch.queued = q
        branch.out = out
        return branch
    return Branch(q, out)


def take_of(
    copies: Multicast, out: RouterLink, connection: RouterConnection | None, until: cython.longlong
) -> list[Any]:
    """Take the copies of messages of a connection out of the queue of this link. Arguments: see
    `Queued.came_from`. Returns those that are to be dropped; of messages that still arrive, they are dropped."""
    branch: Branch
    taken: list[Any] = []
    arriving: list[Any] = []
    stay: list[Any] = []
    for e in out.queue or ():
        branch = e
        if branch.queued.unstarted == 0:
            continue
        if not branch.queued.came_from(connection, until):
            stay.append(branch)
        elif branch.queued.complete:
            taken.append(branch)
        else:
            arriving.append(branch)
    if taken or arriving:
        out.queue = deque(stay) if stay else None
        copies.gone.pop(out, None)
    for e in arriving:
        copies.drop_branch(out, e, RELEASED)
    return taken
