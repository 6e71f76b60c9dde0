"""The path of a message, from the incoming transfer frame to the outgoing frames.

1. Each frame comes here; the first ones of link routes go to `RoutedLinks`.
2. `Sections.scan` finds the message annotations, `MessageAddress` parses them and finds the address.
3. `ConsumerChoice` selects a ready link (anycast), or all of them (`Multicast`).
4. `send_scanned` writes the frame to that link; further frames follow it (`Outflow`). If no consumer is ready, the
   delivery waits in `PendingDeliveries` and `QueuedSender` sends it when `CreditEvents` reports credit.
5. `Settlement` returns the outcome to the sender. `Interruptions` settles deliveries whose sender or consumer is lost.

Dispatch book 2.4.1, routing chapter "Message Settlement and Reliability".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.core.attaching import (
    LINKS_REJECTED,
    MANAGEMENT_REJECTED,
    NO_TO_REJECTED,
    OUTSIDE_REJECTED,
    POLICY_REJECTED,
    UNAVAILABLE_REJECTED,
    UNREADABLE_REJECTED,
)
from waymesh_router.core.counters import Counters
from waymesh_router.core.delivery_sampling import DeliverySampling
from waymesh_router.core.forwarding.annotations import Annotations, meant_for
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.gathering import Gathering
from waymesh_router.core.forwarding.message_address import MessageAddress
from waymesh_router.core.forwarding.multicast import Multicast
from waymesh_router.core.forwarding.outflow import Outflow
from waymesh_router.core.forwarding.own_messages import OwnMessages
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.forwarding.section_order import SECTIONS_DENIED, SectionOrder
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.link_routing.transfers import RoutedLinks
from waymesh_router.core.model import Address, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.outcomes import RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.transfer import whole_transfer
    from cython.cimports.waymesh_router.core.forwarding.grouped import forward_grouped, read_slot
    from cython.cimports.waymesh_router.core.forwarding.section_order import goes_on_in_order, is_usual
    from cython.cimports.waymesh_router.core.forwarding.sending import send_scanned
    from cython.cimports.waymesh_router.core.forwarding.size_limits import begins_too_large
    from cython.cimports.waymesh_router.core.forwarding.spread import has_announced_window, overtakes
    from cython.cimports.waymesh_router.core.link_kinds import ENDPOINT, MULTICAST, SETTLED_MODE
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.transfer import whole_transfer
    from waymesh_router.core.forwarding.grouped import forward_grouped, read_slot
    from waymesh_router.core.forwarding.section_order import goes_on_in_order, is_usual
    from waymesh_router.core.forwarding.sending import send_scanned
    from waymesh_router.core.forwarding.size_limits import begins_too_large
    from waymesh_router.core.forwarding.spread import has_announced_window, overtakes
    from waymesh_router.core.link_kinds import ENDPOINT, MULTICAST, SETTLED_MODE

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.forwarding.pending_queue import PendingQueue

MAX_HEAD_BYTES = 1 << 20
"""Header and annotations must end within this many bytes."""
MAX_HEADS_BYTES = cython.declare(cython.longlong, 8 << 20)
"""The same for all concurrent deliveries on a connection of a client or container."""


class Forwarder:
    """Forwards the first frame of each delivery; later frames follow the first one."""

    def __init__(
        self,
        message_address: MessageAddress,
        choice: ConsumerChoice,
        multicast: Multicast,
        pending: PendingDeliveries,
        own_messages: OwnMessages,
        outflow: Outflow,
    ) -> None:
        self.message_address = message_address
        self.choice = choice
        self.multicast = multicast
        self.pending = pending
        self.own_messages = own_messages
        self.outflow = outflow
        self.gathering: Gathering = outflow.gathering
        self.routed: RoutedLinks = outflow.routed
        self.sections: Sections = message_address.sections
        self.settlement: Settlement = multicast.settlement
        self.uplink_address: Address | None = message_address.addresses.uplink_address
        self.counters: Counters = self.settlement.counters
        self.sampling: DeliverySampling = self.settlement.sampling

    def on_transfer(self, lk: RouterLink, transfer: IncomingTransfer) -> None:
        """A transfer frame."""
        if transfer.first:
            lk.discard = False
            if lk.transfer_settled:
                self.counters.count_presettled(lk)
            if lk.partner is None:
                self.first_frame(lk, transfer)
            else:
                self.routed.first_frame(lk, lk.partner, transfer)
        elif lk.head is not None:
            self.more_head(lk, transfer)
        elif lk.checks_messages and not goes_on_in_order(lk, transfer):
            lk.permit.message_denied()
            lk.detach(UNAUTHORIZED_ACCESS, SECTIONS_DENIED)
        else:
            self.outflow.on_frame(lk, transfer)
        if self.sampling.current is not None:
            self.sampling.frame_handled(lk)

    def first_frame(self, lk: RouterLink, transfer: IncomingTransfer) -> None:
        """Begin a delivery: find its address and forward it."""
        annotations: Annotations | None
        if not self.sections.scan(transfer):
            self.incomplete_head(lk, transfer)
            return
        if lk.checks_messages and not is_usual(lk, self.sections, transfer) and self.denies_message(lk, transfer):
            return
        if self.sections.head == self.sections.rest and lk.annotations is not None:
            annotations = lk.annotations
        else:
            annotations = self.message_address.annotations_of(lk, transfer)
            if annotations is None:
                self.settlement.refuse(lk, transfer.more, UNREADABLE_REJECTED)
                return
        address: Address | None = lk.address
        if address is None:
            address = self.message_address.address_of(lk, annotations, transfer)
            if address is None:
                address = self.uplink_address
            if address is None or not address.key:
                self.no_address(lk, address, transfer)
                return
            if lk.of_tenant:
                annotations = self.message_address.annotations_in_space(lk, annotations)
        if address.groups is not None and address.exclusive is None and address.subscriber is None:
            self.choice.slot = read_slot(self.sections, transfer)
            if self.choice.slot < 0:
                self.choice.slot = 0
                self.incomplete_head(lk, transfer)
                return
        if lk.kind == ENDPOINT:
            self.counters.count_in(lk, address)
            self.sampling.until_next -= 1
            if self.sampling.until_next == 0:
                annotations = self.sampling.take(lk, address, annotations, transfer)
        elif annotations.sid != 0:
            self.sampling.follow(lk, address, annotations, transfer)
        if address.targets:
            self.choice.priority = address.priority if address.priority >= 0 else self.sections.priority(transfer)
        if address.subscriber is not None:
            self.own_messages.begin(lk, address, annotations, transfer)
        elif address.treatment <= MULTICAST:
            self.multicast.forward(lk, address, annotations, transfer)
        elif self.choice.slot and self.to_group(lk, address, annotations, transfer):
            return
        elif lk.edge:
            self.from_edge(lk, address, annotations, transfer)
        else:
            self.to_one(lk, address, annotations, transfer)

    def to_group(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> cython.bint:
        """Send a delivery to the consumer of its message group, or queue it. False if there is none."""
        try:
            return forward_grouped(self, lk, address, annotations, transfer)
        finally:
            self.choice.slot = 0

    def to_one(self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer) -> None:
        """Send a delivery to one consumer of its address, or queue it."""
        out: RouterLink | None = None
        settled: cython.bint = lk.transfer_settled
        # `overtakes` is true only if windows do not limit the delivery: they do an unsettled one where consumers are
        if not transfer.state_bytes and (
            address.pending is None
            or ((settled or not address.consumers) and overtakes(address, settled, annotations))
        ):
            self.choice.settled = settled
            out = self.choice.pick(address, annotations)
        if out is not None:
            self.forward(lk, address, annotations, out, transfer)
        elif (len(address.consumers) > 0 and address.exclusive is None) or self.choice.has_path(address, annotations):
            self.keep(lk, address, annotations, transfer)
        elif address.fallback is not None and not lk.stored and address.fallback.direct():
            self.pending.enqueue_at_fallback(lk, address.fallback, annotations, transfer)
        elif self.uplink_address is not None and lk.address is None and address is not self.uplink_address:
            self.to_one(lk, self.uplink_address, annotations, transfer)  # the interior router may know consumers
        else:
            self.settlement.refuse(lk, transfer.more, RELEASED)

    def from_edge(self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer) -> None:
        """Like `to_one`, for a delivery from an edge router: it delivers to its own consumers itself."""
        out: RouterLink | None = None
        settled: cython.bint = lk.transfer_settled
        if not transfer.state_bytes and (address.pending is None or overtakes(address, settled, annotations)):
            self.choice.settled = settled
            out = self.choice.pick_elsewhere(address, annotations, lk)
        if out is not None:
            self.forward(lk, address, annotations, out, transfer)
        elif self.choice.has_path_elsewhere(address, annotations, lk):
            self.keep(lk, address, annotations, transfer)
        elif address.fallback is not None and not lk.stored and address.fallback.direct():
            self.pending.enqueue_at_fallback(lk, address.fallback, annotations, transfer)
        else:
            self.settlement.refuse(lk, transfer.more, RELEASED)

    def keep(self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer) -> None:
        """Queue a delivery because no consumer has credit, or because only a record keeps the transfer's state."""
        waiting: PendingQueue | None = address.pending
        if lk.transfer_settled and self.pending.enough_wait(address, lk):
            self.settlement.refuse(lk, transfer.more, RELEASED)  # dropped
        elif waiting is not None and waiting.may_be_overtaken():
            self.pending.enqueue(lk, address, annotations, transfer, True)
        else:
            self.pending.enqueue(lk, address, annotations, transfer, transfer.state_bytes > 0)

    def forward(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        out: RouterLink,
        transfer: IncomingTransfer,
    ) -> None:
        """Send the scanned first frame of a delivery to one consumer."""
        if out.max_message_size and begins_too_large(out, annotations, self.sections, transfer):
            self.pending.enqueue(lk, address, annotations, transfer, True)
            return
        if transfer.more or lk.streamed:
            conn: RouterConnection = out.connection
            if conn.streams:
                self.forward_stream(lk, address, annotations, transfer)
                return
        settled: cython.bint = lk.transfer_settled or out.snd_settle_mode == SETTLED_MODE
        if self.choice.picked is not None and has_announced_window(self.choice.picked, annotations, settled):
            annotations = meant_for(annotations, self.choice.picked.node.id, address.key, self.pending.stamp)
        if transfer.more:
            q: Queued | None = self.pending.sender.new_single(lk, address, annotations, transfer)
            if q is not None:
                self.pending.sender.send(q, out, None)
            return
        d: Delivery | None = None
        if not settled:
            d = new_delivery()
            d.link = lk
            d.did = lk.transfer_id
            if not self.settlement.track(lk, d):
                return
        oid: cython.uint = send_scanned(lk, out, settled, annotations, self.sections, transfer)
        self.counters.count_out(address, out)
        if self.sampling.current is not None:
            self.sampling.went_out(self.sampling.current, out)
        if d is None:
            out.presettled += 1
            self.settlement.forwarded_settled(lk)
        else:
            self.settlement.track_outgoing(d, out, oid, self.choice.picked)
            if (lk.kind != ENDPOINT or lk.edge) and lk.shared():
                lk.return_credit()

    def forward_stream(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """A delivery for another router that may need a link of its own, or must not overtake one on such a link."""
        if transfer.more:
            self.gathering.begin(lk, address, annotations, transfer)
        else:
            self.pending.enqueue(lk, address, annotations, transfer, True)

    def denies_message(self, lk: RouterLink, transfer: IncomingTransfer) -> cython.bint:
        """Refuse a message whose sections or user-id policy does not allow; wait if the decision needs more frames."""
        if lk.section_order is None:  # a dry run
            lk.permit.denies(lk, transfer.payload(), transfer.more)
            return False
        order: SectionOrder = lk.section_order
        order.begin()
        if order.take(transfer):
            if not lk.checks_user:
                return False
            if transfer.more and self.sections.find_user_id(transfer) == -2:
                self.incomplete_head(lk, transfer)
                return True
            if not self.message_address.denies(lk, transfer):
                return False
        lk.permit.message_denied()
        self.settlement.refuse(lk, transfer.more, POLICY_REJECTED)
        return True

    def no_address(self, lk: RouterLink, stand_in: Address | None, transfer: IncomingTransfer) -> None:
        """The message has no known address; `stand_in` is the reason, see `MessageAddress`."""
        if stand_in is self.message_address.incomplete:
            self.incomplete_head(lk, transfer)
        elif stand_in is self.message_address.unreadable:
            self.settlement.refuse(lk, transfer.more, NO_TO_REJECTED)
        elif stand_in is self.message_address.forbidden:
            self.settlement.refuse(lk, transfer.more, MANAGEMENT_REJECTED)
        elif stand_in is self.message_address.denied:
            lk.permit.message_denied()
            self.settlement.refuse(lk, transfer.more, POLICY_REJECTED)
        elif stand_in is self.message_address.outside:
            self.settlement.refuse(lk, transfer.more, OUTSIDE_REJECTED)
        elif stand_in is self.message_address.unavailable:
            self.settlement.refuse(lk, transfer.more, UNAVAILABLE_REJECTED)
        elif stand_in is self.message_address.over_link_limit:
            self.settlement.refuse(lk, transfer.more, LINKS_REJECTED)
        else:
            self.settlement.refuse(lk, transfer.more, RELEASED)

    def incomplete_head(self, lk: RouterLink, transfer: IncomingTransfer) -> None:
        """The frame ends within the sections that are needed: keep it until the next frame arrives."""
        size: cython.Py_ssize_t = transfer.end - transfer.start
        conn: RouterConnection = lk.connection
        needed: cython.Py_ssize_t = self.sections.needed(transfer)
        if not transfer.more or size > MAX_HEAD_BYTES or needed > MAX_HEAD_BYTES:
            self.settlement.refuse(lk, transfer.more, UNREADABLE_REJECTED)
        else:
            lk.head = bytearray(transfer.payload())
            lk.head_due = needed if needed else size * 2
            conn.heads += size
            self.check_heads(lk, conn, transfer)

    def check_heads(self, lk: RouterLink, conn: RouterConnection, transfer: IncomingTransfer) -> None:
        """Reject a delivery if too many bytes of incomplete heads are kept with it."""
        if conn.heads > MAX_HEADS_BYTES and conn.role != "inter-router" and not lk.edge:
            self.settlement.refuse(lk, transfer.more, UNREADABLE_REJECTED)

    def more_head(self, lk: RouterLink, transfer: IncomingTransfer) -> None:
        """Append to an incomplete head. It is scanned again when its section is complete, or, if the end is unknown,
        when the head has doubled, which keeps the work linear."""
        head: bytearray = lk.head  # type: ignore[assignment]
        conn: RouterConnection = lk.connection
        head += transfer.payload()
        conn.heads += transfer.end - transfer.start
        if transfer.more and len(head) < lk.head_due:
            self.check_heads(lk, conn, transfer)
            return
        lk.drop_head()
        self.first_frame(lk, whole_transfer(bytes(head), transfer.more))
