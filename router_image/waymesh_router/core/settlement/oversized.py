"""Deliveries that become too large while they arrive: for policy, or for a consumer (`max-message-size`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import CONNECTION_FORCED
from waymesh_router.core.attaching import OVER_CONSUMER_MAXIMUM, TOO_LARGE_REJECTED
from waymesh_router.core.model import Branch, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.interruptions import Interruptions

if cython.compiled:
    from cython.cimports.waymesh_amqp.outgoing import abort
else:
    from waymesh_amqp.outgoing import abort

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.transfer import IncomingTransfer


def on_oversized(parts: Interruptions, lk: RouterLink, transfer: IncomingTransfer) -> None:
    """A frame makes a message larger than policy allows.

    A client is disconnected, as in Qpid Dispatch. An edge router also sends messages of its other clients: only this
    one is refused.
    """
    conn: RouterConnection = lk.connection
    if lk.permit is not None:
        lk.permit.message_too_large()
    if conn.edge_router is None:
        conn.fail(CONNECTION_FORCED, f"a message is larger than {lk.max_message_size} octets, the policy's maximum")
    else:
        refuse_oversized(parts, lk, transfer, TOO_LARGE_REJECTED)


def refuse_oversized(parts: Interruptions, lk: RouterLink, transfer: IncomingTransfer, state: bytes) -> None:
    """Reject a delivery that is too large by this frame; its consumers see that it is aborted."""
    if transfer.first:
        lk.discard = False
    elif lk.discard:  # it was refused already
        if not transfer.more:
            lk.discard = False
            if lk.partner is None:
                lk.return_credit()
        return
    else:
        answered: cython.bint = has_outcome(lk)
        parts.drop_arriving(lk)
        if answered:
            lk.discard = transfer.more
            if not transfer.more:
                lk.return_credit()
            return
    parts.settlement.refuse(lk, transfer.more, state)
    if lk.partner is not None:
        parts.routed.return_credit(lk, lk.partner)


def has_outcome(lk: RouterLink) -> cython.bint:
    """Whether the delivery that arrives has been settled already."""
    d: Delivery | None = None if lk.queued is None else lk.queued.delivery
    return d is not None and d.link is None


def outgrown(parts: Interruptions, lk: RouterLink, transfer: IncomingTransfer) -> None:
    """By this frame, the delivery that arrives is too large for its only consumer."""
    refuse_oversized(parts, lk, transfer, OVER_CONSUMER_MAXIMUM)


def outgrown_copy(parts: Interruptions, branch: Branch) -> None:
    """By this frame, a copy of the delivery that arrives is too large for its consumer: the others still get theirs."""
    q: Queued = branch.queued
    out: RouterLink = branch.out
    d: Delivery | None = branch.delivery
    out.feeder = None
    abort(out)
    parts.multicast.count_dropped(out, q)
    if d is None and q.group is not None:
        q.group.waiting += 1
    if d is not None and d.out is not None:
        parts.settlement.leave_outgoing(d, out)
    elif d is not None:  # its consumer has settled it
        return
    if q.group is not None:
        parts.settlement.branch_done(q.group, OVER_CONSUMER_MAXIMUM)
    parts.credit.on_credit(out)
