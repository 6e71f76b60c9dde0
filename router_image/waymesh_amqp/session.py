"""Sessions: their states, handles, windows and outcomes. Spec: 2.5, 2.6.12.

Frames of the peer are handled in transfer.py, flows.py, dispositions.py and link_frames.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.delivery import DeliveryRing
from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL, AmqpError
from waymesh_amqp.fitting import fitting_frame
from waymesh_amqp.free_numbers import FreeNumbers
from waymesh_amqp.limits import HANDLE_MAX, OUTGOING_WINDOW
from waymesh_amqp.link import Link
from waymesh_amqp.lost_links import lose_session
from waymesh_amqp.outcome_ranges import OutcomeRanges
from waymesh_amqp.performatives import Begin, Detach, End, ErrorInfo
from waymesh_amqp.refused import drop_refused
from waymesh_amqp.states import SESSION, Event, advance, may

if cython.compiled:
    from cython.cimports.waymesh_amqp.dispositions import write_disposition
    from cython.cimports.waymesh_amqp.flows import renew_window, write_flow, write_window
    from cython.cimports.waymesh_amqp.outgoing import flush_backlog
    from cython.cimports.waymesh_amqp.states import BEGIN_RCVD, DETACH_PIPE, END_RCVD, ENDED, GONE, MAPPED, UNMAPPED
    from cython.cimports.waymesh_amqp.wire import serial_add
else:
    from waymesh_amqp.dispositions import write_disposition
    from waymesh_amqp.flows import renew_window, write_flow, write_window
    from waymesh_amqp.outgoing import flush_backlog
    from waymesh_amqp.states import BEGIN_RCVD, DETACH_PIPE, END_RCVD, ENDED, GONE, MAPPED, UNMAPPED
    from waymesh_amqp.wire import serial_add

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.performatives import Performative

HALF_OF_IDS = cython.declare(cython.uint, 0x7FFFFFFF)  # serial numbers. Spec: 2.8.10
FEW_FRAMES = cython.declare(cython.uint, 16)


class Session:
    """Our endpoint of a session: its links, windows and unsettled deliveries."""

    def __init__(self, connection: Connection, channel: cython.int, window: cython.uint) -> None:
        self.connection = connection
        self.handler = connection.handler
        self.channel = channel  # ours
        self.remote_channel = -1  # the peer's
        self.state = UNMAPPED
        self.links: list[Link | None] = []  # by our handle
        self.handles = FreeNumbers()
        self.remote_links: dict[int, Link] = {}  # by the peer's handle
        self.last_handle = -1
        self.last_link: Link | None = None  # the link of `last_handle`
        self.refused: dict[int, int] | None = None  # see refused.py: our handles by the peer's
        self.remote_handle_max = 0xFFFFFFFF
        self.window = window  # our incoming window, in frames
        self.next_incoming_id = 0
        self.window_end = 0  # the first transfer-id beyond our incoming window
        self.spare = 0  # frames beyond it that the peer may have sent before it learns of a smaller window
        self.gave_credit = False  # to a link of the peer
        self.next_outgoing_id = 0
        self.remote_window = 0  # frames that the peer still accepts
        self.next_delivery_id = 0
        self.unsettled_in = DeliveryRing(False)
        self.unsettled_out = DeliveryRing(True)
        self.outcomes = OutcomeRanges()
        self.outcome_state = b""  # of the collected outcomes
        # Until `send_outcomes`, so that a sender that waits for them pauses. Other frames write some earlier.
        self.keeps_outcomes = False
        self.checked_state = b""  # the last checked delivery state, and whether it is a transactional one
        self.state_transactional = False
        self.flow_links: list[Link] = []  # links with a flow at the next flush
        self.window_due = False  # send a flow with our window at the next flush
        self.window_low = False  # the same, if the peer may send before it gets credit
        self.listed = False  # is in `connection.flush_sessions`
        self.holds = 0  # number of links that keep our window closed
        self.holds_out = 0  # those of them that are outgoing
        self.ours = False  # we have begun it
        self.losing = False  # it has ended, and its links end in portions, see lost_links.py
        self.lost = 0  # number of its handles whose links have ended so
        self.error: ErrorInfo | None = None  # the reason for its end
        self.blocked: list[Link] = []  # links with a backlog

    def new_delivery_id(self) -> cython.uint:
        """The id of the next outgoing delivery. After a wrap, it skips ids that are still unsettled. Spec: 2.8.10."""
        oid: cython.uint = self.next_delivery_id
        while oid & HALF_OF_IDS == 0 or self.unsettled_out.overflow is not None:
            if oid & HALF_OF_IDS == 0:
                self.unsettled_out.keep_ahead(oid)
            if self.unsettled_out.find(oid) is None:
                break
            oid = serial_add(oid, 1)
        self.next_delivery_id = serial_add(oid, 1)
        return oid

    # ---- begin and end
    def begin(self) -> None:
        """Send our begin, first or in answer. Spec: 2.5.1."""
        answering = self.state == BEGIN_RCVD
        self.ours = not answering
        self.state = advance(SESSION, self.state, Event.BEGIN_OUT, self)
        self.window_end = serial_add(self.next_incoming_id, self.window)
        self.send_frame(
            Begin(
                remote_channel=self.remote_channel if answering else None,
                next_outgoing_id=self.next_outgoing_id,
                incoming_window=self.window,
                outgoing_window=OUTGOING_WINDOW,
                handle_max=HANDLE_MAX,
            )
        )

    def on_begin(self, begin: Begin, remote_channel: cython.int) -> None:
        self.state = advance(SESSION, self.state, Event.BEGIN_IN, self)
        self.remote_channel = remote_channel
        self.next_incoming_id = begin.next_outgoing_id
        self.window_end = serial_add(self.next_incoming_id, self.window)
        self.remote_window = begin.incoming_window
        if begin.handle_max is not None:
            self.remote_handle_max = begin.handle_max

    def end(self, condition: str = "", description: str = "") -> None:
        """End the session from our side; with a condition, because of an error. Spec: 2.5.4."""
        if not may(SESSION, self.state, Event.END_OUT):
            return
        self.state = advance(SESSION, self.state, Event.END_OUT, self)
        error = ErrorInfo(condition, description) if condition else None
        self.send_frame(End(error=error))
        self.over(error)

    def on_end(self, end: End) -> None:
        self.state = advance(SESSION, self.state, Event.END_IN, self)
        if self.state == END_RCVD:
            self.over(end.error)
            if not self.losing:
                self.answer_end()

    def answer_end(self) -> None:
        self.state = advance(SESSION, self.state, Event.END_OUT, self)
        self.send_frame(End())
        self.connection.free_channel(self)

    def over(self, error: ErrorInfo | None) -> None:
        """The session has ended with its links; many links end later, in portions."""
        self.error = error
        self.remote_window = 0
        drop_refused(self)
        if self.connection.over:
            self.state = ENDED
        elif self.handles.used > self.connection.settings.links_at_once:
            lose_session(self)
            return
        for link in list(self.links):
            if link is not None:
                self.lose(link, error)
        self.flow_links.clear()
        self.outcomes.clear()

    def lose(self, link: Link, error: ErrorInfo | None) -> None:
        """The link has ended with its session."""
        link.enter(GONE)
        self.link_over(link, error)
        self.forget(link)

    def send_frame(self, performative: Performative) -> None:
        """Write a frame after the outcomes collected so far. Errors are shortened to the peer's max-frame-size.

        Raises AmqpError if another frame is too long. Writes nothing after the connection or the session has ended.
        """
        if self.connection.over or self.losing:
            return
        frame = fitting_frame(self.channel, performative, self.connection.peer_max)
        if frame is None:
            text = f"{type(performative).__name__.lower()} of more than {self.connection.peer_max} octets"
            raise AmqpError(FRAME_SIZE_TOO_SMALL, text, self)
        self.connection.flush_outcomes()
        self.connection.put(frame)
        self.connection.mark_dirty()

    # ---- links
    def new_handle(self, link: Link) -> None:
        """Give the link the lowest free handle."""
        self.connection.links += 1
        link.handle = self.handles.take()
        if link.handle < len(self.links):
            self.links[link.handle] = link
        else:
            self.links.append(link)

    def free_handle(self, link: Link) -> None:
        """Free our handle of the link."""
        if link.handle < len(self.links) and self.links[link.handle] is link:
            self.links[link.handle] = None
            if self.losing:
                self.handles.used -= 1  # none is taken again: a list of them would have to be freed at once
            else:
                self.handles.give(link.handle)
            self.connection.links -= 1
            if self.handles.used == 0:
                self.links.clear()

    def link_over(self, link: Link, error: ErrorInfo | None) -> None:
        """Notify the handler, once, that the link has ended."""
        if link.state != DETACH_PIPE:  # in DETACH_PIPE the peer's attach is still expected and must be recognised
            self.forget_name(link)
        if not link.over:
            link.over = True
            link.backlog = None
            self.handler.on_detach(link, error)
            if link.holding is not None:
                link.holding.release(link)

    def forget_name(self, link: Link) -> None:
        """Free the link's name."""
        key = (link.name, link.is_sender)
        if self.connection.names.get(key) is link:
            del self.connection.names[key]

    def forget(self, link: Link, answer: Detach | None = None) -> None:
        """Free the link's name and handles. `answer`: the peer's answer to our detach."""
        self.forget_name(link)
        self.free_handle(link)
        self.free_remote_handle(link)
        waiting = link.awaited_by
        if waiting is not None:
            link.awaited_by = None
            waiting.answer_now(None if answer is None else answer.error, answer is not None and answer.closed)

    def remote_link(self, handle: cython.longlong) -> Link | None:
        """The link with this handle of the peer."""
        if handle == self.last_handle:
            return self.last_link
        link = self.remote_links.get(handle)
        if link is not None:
            self.last_handle = handle
            self.last_link = link
        return link

    def free_remote_handle(self, link: Link) -> None:
        """Free the peer's handle of the link."""
        if self.remote_links.get(link.remote_handle) is link:
            del self.remote_links[link.remote_handle]
            self.last_handle = -1
            self.last_link = None

    # ---- incoming frames
    def unblock(self) -> None:
        """The peer's window has opened: write the backlogs of deliveries in progress."""
        links = self.blocked
        self.blocked = []
        for link in links:
            if link.attached:
                flush_backlog(link)

    # ---- outgoing outcomes
    def settle(self, did: cython.uint, state: bytes) -> None:
        """Settle an incoming delivery with this outcome: reported at the next flush, merged with adjacent ids."""
        outcomes: OutcomeRanges = self.outcomes
        if outcomes.pending:
            if self.outcome_state is state or self.outcome_state == state:
                outcomes.add(did)
                return
            self.put_outcomes()
        if self.losing:  # none are collected then
            return
        outcomes.add(did)
        self.outcome_state = state
        self.connection.outcome_sessions.append(self)
        self.list_for_flush()

    def list_for_flush(self) -> None:
        """Request a call of `flush` at the connection's next flush."""
        if not self.listed:
            self.listed = True
            self.connection.flush_sessions.append(self)
            self.connection.mark_dirty()

    def put_outcomes(self) -> None:
        """Write the collected outcomes as dispositions."""
        outcomes: OutcomeRanges = self.outcomes
        if not outcomes.pending:
            return
        if outcomes.single():
            write_disposition(self, True, outcomes.first, outcomes.last, True, self.outcome_state)
        else:
            while outcomes.take():
                write_disposition(self, True, outcomes.first, outcomes.last, True, self.outcome_state)
        outcomes.clear()

    def send_outcomes(self) -> None:
        """Stop holding outcomes: they are written at the next flush."""
        self.keeps_outcomes = False
        if self.outcomes.pending:
            self.connection.outcome_sessions.append(self)
            self.list_for_flush()

    def report(self, receiver: cython.bint, did: cython.uint, settled: cython.bint, state: bytes) -> None:
        """Write a disposition now, after the outcomes collected so far."""
        if self.connection.over or self.state != MAPPED:
            return
        self.put_outcomes()
        write_disposition(self, receiver, did, did, settled, state)
        self.connection.mark_dirty()

    # ---- flow out
    def window_soon(self) -> None:
        """Send a flow with our window at the next flush."""
        if not self.window_due:
            self.window_due = True
            self.list_for_flush()

    def window_is_low(self) -> None:
        """Send a flow with our window at the next flush, unless the peer must wait for credit anyway."""
        if not self.window_low:
            self.window_low = True
            self.list_for_flush()

    def may_continue(self) -> cython.bint:
        """Whether the peer may send more on the link of the last transfer before it gets credit.

        Otherwise the flow with its next credit also has the window, which saves a write for each round of credit.
        """
        link = self.last_link
        if link is None or link.is_sender or link.passing or link.mid_delivery or link.credit > 0:
            return True
        return self.window_end == self.next_incoming_id  # another link may have credit

    def hold_window(self, link: Link) -> None:
        """Keep the incoming window closed while `link`, outgoing or incoming, cannot forward its deliveries.

        Any number of links may hold a session; an outgoing link releases it when its connection's backlog is written. A
        session that only incoming links hold still gets a few frames at a time if the handler needs them: `admit_few`.
        """
        before: Session | None = link.holding
        if before is self:
            return
        link.holding = self
        self.holds += 1
        self.holds_out += link.is_sender
        if before is not None:
            before.release_window(link)
        elif link.is_sender:
            link.connection.held.append(link)

    def release(self, link: Link) -> None:
        """`link`, if it keeps the window closed, stops doing so."""
        if link.holding is self:
            link.holding = None
            self.release_window(link)

    def release_window(self, link: Link) -> None:
        """`link` stops keeping the window closed."""
        self.holds -= 1
        self.holds_out -= link.is_sender
        if self.holds_out == 0 and self.state == MAPPED:
            self.window_soon()

    def flush(self) -> None:
        """Write the collected outcomes, which free the peer's memory, then the credit."""
        self.listed = False
        if self.state != MAPPED:
            return
        if not self.keeps_outcomes:
            self.put_outcomes()
        if self.window_low:
            self.window_low = False
            if self.may_continue():
                self.window_due = True
                renew_window(self)
        if self.window_due and self.holds:
            self.admit_few()
        link: Link
        if self.flow_links:
            links = self.flow_links
            self.flow_links = []
            for e in links:
                link = e
                link.flow_due = False
                if link.attached:
                    if link.replenish > 0 and not self.gave_credit:
                        self.gave_credit = True
                        renew_window(self)  # with the credit, because a client may send a whole message at once
                    link.credit += link.replenish
                    link.replenish = 0
                    write_flow(self, link)
        if self.window_due:
            write_window(self)

    def admit_few(self) -> None:
        """Open the window of a held session for a few frames, if it is used up and the handler needs them."""
        used_up: cython.bint = self.window_end == self.next_incoming_id
        if used_up and self.holds_out == 0 and self.handler.on_held_window(self):
            self.window_end = serial_add(self.next_incoming_id, min(self.window, FEW_FRAMES))
        else:
            self.window_due = False
