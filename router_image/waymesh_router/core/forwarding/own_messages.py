"""Messages to the router itself (management, control messages of the mesh), and messages from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.forwarding.annotations import Annotations, local_annotations, transit_section
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.multicast import Multicast
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.model import Address, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.outcomes import ACCEPTED, RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.outcomes import ACCEPTED_CODE
    from cython.cimports.waymesh_amqp.transfer import whole_transfer
    from cython.cimports.waymesh_router.core.forwarding.grouped import slot_in
    from cython.cimports.waymesh_router.core.forwarding.multicast import elsewhere
    from cython.cimports.waymesh_router.core.link_kinds import (
        CONTROL,
        DEFAULT_PRIORITY,
        ENDPOINT,
        MULTICAST,
        WRITE_MANAGEMENT,
    )
    from cython.cimports.waymesh_router.core.settlement.outcomes import outcome_code
else:
    from waymesh_amqp.outcomes import ACCEPTED_CODE
    from waymesh_amqp.transfer import whole_transfer
    from waymesh_router.core.forwarding.grouped import slot_in
    from waymesh_router.core.forwarding.multicast import elsewhere
    from waymesh_router.core.link_kinds import CONTROL, DEFAULT_PRIORITY, ENDPOINT, MULTICAST, WRITE_MANAGEMENT
    from waymesh_router.core.settlement.outcomes import outcome_code

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

MAX_OWN_MESSAGE_BYTES = cython.declare(cython.Py_ssize_t, 1 << 24)
"""Maximum size of a message to an exchange, or of the control plane."""
MAX_REQUEST_BYTES = cython.declare(cython.Py_ssize_t, 1 << 20)
"""Maximum size of a management request. It is decoded in one step, which can take 0.4 s per MiB."""
MAX_READ_REQUEST_BYTES = cython.declare(cython.Py_ssize_t, 1 << 14)
"""The same for clients that may only read: such requests are short."""


class OwnMessages:
    """Delivers complete messages to the `subscriber` of an address; they are accepted at once, except by an exchange.

    A subscriber is called with the message and its link. An exchange is called with the record and the link, and
    returns whether it sent a copy.
    """

    def __init__(
        self,
        router_id: str,
        addresses: AddressTable,
        sender: QueuedSender,
        multicast: Multicast,
        pending: PendingDeliveries,
        settlement: Settlement,
    ) -> None:
        self.addresses = addresses
        self.sender = sender
        self.multicast = multicast
        self.pending = pending
        self.settlement = settlement
        self.annotations: Annotations = local_annotations(router_id, None)
        self.unannotated = Annotations(router_id)  # for messages that are sent unchanged

    # ---- incoming
    def begin(self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer) -> None:
        """Handle the scanned first frame of a message to the router."""
        q: Queued = self.sender.new_queued(lk, address, annotations, transfer)
        q.unstarted = 1
        q.own = True
        room: cython.bint = self.sender.budget.take_own(q, q.size)
        if q.size > self.most_bytes(lk, address) or not (room or q.complete):
            self.refuse(lk, q, transfer.more)
        elif q.complete:
            self.deliver(lk, q)

    def most_bytes(self, lk: RouterLink, address: Address) -> cython.Py_ssize_t:
        """Maximum size of a message to this address from this link."""
        if address.exchange or lk.kind == CONTROL:
            return MAX_OWN_MESSAGE_BYTES
        conn: RouterConnection = lk.connection
        if lk.kind == ENDPOINT and conn.management != WRITE_MANAGEMENT:
            return MAX_READ_REQUEST_BYTES
        return MAX_REQUEST_BYTES

    def refuse(self, lk: RouterLink, q: Queued, more: cython.bint) -> None:
        """Release a message, and ignore its remaining frames."""
        lk.queued = None
        self.sender.budget.give(q)
        self.settlement.refuse(lk, more, RELEASED)

    def deliver(self, lk: RouterLink, q: Queued) -> None:
        """Accept a complete message and pass it to the subscriber. An exchange decides whether it is accepted."""
        self.sender.budget.give(q)
        if q.address.exchange or q.address.subscriber is None:
            self.to_exchange(lk, q)
            return
        payload = q.payload()
        message = payload[: q.head_size] + transit_section(q.annotations) + payload[q.head_size :]
        subscriber = q.address.subscriber
        q.address.to_process += 1
        if not lk.transfer_settled:
            self.settlement.counters.count_outcome(lk, ACCEPTED_CODE)
            lk.session.settle(q.did, ACCEPTED)
        lk.return_credit()
        subscriber(message, lk)

    def to_exchange(self, lk: RouterLink, q: Queued) -> None:
        """Pass a complete message to an exchange, which may have been deleted since the first frame."""
        exchange = q.address.subscriber
        q.address.to_process += 1
        state = ACCEPTED if exchange is not None and exchange(q, lk) else RELEASED
        if not lk.transfer_settled:
            self.settlement.counters.count_outcome(lk, outcome_code(state))
            lk.session.settle(q.did, state)
        elif state != ACCEPTED:
            lk.dropped_presettled += 1
            self.settlement.counters.dropped_presettled += 1
        lk.return_credit()

    def copy(self, q: Queued, lk: RouterLink, message: bytes, address: Address, annotations: Annotations) -> bool:
        """Send a pre-settled copy of a `message` (complete, without annotations). False if there is no consumer.

        Waiting copies count in the budgets of the sender, which may be held because of them. Copies of messages from
        another router are dropped instead.
        """
        choice: ConsumerChoice = self.sender.choice
        if self.sender.budget.must_drop(lk):
            return False
        c: Queued = Queued(lk, annotations)
        c.arrival = self.sender.next_arrival()
        c.credited = True
        c.anew = address is not q.address
        c.address = address
        c.format = q.format
        c.head_size = q.head_size
        c.data = message
        c.size = len(message)
        c.priority = choice.priority = address.priority if address.priority >= 0 else DEFAULT_PRIORITY
        if address.groups is not None and address.exclusive is None:
            c.slot = slot_in(self.sender.sections, message)
        if address.treatment <= MULTICAST:
            outs = choice.all_links(address, annotations, lk.connection if annotations.trace else None)
            if c.barring() is not None:
                outs = elsewhere(outs, lk)
            outs = self.multicast.with_room(outs, lk)
            if outs:
                address.from_process += 1
                self.multicast.branch_out(c, outs)
            return bool(outs)
        fallback: Address | None = address.fallback
        if c.barring() is None:
            found: cython.bint = choice.has_path(address, annotations)
        else:
            found = choice.has_path_elsewhere(address, annotations, lk)
        if not found and (fallback is None or not fallback.direct()):
            return False
        if self.pending.enough_wait(address, lk):
            return False
        c.unstarted = 1
        address.from_process += 1
        self.sender.budget.take(c, c.size)
        self.pending.wait(address, c)
        self.pending.begin(address, c)
        return True

    def grown(self, lk: RouterLink, q: Queued, size: cython.Py_ssize_t) -> cython.bint:
        """A frame of `size` bytes has arrived. False if the message was refused: too large, or over a budget."""
        if self.sender.budget.take_own(q, size) and q.size <= self.most_bytes(lk, q.address):
            return True
        self.refuse(lk, q, not q.complete)
        return False

    # ---- outgoing
    def send(self, to: str, message: bytes) -> bool:
        """Send a message to an address text. False if the address is unknown or has no consumer."""
        address = self.addresses.lookup(to, "0") or self.addresses.uplink_address
        return address is not None and self.send_to(address, message)

    def send_to(self, address: Address, message: bytes) -> bool:
        """Send a complete pre-settled message. False if no consumer can take it, now or later."""
        sections: Sections = self.sender.sections
        sections.scan(whole_transfer(message, False))
        self.sender.choice.priority = DEFAULT_PRIORITY
        q: Queued = Queued(None, self.annotations)
        q.address = address
        q.priority = DEFAULT_PRIORITY
        q.arrival = self.sender.next_arrival()
        q.head_size = sections.head
        q.data = message[: sections.head] + message[sections.rest :]
        q.size = len(message)
        if address.treatment <= MULTICAST:
            outs = self.sender.choice.all_links(address, self.annotations, None)
            if self.sender.budget.enough_replies():
                outs = self.multicast.without_queues(outs)
            if outs:
                address.from_process += 1
                self.multicast.branch_out(q, outs)
            return bool(outs)
        if not address.reachable():
            return False
        q.unstarted = 1
        address.from_process += 1
        self.pending.wait(address, q)
        self.pending.begin(address, q)
        if q.unstarted and not self.sender.budget.take_reply(q):
            self.pending.withdraw(q)
            self.settlement.counters.dropped_presettled += 1
            return False
        return True

    def send_on(self, out: RouterLink, address: Address, message: bytes) -> None:
        """Send a complete message, with its annotations, on the given link."""
        q: Queued = Queued(None, self.unannotated)
        q.address = address
        address.from_process += 1
        q.data = message
        q.size = len(message)
        self.multicast.branch_out(q, [out])
