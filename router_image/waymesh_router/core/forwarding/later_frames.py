"""Forwards the frames of a delivery after the first one, to the same consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.credit import CreditEvents
from waymesh_router.core.forwarding.gathering import Gathering
from waymesh_router.core.forwarding.own_messages import OwnMessages
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.model import Branch, Queued, RouterLink
from waymesh_router.core.settlement.interruptions import Interruptions
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.outgoing import send_more
    from cython.cimports.waymesh_router.core.forwarding.size_limits import grows_too_large
    from cython.cimports.waymesh_router.core.forwarding.spread import waits_for_consumers
    from cython.cimports.waymesh_router.core.link_kinds import LONG_BYTES
    from cython.cimports.waymesh_router.core.settlement.oversized import outgrown, outgrown_copy
else:
    from waymesh_amqp.outgoing import send_more
    from waymesh_router.core.forwarding.size_limits import grows_too_large
    from waymesh_router.core.forwarding.spread import waits_for_consumers
    from waymesh_router.core.link_kinds import LONG_BYTES
    from waymesh_router.core.settlement.oversized import outgrown, outgrown_copy

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.transfer import IncomingTransfer

PART_LIMIT = cython.declare(cython.Py_ssize_t, 1 << 18)
"""Bytes of an incomplete delivery that may wait before its session is held."""


class LaterFrames:
    """Passes frames to one consumer (`stream`) or a queued delivery (`queued`), or drops them (`discard`)."""

    def __init__(self, sender: QueuedSender, own_messages: OwnMessages, interruptions: Interruptions) -> None:
        self.sender = sender
        self.own_messages = own_messages
        self.interruptions = interruptions
        self.credit: CreditEvents = interruptions.credit
        self.settlement: Settlement = interruptions.settlement
        self.gathering: Gathering = interruptions.gathering

    def on_frame(self, lk: RouterLink, transfer: IncomingTransfer) -> None:
        """A frame that continues a delivery."""
        if lk.stream is not None:
            out: RouterLink = lk.stream
            if out.max_message_size and grows_too_large(out, transfer):
                outgrown(self.interruptions, lk, transfer)
                return
            send_more(out, transfer.more, transfer.data, transfer.start, transfer.end)
            if not transfer.more:
                self.stream_ends(lk, out)
            elif out.backlog is not None or out.connection.backed_up():
                lk.session.hold_window(out)
        elif lk.queued is not None:
            self.feed(lk, lk.queued, transfer)
        elif not transfer.more:
            lk.discard = False
            lk.return_credit()

    def stream_ends(self, lk: RouterLink, out: RouterLink) -> None:
        """The last frame of a delivery to one consumer was sent."""
        d: Delivery | None = lk.stream_delivery
        lk.stream = None
        lk.stream_delivery = None
        out.feeder = None
        if d is None:
            out.presettled += 1
            self.settlement.forwarded_settled(lk)
        else:
            d.sent = True
            if lk.shared() or d.link is None:
                lk.return_credit()
            if lk.transfer_settled:  # settled by a later frame: the sender needs no outcome. Spec: 2.7.5
                self.settlement.sender_settled(d, b"")
        if not out.busy:
            self.credit.on_credit(out)

    def feed(self, lk: RouterLink, q: Queued, transfer: IncomingTransfer) -> None:
        """Handle the next frame of a queued delivery: send it to started consumers, and store it for the others."""
        answered: cython.bint = q.delivery is not None and q.delivery.link is None
        q.complete = not transfer.more
        q.size += transfer.end - transfer.start
        branch: Branch
        held: cython.bint = False
        if q.branches is not None:
            for e in q.branches:
                branch = e
                if branch.started and branch.out.feeder is lk:
                    if branch.out.max_message_size and grows_too_large(branch.out, transfer):
                        if q.group is None and len(q.branches) == 1:
                            outgrown(self.interruptions, lk, transfer)
                            return
                        outgrown_copy(self.interruptions, branch)
                        continue
                    send_more(branch.out, transfer.more, transfer.data, transfer.start, transfer.end)
                    if not transfer.more:
                        self.branch_ends(branch)
                    elif branch.out.backlog is not None or branch.out.connection.backed_up():
                        lk.session.hold_window(branch.out)
        if q.unstarted:
            q.add(transfer.payload())
            self.sender.expiry.read_more(q)
            if not q.own:
                self.sender.budget.take(q, transfer.end - transfer.start)
            elif not self.own_messages.grown(lk, q, transfer.end - transfer.start):
                return
            held = transfer.more and q.size > PART_LIMIT and not q.own and self.may_hold(lk)
        if not transfer.more:
            lk.queued = None
            self.queued_ends(lk, q, answered)
            if q.gathers:
                self.gathering.end(q)
        elif q.gathers and q.size > LONG_BYTES:
            self.gathering.end(q)
        elif held:
            lk.session.hold_window(lk)  # issue no more session window until a consumer is ready

    def may_hold(self, lk: RouterLink) -> cython.bint:
        """Whether a part of a delivery that waits is a reason to hold its session. Others share the session of a link
        for many senders: there, a delivery may use the budgets first."""
        return not lk.shared() or lk.streaming or self.sender.budget.half_used(lk)

    def branch_ends(self, branch: Branch) -> None:
        """The last frame of a queued delivery was sent to a consumer."""
        branch.out.feeder = None
        if branch.delivery is not None:
            branch.delivery.sent = True
        elif branch.queued.group is None and not branch.queued.settled:
            self.sender.taken_settled(branch.queued)
        if not branch.out.busy:
            self.credit.on_credit(branch.out)

    def queued_ends(self, lk: RouterLink, q: Queued, answered: cython.bint) -> None:
        """The last frame of a queued delivery has arrived. `answered`: its sender already has the outcome."""
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
