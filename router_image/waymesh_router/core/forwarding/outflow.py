"""The frames of a delivery after the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.credit import CreditEvents
from waymesh_router.core.forwarding.gathering import Gathering
from waymesh_router.core.forwarding.own_messages import OwnMessages
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.link_routing.transfers import RoutedLinks
from waymesh_router.core.model import Branch, Queued, RouterLink
from waymesh_router.core.settlement.interruptions import Interruptions
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.outgoing import send_more
    from cython.cimports.waymesh_router.core.forwarding.size_limits import grows_too_large
    from cython.cimports.waymesh_router.core.forwarding.spread import waits_for_consumers
    from cython.cimports.waymesh_router.core.link_kinds import LONG_BYTES, ROUTED
    from cython.cimports.waymesh_router.core.settlement.oversized import outgrown, outgrown_copy
else:
    from waymesh_amqp.outgoing import send_more
    from waymesh_router.core.forwarding.size_limits import grows_too_large
    from waymesh_router.core.forwarding.spread import waits_for_consumers
    from waymesh_router.core.link_kinds import LONG_BYTES, ROUTED
    from waymesh_router.core.settlement.oversized import outgrown, outgrown_copy

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

PART_LIMIT = cython.declare(cython.Py_ssize_t, 1 << 18)
"""Bytes of an incomplete delivery that may wait before its session is held."""


class Outflow:
    """Passes them to the consumers of the delivery that have begun (`Branch.started`), and keeps them for the others.

    Its record is the only state of a delivery that arrives, whether it goes straight to a consumer, waits, is copied,
    or has a streaming link or a link route. Decision 0099.
    """

    def __init__(self, sender: QueuedSender, own_messages: OwnMessages, interruptions: Interruptions) -> None:
        self.sender = sender
        self.own_messages = own_messages
        self.interruptions = interruptions
        self.credit: CreditEvents = interruptions.credit
        self.settlement: Settlement = interruptions.settlement
        self.gathering: Gathering = interruptions.gathering
        self.routed: RoutedLinks = interruptions.routed

    def on_frame(self, lk: RouterLink, transfer: IncomingTransfer) -> None:
        """A frame that continues a delivery; one without a record is dropped (`discard`)."""
        if lk.queued is not None:
            self.feed(lk, lk.queued, transfer)
        elif not transfer.more:
            lk.discard = False
            lk.return_credit()

    def feed(self, lk: RouterLink, q: Queued, transfer: IncomingTransfer) -> None:
        """Send the next frame of a delivery to the consumers that have begun, and keep it for the others."""
        answered: cython.bint = q.delivery is not None and q.delivery.link is None
        branch: Branch
        q.complete = not transfer.more
        q.size += transfer.end - transfer.start
        if q.branches is not None:
            for e in q.branches:
                branch = e
                if branch.started and branch.out.feeder is lk and not self.pass_on(lk, branch, transfer):
                    return
        if q.unstarted and not self.keep(lk, q, transfer):
            return
        if not transfer.more:
            lk.queued = None
            if q.unstarted == 0:
                q.branches = None  # each refers to the record
            if lk.kind != ROUTED:
                self.queued_ends(lk, q, answered)
        if q.gathers and (q.complete or q.size > LONG_BYTES):
            self.gathering.end(q)

    def pass_on(self, lk: RouterLink, branch: Branch, transfer: IncomingTransfer) -> cython.bint:
        """Send a frame to a consumer that has begun. False if the delivery is too large for it, and refused."""
        out: RouterLink = branch.out
        q: Queued = branch.queued
        if out.max_message_size and lk.kind != ROUTED and grows_too_large(out, transfer):
            if q.group is None and len(q.branches) == 1:  # type: ignore[arg-type]  # `branch` is among them
                outgrown(self.interruptions, lk, transfer)
                return False
            outgrown_copy(self.interruptions, branch)
            return True
        send_more(out, transfer.more, transfer.data, transfer.start, transfer.end)
        if not transfer.more:
            self.branch_ends(lk, branch)
        elif out.backlog is not None or out.connection.backed_up():
            lk.session.hold_window(out)
        return True

    def keep(self, lk: RouterLink, q: Queued, transfer: IncomingTransfer) -> cython.bint:
        """Keep a frame for consumers that have not begun. False if the delivery, for the router itself, is refused."""
        size: cython.Py_ssize_t = transfer.end - transfer.start
        if lk.kind == ROUTED:
            self.routed.hold(q, lk, transfer.payload())
            return True
        q.add(transfer.payload())
        self.sender.expiry.read_more(q)
        if q.own:
            return self.own_messages.grown(lk, q, size)
        self.sender.budget.take(q, size)
        if transfer.more and q.size > PART_LIMIT and not q.gathers and self.may_hold(lk):
            lk.session.hold_window(lk)  # issue no more session window until a consumer is ready
        return True

    def may_hold(self, lk: RouterLink) -> cython.bint:
        """Whether a part of a delivery that waits is a reason to hold its session. Others share the session of a link
        for many senders: there, a delivery may use the budgets first."""
        return not lk.shared() or lk.streaming or self.sender.budget.half_used(lk)

    def branch_ends(self, lk: RouterLink, branch: Branch) -> None:
        """The last frame of a delivery was sent to a consumer that had begun."""
        out: RouterLink = branch.out
        q: Queued = branch.queued
        out.feeder = None
        if lk.kind == ROUTED:
            self.routed.sent(lk, q, out)
            return
        if branch.delivery is not None:
            branch.delivery.sent = True
        elif q.group is None and not q.settled:
            self.sender.taken_settled(q)
        if not out.busy:
            self.credit.on_credit(out)

    def queued_ends(self, lk: RouterLink, q: Queued, answered: cython.bint) -> None:
        """The last frame of a delivery has arrived. `answered`: its sender already has the outcome."""
        if q.own:
            self.own_messages.deliver(lk, q)
            return
        if q.delivery is not None:
            if answered and not lk.shared():
                lk.return_credit()
            elif lk.transfer_settled:
                self.settlement.sender_settled(q.delivery, b"")
        if q.unstarted == 0:
            self.sender.return_credit(q)
        elif q.to_routers == 0 and (q.branches is not None or waits_for_consumers(q.address, q)):
            self.sender.return_early(q)
