"""Frames of connections in the log (module PROTOCOL) and their messages (module MESSAGE), both at level trace.

Only a traced connection has a `Tap`, which receives its bytes, so tracing costs nothing for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Detach, End, Transfer, decode_performative
from waymesh_router.core.model import RouterConnection
from waymesh_router.runtime.log.frame_stream import HEADER_SIZE, FrameStream
from waymesh_router.runtime.log.frame_text import SMALL_ULONG, header_text, message_text, performative_text
from waymesh_schema.components import parse_components

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.runtime.log.log import Log
    from waymesh_router.runtime.loop import Loop
    from waymesh_router.runtime.transport.connection_io import ConnectionIO

MAX_DELIVERIES = 10_000
"""Maximum number of multi-frame deliveries that a tap stores, to distinguish their later frames from new messages."""
_IN, _OUT = "<-", "->"


class Tap:
    """Receives the bytes of one connection. `frames`: log frames; `always`: independently of the module's level.
    `components`: the parts of messages to log."""

    def __init__(self, conn: Connection, log: Log) -> None:
        self.frames = self.always = False
        self.components: frozenset[str] = frozenset()
        self._conn = conn
        self._log = log
        self._streams = {way: FrameStream(partial(self._frame, way)) for way in (_IN, _OUT)}
        self._unfinished: set[tuple[str, int, int]] = set()
        self._in_sync = not conn.pending()  # otherwise the next sent bytes may begin within a frame

    def received(self, data: bytes | memoryview) -> None:
        """Bytes that the peer sent."""
        self._streams[_IN].feed(data)

    def sent(self, data: bytes | memoryview, more: bool) -> None:
        """Bytes that the transport accepted. `more`: other bytes are still pending."""
        if self._in_sync:
            self._streams[_OUT].feed(data)
        self._in_sync = self._in_sync or not more

    def _frame(self, way: str, head: bytes, size: int) -> None:
        if head.startswith(b"AMQP"):
            self._line(f": {way} {header_text(head)}")
            return
        start = head[4] * 4
        channel = int.from_bytes(head[6:8])
        if size == HEADER_SIZE:
            self._line(f":FRAME:{channel} {way} (EMPTY FRAME)")
            return
        try:
            performative, payload = decode_performative(head, start, len(head))
        except AmqpError:
            self._line(f":FRAME:{channel} {way} an invalid frame of {size} bytes")
            return
        code = head[start + 2] if head[start + 1] == SMALL_ULONG else 0
        rest = f" ({size - payload} bytes)" if size > payload else ""
        if self.frames:
            self._line(f":FRAME:{channel} {way} {performative_text(performative, code)}{rest}")
        if isinstance(performative, Transfer):
            if self.components:
                self._transfer(way, channel, performative, head, payload)
        elif isinstance(performative, Detach):
            self._unfinished.discard((way, channel, performative.handle))
        elif isinstance(performative, End):
            self._unfinished = {key for key in self._unfinished if key[:2] != (way, channel)}

    def _line(self, text: str) -> None:
        if self.frames:
            self._log.write("PROTOCOL", "trace", f"[C{_number(self._conn)}]{text}", always=self.always)

    def _transfer(self, way: str, channel: int, transfer: Transfer, head: bytes, payload: int) -> None:
        """Log a message at the first frame of its delivery. Spec: 2.6.14."""
        key = way, channel, transfer.handle
        first = key not in self._unfinished and transfer.delivery_tag is not None
        if not transfer.more or transfer.aborted:
            self._unfinished.discard(key)
        elif len(self._unfinished) < MAX_DELIVERIES:
            self._unfinished.add(key)
        if first and not transfer.aborted:
            verb = "Received" if way == _IN else "Sent"
            text = message_text(head, payload, self.components)
            where = f"on link {self._link(way, channel, transfer.handle)}"
            self._log.write("MESSAGE", "trace", f"[C{_number(self._conn)}] {verb} {text} {where}")

    def _link(self, way: str, channel: int, handle: int) -> str:
        """The name of the link; its handle if it is not attached."""
        incoming = way == _IN
        session = (self._conn.remote_sessions if incoming else self._conn.sessions).get(channel)
        for link in session.links if session is not None else ():
            if link is not None and link.is_sender != incoming:
                if handle == (link.remote_handle if incoming else link.handle):
                    return f"'{link.name}'"
        return f"with handle {handle}"


class Tracing:
    """Decides which connections have a tap."""

    def __init__(self, log: Log, loop: Loop) -> None:
        self._log = log
        self._loop = loop
        self._own: set[Connection] = set()

    def own(self, conn: Connection) -> bool:
        """Whether tracing was switched on for this connection individually."""
        return conn in self._own

    def switch(self, io: ConnectionIO, on: bool) -> None:
        """Start or stop tracing one connection, independently of the level of the module PROTOCOL."""
        (self._own.add if on else self._own.discard)(io.conn)
        self._later([io].copy)

    def forget(self, io: ConnectionIO) -> None:
        """The connection has ended."""
        self._own.discard(io.conn)

    def configured(self, all_of_them: Callable[[], Iterable[ConnectionIO]]) -> None:
        """The levels of log modules may have changed: apply them to all connections."""
        self._later(lambda: list(all_of_them()))

    def apply(self, io: ConnectionIO) -> None:
        """Set or remove the tap of a connection. Must not be called while its input is being handled."""
        own = io.conn in self._own
        frames = own or self._log.enabled("PROTOCOL", "trace")
        components = frozenset[str]()
        if self._log.enabled("MESSAGE", "trace"):
            components = parse_components(io.info.endpoint.attrs.get("messageLoggingComponents") or "")
        tap: Tap | None = None
        if frames or components:
            tap = io.tap
            new = tap is None
            if tap is None:
                tap = Tap(io.conn, self._log)
            tap.frames, tap.always, tap.components = frames, own, components
            if new:
                tap.received(io.rest())
        io.tap = tap

    def _later(self, which: Callable[[], list[ConnectionIO]]) -> None:
        """Apply in the next turn, when no input is being handled and each connection is at a frame boundary."""

        def apply() -> None:
            for io in which():
                if io.open:
                    self.apply(io)

        self._loop.call_later(0, apply)


def _number(conn: Connection) -> int:
    return conn.id if isinstance(conn, RouterConnection) else 0
