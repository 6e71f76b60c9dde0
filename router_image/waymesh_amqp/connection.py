"""One AMQP connection: protocol headers, SASL, frames, sessions, time-outs. Bytes in, calls of a `Handler`, bytes out.

Spec: 2.2 to 2.4, 5.3.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp import states
from waymesh_amqp.buffer import OutputBuffer
from waymesh_amqp.errors import (
    CONNECTION_FORCED,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
    DecodeError,
    FramingError,
)
from waymesh_amqp.fitting import fitting_frame
from waymesh_amqp.free_numbers import FreeNumbers
from waymesh_amqp.link import Link
from waymesh_amqp.negotiation import (
    AMQP_HEADER,
    SASL_HEADER,
    SaslClientExchange,
    SaslServerExchange,
)
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    ErrorInfo,
    Flow,
    Open,
    Transfer,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.sasl import SaslClient, SaslServer
from waymesh_amqp.session import Session
from waymesh_amqp.transfer import IncomingTransfer

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import Octets, octets, read_u32
else:
    from waymesh_amqp.wire import Octets, octets, read_u32

if TYPE_CHECKING:
    from waymesh_amqp.handler import Handler
    from waymesh_amqp.settings import ConnectionSettings

HEADER = cython.declare(cython.int, 0)
SASL = cython.declare(cython.int, 1)
FRAMES = cython.declare(cython.int, 2)
DEAD = cython.declare(cython.int, 3)
WAITING = cython.declare(cython.int, 4)
"""The answer to a SASL frame is being worked out elsewhere; input stays with the transport meanwhile."""

HIGH_WATER = cython.declare(cython.Py_ssize_t, 1048576)
"""Bytes of unsent output from which links of the connection take no new deliveries."""
LOW_WATER = cython.declare(cython.Py_ssize_t, 262144)
MAX_FRAME = cython.declare(cython.Py_ssize_t, 1048576)
"""Larger frames than this are never sent, whatever the peer would take, so that buffers stay small."""
PROGRESS = cython.declare(cython.Py_ssize_t, 16384)
"""Octets of an unfinished frame that count like a whole frame for the idle time-out, which may be slow."""
NO_BUDGET = cython.declare(cython.longlong, 1 << 62)
COLD_FRAME = cython.declare(cython.longlong, 1000)
"""What attach, detach, begin, end cost of a budget in which a transfer, flow or disposition costs 1: about as the time
that they take."""
MIN_MAX_FRAME = 512
"""Spec: 2.8.19 MIN-MAX-FRAME-SIZE."""
MAX_WAITING = cython.declare(cython.Py_ssize_t, 65536)
"""Octets that a peer may send ahead while it waits for an answer in the SASL exchange."""
EMPTY_FRAME = bytes((0, 0, 0, 8, 2, 0, 0, 0))


class Connection(OutputBuffer):
    """`remote`: the peer's open, once it came. `user`: the authenticated identity, None if anonymous.

    `octets_in`, `octets_out`: bytes so far; `unfinished`: those of an incomplete frame, which came behind `octets_in`.
    `hurry`: there is something new of the `express` session. `done`: nothing more will be read; write what is pending,
    then close the transport. `error`: why it ended, if not orderly.
    `budget`: work that `receive` may still do before it stops behind a frame, for an owner with other connections to
    serve; it sets the budget before each call. A handler may take from it what an event cost.
    """

    def __init__(self, settings: ConnectionSettings, handler: Handler, now: cython.double) -> None:
        OutputBuffer.__init__(self)
        self.settings = settings
        self.handler = handler
        self.phase = HEADER
        self.state = "START"
        self.receiving = False
        self.transfer = IncomingTransfer()
        self.frame_end = 0
        self.budget = NO_BUDGET
        self.octets_in = 0
        self.octets_out = 0
        self.done = False
        self.over = False
        self.error: ErrorInfo | None = None
        self.remote: Open | None = None
        self.user: str | None = None
        self.mechanism: str | None = None
        self.sasl: Any = None  # a SaslClientExchange or a SaslServerExchange
        self.peer_max = MIN_MAX_FRAME
        self.max_frame = settings.max_frame_size
        self.channel_max = settings.channel_max
        self.sessions: dict[int, Session] = {}
        self.remote_sessions: dict[int, Session] = {}
        self.channels = FreeNumbers()
        self.links = 0  # handles of ours that are in use
        self.lost_links: list[Link] = []  # of a connection that is over: those that are still to be ended, last first
        self.last_channel = -1
        self.last_session: Any = None  # the Session at `last_channel`
        self.names: dict[tuple[str, bool], Any] = {}
        self.flush_sessions: list[Session] = []
        self.dirty = False
        self.congested = False
        self.held: list[Link] = []
        self.owing = 0
        self.unfinished = 0
        self.counted_in = -1
        self.counted_part = 0
        self.spoke = False
        self.hurry = False
        self.last_heard = now
        self.last_spoke = now
        self.last_tick = now
        self.deadline = now + settings.handshake_timeout_s
        self.send_every = math.inf
        if settings.client:
            self.start_client()

    # ---- transport side
    def receive(self, b: cython.const[cython.uchar][::1], n: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take whole frames from b[:n] within the budget; the count of bytes used.

        The rest is to be presented again, with more behind unless the budget is used up.
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
                    used = self.take_preamble(data, pos, n)
                    if used == 0:
                        self.octets_in += pos
                        return pos
                    pos += used
                used = self.take_frames(data, pos, n)
                self.octets_in += used
                self.unfinished = n - used
                return used
            except AmqpError as e:
                if e.concerns is None or e.concerns.connection is self:
                    self.fail(e.condition, e.description)
                    return n
                e.concerns.end(e.condition, e.description)  # what this peer sent was right: go on behind its frame
                pos = self.frame_end

    def take_frames(self, b: Octets, pos: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take the frames from b[pos:n]; the position behind the last whole one."""
        transfer: IncomingTransfer = self.transfer
        transfer.data = b
        size: cython.Py_ssize_t
        p: cython.Py_ssize_t
        code: cython.int
        while n - pos >= 8:
            size = read_u32(b, pos)
            if size < 8 or size > self.max_frame or b[pos + 4] < 2 or b[pos + 4] * 4 > size:
                self.bad_frame_header(size, b[pos + 4])
            if n - pos < size:
                break
            self.frame_end = pos + size
            p = pos + b[pos + 4] * 4
            if b[pos + 5] != 0:
                raise FramingError(f"frame type {b[pos + 5]} on an AMQP connection")
            if size - (p - pos) > 3 and b[p] == 0 and b[p + 1] == 0x53 and self.receiving:
                code = b[p + 2]
                if code == 0x14:
                    self.session_at(b[pos + 6] << 8 | b[pos + 7]).on_transfer(transfer, p + 3, pos + size)
                elif code == 0x15:
                    self.session_at(b[pos + 6] << 8 | b[pos + 7]).on_disposition(b, p + 3, pos + size)
                elif code == 0x13:
                    self.session_at(b[pos + 6] << 8 | b[pos + 7]).on_flow(b, p + 3, pos + size)
                else:
                    self.on_other(bytes(b[p : pos + size]), b[pos + 6] << 8 | b[pos + 7])
            elif p < pos + size:
                self.on_other(bytes(b[p : pos + size]), b[pos + 6] << 8 | b[pos + 7])
            pos += size
            if self.phase == DEAD:
                return n
            self.budget -= 1
            if self.budget <= 0:
                break
        return pos

    def bad_frame_header(self, size: cython.Py_ssize_t, doff: cython.int) -> None:
        """Raise FramingError. Spec: 2.3.1."""
        if size > self.max_frame:
            raise FramingError(f"a frame of {size} octets, over max-frame-size {self.max_frame}")
        raise FramingError(f"frame size {size}, data offset {doff}")

    def sent(self, n: cython.Py_ssize_t) -> None:
        """The transport took n bytes of `pending()`."""
        self.consume(n)
        self.octets_out += n
        self.spoke = True
        if self.end - self.off < LOW_WATER:
            if self.held:
                self.release_held()
            if self.congested:
                self.congested = False
                for e in list(self.sessions.values()):
                    session: Session = e
                    if session.blocked:
                        session.unblock()
                self.handler.on_writable(self)

    def flush(self) -> None:
        """Turn the outcomes and credit that were collected into frames."""
        self.dirty = False
        s: Session
        while self.flush_sessions:
            batch = self.flush_sessions
            self.flush_sessions = []
            for e in batch:
                s = e
                s.flush()
                if s.channel == self.express:
                    self.hurry = True
        if self.hurry:
            self.hurry = False
            self.hasten()

    def flush_outcomes(self) -> None:
        """Write collected outcomes now, so that a frame that follows does not overtake them."""
        s: Session
        for e in self.flush_sessions:
            s = e
            s.put_outcomes()

    def eof(self, reason: str) -> None:
        """The transport is gone."""
        if self.error is None and self.state not in ("END", "START", "CLOSE_RCVD"):
            self.error = ErrorInfo(CONNECTION_FORCED, reason)
        self.finish()

    def tick(self, now: cython.double) -> cython.double:
        """Heartbeats, idle time-out, handshake and close time-outs; when to come again (math.inf: never)."""
        if self.done:
            return math.inf
        if self.octets_in != self.counted_in or self.unfinished - self.counted_part >= PROGRESS:
            self.counted_in = self.octets_in
            self.counted_part = self.unfinished
            self.last_heard = now
        if self.spoke:
            self.spoke = False
            self.last_spoke = self.last_tick  # it was after that; how long after, nobody has measured
        else:
            self.trim()
        self.last_tick = now
        if not self.receiving:
            if now >= self.deadline:
                self.eof("handshake not completed in time" if self.remote is None else "no answer to close")
                return math.inf
            return self.deadline
        following: cython.double = math.inf
        idle: cython.double = self.settings.idle_timeout_s
        if idle > 0:
            if now - self.last_heard >= idle:
                self.deadline = now + self.settings.close_timeout_s
                self.fail(RESOURCE_LIMIT_EXCEEDED, "local-idle-timeout expired")  # Spec: 2.4.5
                return self.deadline
            following = self.last_heard + idle
        if self.send_every < math.inf:
            if now - self.last_spoke >= self.send_every and self.off == self.end:
                self.put(EMPTY_FRAME)
                self.mark_dirty()
                self.last_spoke = now
            if self.last_spoke + self.send_every < following:
                following = self.last_spoke + self.send_every
        return following if following > now else now + 0.05

    # ---- state
    def mark_dirty(self) -> None:
        """There is something to flush."""
        if not self.dirty:
            self.dirty = True
            self.handler.dirty.append(self)

    def backed_up(self) -> cython.bint:
        """Whether the transport is so far behind that no new delivery should be written. `on_writable` follows."""
        if self.end - self.off > HIGH_WATER:
            self.congested = True
            return True
        return False

    def release_held(self) -> None:
        """Sessions that were held because of this connection may go on where the reason is gone."""
        if self.end - self.off >= LOW_WATER and not self.over:
            return
        held = self.held
        self.held = []
        for e in held:
            link: Link = e
            if link.holding is None:
                continue
            if link.backlog is not None and not link.abandoned and link.attached:
                self.held.append(link)
            else:
                link.holding.release(link)

    def start_client(self) -> None:
        if isinstance(self.settings.sasl, SaslClient):
            self.sasl = SaslClientExchange(self.settings.sasl, self.settings.hostname)
            self.put(SASL_HEADER)
        else:
            self.start_amqp()
        self.mark_dirty()

    def start_amqp(self) -> None:
        """Client: our AMQP header and open, without waiting. Spec: 2.4.1 pipelined open."""
        self.step("header>")
        self.put(AMQP_HEADER)
        self.send_open()

    def step(self, event: str) -> None:
        self.state = states.advance(states.CONNECTION, "connection", self.state, event)

    def send_open(self) -> None:
        """Our open. Spec: 2.7.1."""
        s = self.settings
        self.step("open>")
        self.put(
            encode_frame(
                0,
                Open(
                    container_id=s.container_id,
                    hostname=s.hostname,
                    max_frame_size=s.max_frame_size,
                    channel_max=s.channel_max,
                    # half of it, so that a peer that cuts it close is not thrown out. Spec: 2.4.5
                    idle_time_out=int(s.idle_timeout_s * 500) if s.idle_timeout_s > 0 else None,
                    offered_capabilities=s.offered_capabilities or None,
                    desired_capabilities=s.desired_capabilities or None,
                    properties=s.properties or None,
                ),
            )
        )
        self.receiving = self.state == "OPENED"
        self.mark_dirty()

    def close(self, condition: str = "", description: str = "") -> None:
        """Orderly close; with a condition, because of an error. Spec: 2.7.9."""
        self.close_with(ErrorInfo(condition, description) if condition else None)

    def close_with(self, error: ErrorInfo | None) -> None:
        """Orderly close with all of an error. Spec: 2.7.9."""
        if self.error is None:
            self.error = error
        if self.state in ("HDR_EXCH", "OPEN_RCVD"):
            self.send_open()
        if (self.state, "close>") not in states.CONNECTION:
            self.finish()
            return
        self.flush()
        self.step("close>")
        self.put(fitting_frame(0, Close(error=error), self.peer_max) or b"")
        self.mark_dirty()
        self.receiving = False
        self.deadline = self.last_heard + self.settings.idle_timeout_s + self.settings.close_timeout_s
        if self.state == "END":
            self.finish()
        else:
            self.over_now()

    def fail(self, condition: str, description: str) -> None:
        """A protocol error: tell the peer why, ignore what it still sends but its close. Spec: 2.4.6, 2.8.15."""
        if self.phase != FRAMES:
            self.error = ErrorInfo(condition, description)
            self.finish()
            return
        self.close(condition, description)
        self.phase = DEAD if condition == FRAMING_ERROR or self.state == "CLOSE_SENT" else self.phase
        self.done = True

    def finish(self) -> None:
        """Nothing more is read; what is pending may still be written."""
        self.phase = DEAD
        self.done = True
        self.receiving = False
        self.mark_dirty()
        self.over_now()

    def over_now(self) -> None:
        """Tell the handler that links, sessions and the connection are gone; once. Of many links it hears later."""
        if self.over:
            return
        self.over = True
        session: Session
        ending = list(self.sessions.values())
        for e in ending:
            session = e
            session.remote_window = 0  # what is given back while links end must not go out on another of them
        if self.links > self.settings.links_at_once:
            self.lose_links()
            self.handler.ending.append(self)
            return
        for e in ending:
            session = e
            session.over(self.error)
        self.gone()

    def lose_links(self) -> None:
        """Have no link carry anything any more, while they still wait for their end."""
        session: Session
        for e in self.sessions.values():
            session = e
            self.lost_links.extend(session.stop())
        self.lost_links.reverse()

    def end_links(self, count: cython.int) -> cython.bint:
        """Tell the handler of the end of `count` links, and after the last one of that of the connection: then True."""
        link: Link
        while self.lost_links and count > 0:
            count -= 1
            link = self.lost_links.pop()
            link.session.lose(link, self.error)
        if self.lost_links:
            return False
        self.gone()
        if self.state == "CLOSE_RCVD" and self.owing == 0 and not self.done:
            self.answer_close()
        return True

    def gone(self) -> None:
        """All links are ended."""
        self.sessions.clear()
        self.remote_sessions.clear()
        self.last_session = None
        self.last_channel = -1
        self.flush_sessions.clear()
        self.release_held()
        self.handler.on_close(self, self.error)

    # ---- headers and SASL
    def take_preamble(self, b: Octets, pos: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Protocol header or SASL frame at pos; bytes used, 0 if it is not complete. Spec: 2.2, 5.3.2."""
        size: cython.Py_ssize_t
        if self.phase == HEADER:
            if n - pos < 8:
                self.check_header_start(bytes(b[pos:n]))
                return 0
            self.on_header(bytes(b[pos : pos + 8]))
            return 8
        if self.phase == WAITING:
            if n - pos > MAX_WAITING:
                raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"over {MAX_WAITING} octets before the SASL exchange is over")
            return 0
        if n - pos < 8:
            return 0
        size = read_u32(b, pos)
        if size < 8 or size > MIN_MAX_FRAME or b[pos + 4] < 2 or b[pos + 4] * 4 > size or b[pos + 5] != 1:
            raise FramingError("bad SASL frame")  # Spec: 5.3.1: at most 512 octets
        if n - pos < size:
            return 0
        frame = bytes(b[pos + b[pos + 4] * 4 : pos + size])
        self.on_sasl(decode_performative(frame, 0, len(frame))[0])
        return size

    def check_header_start(self, start: bytes) -> None:
        if not b"AMQP".startswith(start[:4]):
            self.turn_away("this is no AMQP")

    def on_header(self, header: bytes) -> None:
        s = self.settings
        if s.client:
            self.on_answered_header(header)
        elif header == SASL_HEADER and isinstance(s.sasl, SaslServer) and self.sasl is None:
            self.sasl = SaslServerExchange(s.sasl)
            self.put(SASL_HEADER + self.sasl.start())
            self.phase = SASL
            self.mark_dirty()
        elif header == AMQP_HEADER and (not s.require_sasl or (self.sasl is not None and self.sasl.succeeded)):
            self.step("header<")
            self.put(AMQP_HEADER)
            self.step("header>")
            self.phase = FRAMES
            self.mark_dirty()
        else:
            self.turn_away(f"protocol header {header!r} is not spoken here")

    def on_answered_header(self, header: bytes) -> None:
        if header == SASL_HEADER and self.sasl is not None and not self.sasl.succeeded:
            self.phase = SASL
        elif header == AMQP_HEADER and self.state != "START":
            self.step("header<")
            self.phase = FRAMES
        else:
            self.error = ErrorInfo(NOT_ALLOWED, f"the peer answered with protocol header {header!r}")
            self.finish()

    def turn_away(self, why: str) -> None:
        """Answer with the header that we speak and close the transport. Spec: 2.2."""
        self.put(SASL_HEADER if self.settings.require_sasl else AMQP_HEADER)
        self.error = ErrorInfo(NOT_ALLOWED, why)
        self.finish()

    def on_sasl(self, frame: Any) -> None:
        if self.settings.offload is None or not self.sasl.hashes(frame):
            self.answer_sasl(self.sasl.on_frame(frame))
            return
        self.phase = WAITING
        if not self.settings.offload(self, partial(self.sasl.on_frame, frame)):
            self.resume(self.sasl.overloaded())

    def resume(self, answer: bytes) -> None:
        """The answer that `settings.offload` was asked for; present the input that was not used again afterwards."""
        if self.phase == WAITING:  # else the connection ended meanwhile
            self.phase = SASL
            self.answer_sasl(answer)

    def answer_sasl(self, answer: bytes) -> None:
        self.put(answer)
        self.mark_dirty()
        if self.sasl.failed:
            self.error = ErrorInfo("amqp:unauthorized-access", self.sasl.failed)
            self.finish()
        elif self.sasl.succeeded:
            self.user = self.sasl.user
            self.mechanism = self.sasl.mechanism
            self.phase = HEADER
            if self.settings.client:
                self.start_amqp()

    # ---- frames that are not hot
    def session_at(self, channel: cython.int) -> Session:
        """The session that the peer talks about. Spec: 2.5."""
        if channel == self.last_channel:
            return self.last_session
        session = self.remote_sessions.get(channel)
        if session is None:
            raise AmqpError(NOT_ALLOWED, f"channel {channel} has no session")
        self.last_channel = channel
        self.last_session = session
        return session

    def on_other(self, frame: bytes, channel: cython.int) -> None:
        performative, payload = decode_performative(frame, 0, len(frame))
        self.budget -= COLD_FRAME
        if isinstance(performative, Open):
            self.on_open(performative)
        elif isinstance(performative, Close):
            self.on_close(performative)
        elif self.state == "CLOSE_SENT":
            return
        elif not self.receiving:
            raise AmqpError(ILLEGAL_STATE, f"{type(performative).__name__.lower()} before open")
        elif isinstance(performative, Begin):
            self.on_begin(performative, channel)
        elif isinstance(performative, End):
            self.on_end(performative, channel)
        elif isinstance(performative, Attach):
            if self.session_at(channel).mapped:
                self.session_at(channel).on_attach(performative)
        elif isinstance(performative, Detach):
            if self.session_at(channel).mapped:
                self.session_at(channel).on_detach(performative)
        elif isinstance(performative, (Transfer, Flow, Disposition)):
            self.on_odd_encoding(performative, frame[payload:], channel)
        else:
            raise DecodeError(f"{type(performative).__name__} frame outside of SASL")

    def on_odd_encoding(self, performative: Any, payload: bytes, channel: cython.int) -> None:
        """A hot performative under a symbolic or long descriptor: write it the usual way and read that."""
        frame = encode_frame(channel, performative, payload)
        view: Octets = octets(frame)
        session: Session = self.session_at(channel)
        if isinstance(performative, Transfer):
            transfer: IncomingTransfer = IncomingTransfer()
            transfer.data = view
            session.on_transfer(transfer, 11, len(frame))
        elif isinstance(performative, Flow):
            session.on_flow(view, 11, len(frame))
        else:
            session.on_disposition(view, 11, len(frame))

    def on_open(self, performative: Open) -> None:
        self.step("open<")
        if self.state == "CLOSE_SENT":
            return
        self.remote = performative
        size = performative.max_frame_size
        if size is None:
            size = MAX_FRAME
        elif size < MIN_MAX_FRAME:
            size = MIN_MAX_FRAME
        self.peer_max = size if size < MAX_FRAME else MAX_FRAME
        if performative.channel_max is not None and performative.channel_max < self.channel_max:
            self.channel_max = performative.channel_max
        if performative.idle_time_out:
            self.send_every = performative.idle_time_out / 2000.0
        self.receiving = self.state == "OPENED"
        self.handler.on_open(self, performative)

    def on_close(self, performative: Close) -> None:
        if self.error is None and performative.error is not None:
            self.error = performative.error
        if self.state != "OPENED":
            self.step("close<")
            self.finish()
            return
        self.flush()
        self.step("close<")
        self.receiving = False
        self.deadline = math.inf  # whoever has the answer wait sees to it that it comes
        self.over_now()
        if self.owing == 0 and not self.lost_links:
            self.answer_close()

    def answer_close(self) -> None:
        self.step("close>")
        self.put(encode_frame(0, Close()))
        self.finish()

    def on_begin(self, performative: Begin, channel: cython.int) -> None:
        if channel > self.channel_max:
            raise AmqpError(FRAMING_ERROR, f"channel {channel} is over channel-max {self.channel_max}")
        if channel in self.remote_sessions:
            raise AmqpError(ILLEGAL_STATE, f"begin on channel {channel}, which has a session")
        answered = performative.remote_channel
        if answered is None:
            session = self.new_session()
            session.on_begin(performative, channel)
            self.remote_sessions[channel] = session
            session.begin()
        else:
            mine = self.sessions.get(answered)
            if mine is None:
                raise AmqpError(ILLEGAL_STATE, f"begin answers channel {answered}, which has no session")
            mine.on_begin(performative, channel)
            self.remote_sessions[channel] = mine
            session = mine
        if session.mapped:
            self.handler.on_begin(session)

    def on_end(self, performative: End, channel: cython.int) -> None:
        session = self.session_at(channel)
        session.on_end(performative)
        self.remote_sessions.pop(channel, None)
        if session.state == "ENDED":
            self.free_channel(session)
        self.last_channel = -1
        self.last_session = None

    def new_session(self) -> Session:
        if self.channels.lowest() > self.channel_max:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"no channel is free up to channel-max {self.channel_max}")
        channel: cython.int = self.channels.take()
        session = Session(self, channel, self.settings.window)
        self.sessions[channel] = session
        return session

    def check_links(self) -> None:
        """Raises AmqpError where the peer attaches one link too many: refused links would cost memory, too."""
        if self.links >= self.settings.max_links:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"more than {self.settings.max_links} links on a connection")

    def free_channel(self, session: Session) -> None:
        """The session is ended on both sides."""
        if self.sessions.pop(session.channel, None) is not None:
            self.channels.give(session.channel)

    def open_session(self) -> Session:
        """Begin a session of ours. Raises AmqpError where channel-max does not allow one more."""
        session = self.new_session()
        session.begin()
        return session
