"""One endpoint of a link: termini, credit, and the delivery in progress. Spec: 2.6."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Attach, Detach, ErrorInfo
from waymesh_amqp.refused import keep_handles
from waymesh_amqp.states import LINK, Event, advance, may

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import (
        ATTACH_RCVD,
        ATTACHED,
        DETACH_PIPE,
        DETACH_RCVD,
        DETACH_SENT,
        DETACHED,
        MAPPED,
    )
else:
    from waymesh_amqp.states import (
        ATTACH_RCVD,
        ATTACHED,
        DETACH_PIPE,
        DETACH_RCVD,
        DETACH_SENT,
        DETACHED,
        MAPPED,
    )

if TYPE_CHECKING:
    from waymesh_amqp.codec_values import Raw
    from waymesh_amqp.performatives import Terminus
    from waymesh_amqp.session import Session


class Link:
    """Our endpoint of a link. `is_sender`: an outgoing link, on which deliveries leave the router."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.connection = session.connection
        self.name = ""
        self.state = DETACHED
        self.handle = 0  # ours
        self.remote_handle = 0  # the peer's
        self.is_sender = False
        self.attached = False  # state is ATTACHED, see `enter` and `usable`
        self.over = False  # the handler was notified that the link has ended
        self.snd_settle_mode = 2
        self.rcv_settle_mode = 0
        self.source: Terminus | None = None
        self.target: Terminus | None = None
        self.max_message_size = 0  # incoming: ours; outgoing: the peer's; 0: none
        self.counts_sizes = False  # count larger messages in `oversized`, do not refuse them, announce no limit
        self.oversized = 0
        self.delivery_count = 0
        self.credit = 0  # granted by the receiver and not used by the sender
        self.paused = False  # outgoing: begins no delivery; the credit is kept in `paused_credit`
        self.paused_credit = 0
        self.drain = False
        self.passing = False  # a routed link: frames are forwarded to another peer, which alone controls the credit
        self.closed = False  # the peer's detach closed the link. Spec: 2.6.5
        # `available`, `echo` and the properties of the next flow
        self.next_flow_details: tuple[int | None, bool, Raw | None] | None = None
        self.holding: Session | None = None  # session whose incoming window stays closed because of this link
        # Our answer (detach, end or close) to the peer waits until another link has ended:
        self.answer_postponed = False
        self.awaited_by: Link | None = None  # on that other link: the link that waits for it
        self.flow_due = False
        # incoming links
        self.accepting = False  # credit is replenished
        self.capacity = 0
        self.held_back = 0  # part of the capacity that is not issued now
        self.taken_back = 0  # on a routed link: credit that was issued and then lowered, which the sender may still use
        self.excess = 0  # deliveries beyond the credit (`credit` is negative then); at most `capacity`
        self.outstanding = 0  # deliveries whose credit was not returned yet
        self.replenish = 0  # credit for the next flow
        self.mid_delivery = False  # more frames of the current delivery follow
        self.transfer_id = 0
        self.transfer_settled = False
        self.transfer_format = 0
        # size of the delivery in progress, if there is a maximum; on outgoing links: what was sent of it
        self.transfer_bytes = 0
        # outgoing links
        self.busy = False  # a delivery of several frames is in progress
        self.backlog: deque[bytes] | None = None  # its payloads that wait for the session window or the transport
        self.backlog_more = False
        self.abandoned = False  # abort the delivery instead of sending its backlog

    def enter(self, state: cython.int) -> None:
        """Change the state, and `attached`, which is read for each frame."""
        self.state = state
        self.attached = state == ATTACHED

    def usable(self) -> cython.bint:
        """Whether it is attached, and its session has not ended."""
        return self.attached and not self.session.losing

    def unanswered(self) -> cython.bint:
        """Whether the peer's attach can still be answered."""
        return self.state == ATTACH_RCVD and not self.connection.over and not self.session.losing

    # ---- attach and detach
    def accept(self, attach: Attach, source: Terminus | None, target: Terminus | None) -> None:
        """Answer the peer's attach with the settle modes that it requested. Spec: 2.6.3."""
        answer = Attach(name=self.name, handle=self.handle, role=not self.is_sender)
        answer.snd_settle_mode = attach.snd_settle_mode
        answer.rcv_settle_mode = attach.rcv_settle_mode
        answer.source = source
        answer.target = target
        if self.is_sender:
            answer.initial_delivery_count = self.delivery_count
        if self.max_message_size and not self.counts_sizes and not self.is_sender:
            answer.max_message_size = self.max_message_size
        self.send_attach(answer)

    def refuse(self, condition: str, description: str) -> None:
        """Answer the peer's attach with an attach without terminus, and a detach with the error. Spec: 2.6.3."""
        self.send_attach(self.bare_answer())
        self.detach(condition, description)
        keep_handles(self)

    def bare_answer(self) -> Attach:
        """An attach without termini, which refuses the link, with the settle modes that the peer requested."""
        answer = Attach(name=self.name, handle=self.handle, role=not self.is_sender)
        answer.snd_settle_mode = self.snd_settle_mode
        answer.rcv_settle_mode = self.rcv_settle_mode
        if self.is_sender:
            answer.initial_delivery_count = 0
        return answer

    def send_attach(self, attach: Attach) -> None:
        """Send our attach, first or in answer; a sender's needs its initial delivery-count.

        An answer that is too long for the peer's max-frame-size becomes a refusal; any other attach raises AmqpError.
        """
        if self.session.losing:
            return
        following = advance(LINK, self.state, Event.ATTACH_OUT, self.session)
        try:
            self.session.send_frame(attach)
        except AmqpError as e:
            if self.state != ATTACH_RCVD:
                raise
            self.refuse_long(attach, e)
            return
        self.enter(following)

    def refuse_long(self, attach: Attach, error: AmqpError) -> None:
        """Refuse a link because our answer is longer than the peer's max-frame-size: without termini it nearly always
        fits."""
        bare = self.bare_answer()
        if attach == bare:  # even the name alone does not fit, although the peer chose it
            self.session.end(error.condition, error.description)
        else:
            self.send_attach(bare)
            self.detach(error.condition, error.description)
            keep_handles(self)

    def detach(self, condition: str = "", description: str = "") -> None:
        """Close the link. Its deliveries end now; the object stays until the peer answers."""
        self.detach_with(ErrorInfo(condition, description) if condition else None, True)

    def detach_with(self, error: ErrorInfo | None, closed: bool) -> None:
        """Detach. Unless `closed`, the peer may keep the terminus for a later attach. Spec: 2.6.4, 2.6.5."""
        if self.session.losing:  # it ended with its session; the handler may not have been notified yet
            self.session.link_over(self, error)
            return
        if not may(LINK, self.state, Event.DETACH_OUT):
            return
        self.enter(advance(LINK, self.state, Event.DETACH_OUT, self.session))
        self.session.send_frame(Detach(handle=self.handle, closed=closed, error=error))
        self.session.link_over(self, error)

    def answer_after(self, other: Link) -> bool:
        """The peer detached this link: answer after the peer of `other` answers its detach. False if none is expected.

        An end and a close are answered at once.
        """
        if self.state != DETACH_RCVD or other.connection.over or other.state not in (DETACH_SENT, DETACH_PIPE):
            return False
        other.awaited_by = self
        self.answer_postponed = True
        return True

    def answer_now(self, error: ErrorInfo | None = None, closed: bool = False) -> None:
        """Send the answer that `answer_after` postponed. `error`, `closed`: from the other peer's answer."""
        if not self.answer_postponed:
            return
        self.answer_postponed = False
        if self.session.state == MAPPED and self.state == DETACH_RCVD:
            self.closed = self.closed or closed
            self.answer_detach(error)

    def answer_detach(self, error: ErrorInfo | None = None) -> None:
        """Answer the peer's detach. Spec: 2.6.4."""
        self.enter(advance(LINK, self.state, Event.DETACH_OUT, self.session))
        self.session.send_frame(Detach(handle=self.handle, closed=self.closed, error=error))
        self.session.forget(self)

    # ---- credit of an incoming link
    def grant(self) -> None:
        """Issue credit up to the link's capacity, and replenish it after each delivery from now on."""
        self.accepting = True
        want: cython.longlong = self.capacity - self.held_back - self.outstanding - self.credit
        if want > 0 or self.drain:
            self.drain = False
            self.replenish = want if want > 0 else 0
            self.flow_soon()

    def withdraw(self) -> None:
        """Withdraw unused credit by draining. Spec: 2.6.7."""
        self.accepting = False
        self.replenish = 0
        if self.credit > 0 and not self.drain:
            self.drain = True
            self.flow_soon()

    def return_credit(self) -> None:
        """A delivery of this link has ended: return its credit, at once if the sender has none. Up to a quarter of the
        capacity is collected while it has some."""
        self.outstanding -= 1
        if self.accepting:
            self.replenish += 1
            if (self.replenish * 4 >= self.capacity or self.credit <= 0 or self.held_back) and not self.flow_due:
                self.flow_soon()

    def use_up(self, number: cython.longlong) -> None:
        """The sender gave up this much credit, or all that it has. What it has sent without credit stays counted."""
        beyond: cython.longlong = number - max(self.credit, 0)
        if beyond > 0:
            self.taken_back = max(self.taken_back - beyond, 0)
            number -= beyond
        self.credit -= number

    def set_credit(self, credit: cython.longlong) -> None:
        """Set the credit of a routed link. What the sender was issued before stays allowed: it may be on its way."""
        self.taken_back = max(self.taken_back + self.credit - credit, 0)
        self.credit = credit
        self.flow_soon()

    def flow_soon(self) -> None:
        """Send a flow for this link at the next flush."""
        if not self.flow_due and self.usable():
            self.flow_due = True
            self.session.flow_links.append(self)
            self.session.list_for_flush()

    # ---- outgoing link
    def pause(self) -> None:
        """Begin no delivery until `resume`; the receiver's credit is kept."""
        self.paused = True
        self.paused_credit = self.credit
        self.credit = 0

    def resume(self) -> None:
        """End a pause: send waiting deliveries."""
        self.paused = False
        self.credit = self.paused_credit
        if self.attached:
            self.session.handler.on_credit(self)

    def finish_drain(self) -> None:
        """No delivery waits: if the receiver drains, use up the credit and answer with a flow. Spec: 2.6.7."""
        if self.drain and self.attached and self.ready():
            self.delivery_count = (self.delivery_count + self.credit) & 0xFFFFFFFF
            self.credit = 0
            self.flow_soon()

    def ready(self) -> cython.bint:
        """Whether a delivery can begin: attached, credit, window, none in progress, no backlog on the connection."""
        if self.credit <= 0 or self.busy or self.session.remote_window <= 0 or not self.attached:
            return False
        return not self.connection.backed_up() or self.session.channel == self.connection.express
