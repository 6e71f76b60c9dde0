"""One AMQP connection: frames, sessions, time-outs. Bytes in, calls of a `Handler`, bytes out. Spec: 2.2 to 2.4, 5.3"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.buffer import OutputBuffer
from waymesh_amqp.errors import CONNECTION_FORCED, FRAMING_ERROR, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from waymesh_amqp.fitting import fitting_frame
from waymesh_amqp.free_numbers import FreeNumbers
from waymesh_amqp.incoming_flow import IncomingFlow
from waymesh_amqp.limits import MIN_MAX_FRAME
from waymesh_amqp.link import Link
from waymesh_amqp.lost_links import SESSIONS_A_LINK, end_some, lose_session
from waymesh_amqp.performatives import Close, ErrorInfo, Open, encode_frame
from waymesh_amqp.session import Session
from waymesh_amqp.states import CONNECTION, Event, advance, may
from waymesh_amqp.time_outs import TimeOuts
from waymesh_amqp.transfer import IncomingTransfer

if cython.compiled:
    from cython.cimports.waymesh_amqp.frame_reader import take_frames
    from cython.cimports.waymesh_amqp.preamble import (
        DEAD,
        FRAMES,
        HEADER,
        SASL,
        WAITING,
        end_sasl_step,
        start_client,
        take_preamble,
    )
    from cython.cimports.waymesh_amqp.states import (
        CLOSE_RCVD,
        CLOSE_SENT,
        END,
        ENDED,
        HDR_EXCH,
        OPEN_RCVD,
        OPENED,
        START,
    )
    from cython.cimports.waymesh_amqp.wire import Octets
else:
    from waymesh_amqp.frame_reader import take_frames
    from waymesh_amqp.preamble import DEAD, FRAMES, HEADER, SASL, WAITING, end_sasl_step, start_client, take_preamble
    from waymesh_amqp.states import CLOSE_RCVD, CLOSE_SENT, END, ENDED, HDR_EXCH, OPEN_RCVD, OPENED, START
    from waymesh_amqp.wire import Octets

if TYPE_CHECKING:
    from waymesh_amqp.handler import Handler
    from waymesh_amqp.settings import ConnectionSettings, Exchange

HIGH_WATER = cython.declare(cython.Py_ssize_t, 1048576)
"""High-water mark of unsent output, in bytes: above it, links of the connection begin no deliveries."""
LOW_WATER = cython.declare(cython.Py_ssize_t, 262144)
NO_BUDGET = cython.declare(cython.longlong, 1 << 62)
EMPTY_FRAME = bytes((0, 0, 0, 8, 2, 0, 0, 0))


class Connection(OutputBuffer):
    """One AMQP connection. Its owner reads and writes the transport.

    The owner passes input to `receive`, writes `pending()`, reports written bytes with `sent`, and calls `tick` when it
    is due. When `done` is set, the owner stops reading, writes `pending()` and closes the transport.
    """

    def __init__(self, settings: ConnectionSettings, handler: Handler, now: cython.double) -> None:
        OutputBuffer.__init__(self)
        self.settings = settings
        self.handler = handler
        self.phase = HEADER  # what to read next, see preamble.py
        self.state = START
        self.transfer = IncomingTransfer()
        self.incoming_flow = IncomingFlow()
        self.frame_end = 0  # of the current frame
        self.budget = NO_BUDGET  # of work, at the end of which `receive` stops; the owner sets it before each call
        self.octets_in = 0  # of whole frames
        self.unfinished = 0  # octets of the incomplete frame after them
        self.octets_out = 0
        self.unread = False  # set by the owner: nothing is read until the peer takes output
        self.left = False  # the peer takes nothing more, see peer_left.py
        self.progress = 0  # set by the owner meanwhile: changes as long as the peer takes output or sends segments
        self.done = False
        self.channels_exceeded = False  # the connection ended because the peer began a session over channel-max
        self.over = False  # the handler was notified, or `end_links` will notify it
        self.error: ErrorInfo | None = None  # the reason, unless it was closed orderly
        self.remote: Open | None = None  # the peer's open
        self.user: str | None = None  # the authenticated identity, None if anonymous
        self.groups: tuple[str, ...] = ()  # groups in the user's token
        self.expires_at = math.inf  # expiry of the token, in seconds since 1970; the owner closes the connection then
        self.mechanism: str | None = None
        self.sasl: Exchange | None = None
        self.peer_max = MIN_MAX_FRAME
        self.max_frame = settings.max_frame_size
        self.channel_max = settings.channel_max
        self.sessions: dict[int, Session] = {}  # by our channel
        self.remote_sessions: dict[int, Session] = {}  # by the peer's channel
        self.channels = FreeNumbers()
        self.links = 0  # number of our handles in use
        self.refused = 0  # those of them of refused links, see refused.py
        self.losing: deque[Session] | None = None  # ended sessions with links that `end_links` must end
        self.last_channel = -1
        self.last_session: Session | None = None  # the session of `last_channel`
        self.names: dict[tuple[str, bool], Link] = {}
        self.flush_sessions: list[Session] = []
        self.outcome_sessions: list[Session] = []  # those of them with collected outcomes
        self.range_left: list[Any] = []  # of a disposition that is applied in part, see `apply_wide_range`
        self.waits = 0  # walks of the handler, before whose end no further frame is handled
        self.dirty = False  # is in `handler.dirty`
        self.congested = False  # `backed_up` returned True; `on_writable` is due
        self.held: list[Link] = []  # links that hold other sessions because of unsent output here
        self.express_pending = False  # the `express` session has new frames
        self.times = TimeOuts(now, now + settings.handshake_timeout_s)
        if settings.client:
            start_client(self)

    # ---- transport side
    def receive(
        self,
        b: cython.const[cython.uchar][::1],  # type: ignore[valid-type] # a memory view, which only Cython can name
        n: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Handle the whole frames in b[:n] within the budget; returns the number of bytes used.

        The caller presents the rest again, with more input after it unless the budget is used up.
        """
        pos: cython.Py_ssize_t = 0
        used: cython.Py_ssize_t
        if n > len(b):
            raise ValueError(f"{n} octets of a buffer of {len(b)}")
        if n <= 0:
            return 0
        data: Octets = cython.address(b[0]) if cython.compiled else b
        while True:
            try:
                while self.phase != FRAMES:
                    if self.phase == DEAD:
                        return n
                    used = take_preamble(self, data, pos, n)
                    if used == 0:
                        self.octets_in += pos
                        return pos
                    pos += used
                used = take_frames(self, data, pos, n)
                self.octets_in += used
                self.unfinished = n - used
                return used
            except AmqpError as e:
                if e.ends is None or e.ends.connection is self:
                    self.fail(e.condition, e.description)
                    return n
                e.ends.end(e.condition, e.description)  # this peer's frame was valid: continue after it
                pos = self.frame_end
                self.budget -= 1
                if self.budget <= 0:
                    self.octets_in += pos
                    self.unfinished = n - pos
                    return pos

    def sent(self, n: cython.Py_ssize_t) -> None:
        """The transport took n bytes of `pending()`."""
        self.consume(n)
        self.octets_out += n
        self.times.spoke = True
        if self.end - self.off < LOW_WATER:
            if self.held:
                self.release_held()
            if self.congested:
                self.congested = False
                session: Session
                for session in list(self.sessions.values()):
                    if session.blocked:
                        session.unblock()
                self.handler.on_writable(self)

    def flush(self) -> None:
        """Write frames for the collected outcomes and credit."""
        self.dirty = False
        s: Session
        while self.flush_sessions:
            batch = self.flush_sessions
            self.flush_sessions = []
            self.outcome_sessions.clear()
            for e in batch:
                s = e
                s.flush()
                if s.channel == self.express:
                    self.express_pending = True
        if self.express_pending:
            self.express_pending = False
            self.move_express_first()

    def flush_outcomes(self) -> None:
        """Write the collected outcomes now, so that later frames do not overtake them."""
        s: Session
        for e in self.outcome_sessions:
            s = e
            s.put_outcomes()
        self.outcome_sessions.clear()

    def eof(self, reason: str) -> None:
        """The transport is closed."""
        if self.error is None and self.state not in (END, START, CLOSE_RCVD):
            self.error = ErrorInfo(CONNECTION_FORCED, reason)
        self.finish()

    def tick(self, now: cython.double) -> cython.double:
        """Heartbeats, and time-outs for idle, handshake and close; returns the time of the next call, or math.inf."""
        if self.done:
            return math.inf
        if not self.times.update(now, self.octets_in + self.progress, self.unfinished):
            self.trim()
        if self.state != OPENED:
            if now >= self.times.deadline:
                reason = "handshake not completed in time" if self.remote is None else "no answer to close"
                if self.state == START:
                    self.error = ErrorInfo(CONNECTION_FORCED, reason)
                self.eof(reason)
                return math.inf
            return self.times.deadline
        idle: cython.double = self.settings.idle_timeout_s
        if idle > 0 and now - self.times.last_heard >= idle:
            self.fail(RESOURCE_LIMIT_EXCEEDED, "local-idle-timeout expired")
            return self.times.deadline
        if self.times.heartbeat_due(now) and self.off == self.end:
            self.put(EMPTY_FRAME)
            self.mark_dirty()
            self.times.last_spoke = now
        return self.times.next_tick(now, idle)

    # ---- state
    def mark_dirty(self) -> None:
        """Request a call of `flush` and a write of the output at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.handler.dirty.append(self)

    def backed_up(self) -> cython.bint:
        """Whether unsent output is above the high-water mark. If so, begin no delivery before `on_writable`."""
        if self.end - self.off > HIGH_WATER:
            self.congested = True
            return True
        return False

    def release_held(self) -> None:
        """Release the sessions that links of this connection hold, if the reason has ended."""
        if self.end - self.off >= LOW_WATER and not self.over:
            return
        held = self.held
        self.held = []
        for e in held:
            link: Link = e
            if link.holding is not None and link.backlog is not None and not link.abandoned and link.usable():
                self.held.append(link)
            elif link.holding is not None:
                link.holding.release(link)

    def step(self, event: Event) -> None:
        self.state = advance(CONNECTION, self.state, event)

    def send_open(self) -> None:
        """Send our open. Spec: 2.7.1."""
        self.step(Event.OPEN_OUT)
        self.put(encode_frame(0, self.settings.open_performative()))
        self.mark_dirty()

    def close(self, condition: str = "", description: str = "") -> None:
        """Orderly close; with a condition, because of an error. Spec: 2.7.9."""
        self.close_with(ErrorInfo(condition, description) if condition else None)

    def close_with(self, error: ErrorInfo | None) -> None:
        """Orderly close, with a complete error. Spec: 2.7.9."""
        if self.error is None:
            self.error = error
        refused: cython.bint = self.state in (HDR_EXCH, OPEN_RCVD)
        if refused:
            self.send_open()
        if not may(CONNECTION, self.state, Event.CLOSE_OUT):
            self.finish()
            return
        self.flush()
        self.step(Event.CLOSE_OUT)
        self.put(fitting_frame(0, Close(error=error), self.peer_max) or b"")
        self.mark_dirty()
        # A peer that is refused at its open has nothing to finish: it must not keep its socket by not answering.
        idle_s = 0.0 if refused else self.settings.idle_timeout_s
        self.times.deadline = self.times.last_heard + idle_s + self.settings.close_timeout_s
        if self.state == END:
            self.finish()
        else:
            self.over_now()

    def answer_close(self) -> None:
        self.step(Event.CLOSE_OUT)
        self.put(encode_frame(0, Close()))
        self.finish()

    def fail(self, condition: str, description: str) -> None:
        """A protocol error: close with the error, and ignore all further frames but the close. Spec: 2.4.6, 2.8.15."""
        if self.phase != FRAMES:
            self.error = ErrorInfo(condition, description)
            self.finish()
            return
        self.close(condition, description)
        self.phase = DEAD if condition == FRAMING_ERROR or self.state == CLOSE_SENT else self.phase
        self.done = True

    def finish(self) -> None:
        """Read nothing more; pending output may still be written."""
        self.phase = DEAD
        self.done = True
        self.mark_dirty()
        self.over_now()

    def over_now(self) -> None:
        """Notify the handler, once, that links, sessions and connection ended. Many links end later, in portions."""
        if self.over:
            return
        self.over = True
        session: Session
        ending = list(self.sessions.values())
        at_once = self.settings.links_at_once
        many: cython.bint = self.links > at_once or len(ending) > at_once * SESSIONS_A_LINK or bool(self.losing)
        for e in ending:
            session = e
            session.remote_window = 0  # a message that an ending link returns must not be sent on the next link
            if many:
                session.state = ENDED
                session.error = self.error if session.error is None else session.error
                if session.handles.used:
                    lose_session(session)
        if many:
            self.flush_sessions.clear()
            self.handler.ending[self] = None
            return
        for session in ending:
            session.over(self.error)
        self.links_ended()

    def end_links(self, count: cython.int) -> cython.bint:
        """Notify the handler of up to `count` links in `losing` sessions; True when done, see lost_links.py."""
        return end_some(self, count)

    def links_ended(self) -> None:
        """All links have ended."""
        for those in (self.sessions, self.remote_sessions, self.flush_sessions, self.outcome_sessions, self.range_left):
            those.clear()
        self.last_session = None
        self.last_channel = -1
        self.release_held()
        self.handler.on_close(self, self.error)

    # ---- SASL
    def resume(self, answer: bytes) -> None:
        """Take the result of `settings.offload`; then the owner presents the unused input again."""
        if self.phase == WAITING:  # else the connection has ended
            self.phase = SASL
            end_sasl_step(self, answer)

    # ---- sessions
    def session_at(self, channel: cython.int) -> Session:
        """The session of the peer's channel. Spec: 2.5."""
        if channel == self.last_channel:
            return self.last_session  # type: ignore[return-value] # there is one unless last_channel is -1
        session = self.remote_sessions.get(channel)
        if session is None:
            raise AmqpError(NOT_ALLOWED, f"channel {channel} has no session")
        self.last_channel = channel
        self.last_session = session
        return session

    def new_session(self) -> Session:
        if self.channels.lowest() > self.channel_max:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"no channel is free up to channel-max {self.channel_max}")
        channel: cython.int = self.channels.take()
        session = Session(self, channel, self.settings.window)
        self.sessions[channel] = session
        return session

    def free_remote_channel(self, channel: cython.int) -> None:
        """The peer no longer uses the channel."""
        self.remote_sessions.pop(channel, None)
        self.last_channel = -1
        self.last_session = None

    def free_channel(self, session: Session) -> None:
        """The session has ended on both sides."""
        if self.sessions.pop(session.channel, None) is not None:
            self.channels.give(session.channel)

    def open_session(self) -> Session:
        """Begin a session. Raises AmqpError if channel-max does not allow another one."""
        session = self.new_session()
        session.begin()
        return session
