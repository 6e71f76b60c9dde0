"""One end of a link: termini, credit, and the delivery that is passing over it. Spec: 2.6."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp import states
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Attach, Detach, ErrorInfo, Flow

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.performatives import Terminus
    from waymesh_amqp.session import Session

OUTGOING_WINDOW = 0x7FFFFFFF
"""What we say of what we may still send: no bound."""
ROOM = 100
"""Octets of a flow without its properties, at most."""


class Link:
    """`is_sender`: deliveries leave us on it. `remote_handle` is what the peer calls it, `handle` what we call it.

    `credit`: what the receiving side has granted and the sending side not used. `outstanding` (incoming links):
    deliveries that have arrived and whose credit was not given back yet. `busy` (outgoing): a delivery of several
    frames is under way. `backlog`: payloads of frames of it that have to wait for the session window or the transport;
    `abandoned`: it ends with an abort instead. `over`: the handler was told that the link is gone.
    `holding`: the session whose incoming window stays closed because of this link. `passing`: what comes is passed on
    to another peer, which alone decides on credit. `closed`: the peer's detach closed the link for good. Spec: 2.6.5.
    `told`: what the next flow says beyond credit: available, echo, encoded properties.
    `owing`: the peer ended the link, and its detach, end or close is not answered before another link is at its end,
    whose `awaited_by` this one is.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.connection = session.connection
        self.name = ""
        self.state = "DETACHED"
        self.handle = 0
        self.remote_handle = 0
        self.is_sender = False
        self.attached = False
        self.over = False
        self.snd_settle_mode = 2
        self.rcv_settle_mode = 0
        self.source: Terminus | None = None
        self.target: Terminus | None = None
        self.max_message_size = 0
        self.delivery_count = 0
        self.credit = 0
        self.drain = False
        self.accepting = False
        self.capacity = 0
        self.outstanding = 0
        self.replenish = 0
        self.flow_due = False
        self.transfer_id = 0
        self.transfer_settled = False
        self.transfer_format = 0
        self.transfer_bytes = 0
        self.mid_delivery = False
        self.busy = False
        self.backlog: deque[bytes] | None = None
        self.backlog_more = False
        self.abandoned = False
        self.holding: Session | None = None
        self.passing = False
        self.closed = False
        self.told: tuple[int | None, bool, Any] | None = None
        self.owing = False
        self.awaited_by: Link | None = None

    # ---- attach and detach
    def accept(self, attach: Attach, source: Terminus | None, target: Terminus | None) -> None:
        """Answer the peer's attach with the settle modes that it asked for. Spec: 2.6.3."""
        answer = Attach(name=self.name, handle=self.handle, role=not self.is_sender)
        answer.snd_settle_mode = attach.snd_settle_mode
        answer.rcv_settle_mode = attach.rcv_settle_mode
        answer.source = source
        answer.target = target
        if self.is_sender:
            answer.initial_delivery_count = self.delivery_count
        if self.max_message_size:
            answer.max_message_size = self.max_message_size
        self.send_attach(answer)

    def refuse(self, condition: str, description: str) -> None:
        """Answer the peer's attach with one that has no terminus, and a detach that says why. Spec: 2.6.3."""
        self.send_attach(self.bare_answer())
        self.detach(condition, description)

    def bare_answer(self) -> Attach:
        """An attach that says that there is no link."""
        answer = Attach(name=self.name, handle=self.handle, role=not self.is_sender)
        if self.is_sender:
            answer.initial_delivery_count = 0
        return answer

    def send_attach(self, attach: Attach) -> None:
        """Our attach, first or answering; a sender's needs its initial delivery-count.

        An answer that is too long for the peer becomes a refusal. Raises AmqpError for another attach that is.
        """
        following = states.advance(states.LINK, "link", self.state, "attach>", self.session)
        try:
            self.session.send_frame(attach)
        except AmqpError as e:
            if self.state != "ATTACH_RCVD":
                raise
            self.refuse_long(attach, e)
            return
        self.state = following
        self.attached = following == "ATTACHED"

    def refuse_long(self, attach: Attach, error: AmqpError) -> None:
        """The answer to the peer's attach is longer than its frames may be: without termini it nearly always fits."""
        bare = self.bare_answer()
        if attach == bare:  # the name is too long for the peer that chose it
            self.session.end(error.condition, error.description)
        else:
            self.send_attach(bare)
            self.detach(error.condition, error.description)

    def detach(self, condition: str = "", description: str = "") -> None:
        """Close our side. The object lives until the peer has answered; its deliveries end now."""
        self.detach_with(ErrorInfo(condition, description) if condition else None, True)

    def detach_with(self, error: ErrorInfo | None, closed: bool) -> None:
        """Detach with all of an error; not `closed`: what the link was attached to is to outlive it. Spec: 2.6.4."""
        if (self.state, "detach>") not in states.LINK:
            return
        self.state = states.advance(states.LINK, "link", self.state, "detach>", self.session)
        self.attached = False
        self.session.send_frame(Detach(handle=self.handle, closed=closed, error=error))
        self.session.link_over(self, error)

    def answer_after(self, other: Link) -> bool:
        """The peer ended this link: answer when the detach of `other` was answered. False where nobody waits for it."""
        asked = self.connection.state == "CLOSE_RCVD" or self.session.state == "END_RCVD" or self.state == "DETACH_RCVD"
        if not asked or other.connection.over or other.state not in ("DETACH_SENT", "DETACH_PIPE"):
            return False
        other.awaited_by = self
        self.owing = True
        self.session.owing += 1
        self.connection.owing += 1
        return True

    def answer_now(self, error: ErrorInfo | None = None, closed: bool = False) -> None:
        """Nothing is to be waited for any more. `error`, `closed`: what the other peer said in its answer."""
        if not self.owing:
            return
        self.owing = False
        session: Session = self.session
        conn: Connection = self.connection
        session.owing -= 1
        conn.owing -= 1
        if session.mapped:
            if self.state == "DETACH_RCVD":
                self.closed = self.closed or closed
                self.answer_detach(error)
        elif conn.state == "CLOSE_RCVD":
            if conn.owing == 0 and not (conn.done or conn.lost_links):
                conn.answer_close()
        elif session.state == "END_RCVD" and session.owing == 0 and not conn.over:
            session.answer_end()

    def answer_detach(self, error: ErrorInfo | None = None) -> None:
        """Answer the peer's detach. Spec: 2.6.4."""
        self.state = states.advance(states.LINK, "link", self.state, "detach>", self.session)
        self.session.send_frame(Detach(handle=self.handle, closed=self.closed, error=error))
        self.session.forget(self)

    # ---- credit of an incoming link
    def grant(self) -> None:
        """Open the link: credit up to its capacity, and back after each delivery from now on."""
        self.accepting = True
        want: cython.longlong = self.capacity - self.outstanding - self.credit
        if want > 0 or self.drain:
            self.drain = False
            self.replenish = want if want > 0 else 0
            self.flow_soon()

    def withdraw(self) -> None:
        """Take unused credit back: drain. Spec: 2.6.7."""
        self.accepting = False
        self.replenish = 0
        if self.credit > 0 and not self.drain:
            self.drain = True
            self.flow_soon()

    def give_back(self) -> None:
        """A delivery that arrived on this link is done with: its credit may be used again."""
        self.outstanding -= 1
        if self.accepting:
            self.replenish += 1
            if self.replenish * 4 >= self.capacity and not self.flow_due:
                self.flow_soon()

    def flow_soon(self) -> None:
        """Send a flow for this link at the next flush."""
        if not self.flow_due and self.attached:
            self.flow_due = True
            self.session.flow_links.append(self)
            self.session.list_for_flush()

    # ---- outgoing link
    def finish_drain(self) -> None:
        """A delivery could go out, there is none, the receiver drains: use the credit up and say so. Spec: 2.6.7."""
        if self.drain and self.attached and self.ready():
            self.delivery_count = (self.delivery_count + self.credit) & 0xFFFFFFFF
            self.credit = 0
            self.flow_soon()

    def ready(self) -> cython.bint:
        """Whether a delivery can go out now: credit, session window, no delivery under way, no backed-up connection."""
        if self.credit <= 0 or self.busy or self.session.remote_window <= 0:
            return False
        return not self.connection.backed_up() or self.session.channel == self.connection.express


def told_flow(session: Session, link: Link) -> Flow:
    """A flow with what the peer of another link said beyond credit; it is said once. Spec: 2.7.4."""
    told: Any = link.told
    link.told = None
    available, echo, properties = told
    if properties is not None and len(properties) > link.connection.peer_max - ROOM:
        properties = None  # the credit matters more
    return Flow(
        next_incoming_id=session.next_incoming_id,
        incoming_window=(session.window_end - session.next_incoming_id) & 0xFFFFFFFF,
        next_outgoing_id=session.next_outgoing_id,
        outgoing_window=OUTGOING_WINDOW,
        handle=link.handle,
        delivery_count=link.delivery_count,
        link_credit=link.credit if link.credit > 0 else 0,
        available=available,
        drain=link.drain,
        echo=echo,
        properties=properties,
    )
