"""One management request of the REST API: an AMQP connection to this router, over a pair of sockets.

So it has the login, the policy, the limits, the rights and the log entries of any AMQP client of the listener.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_amqp.connection import Connection
from waymesh_amqp.delivery import Delivery
from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS
from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.link_frames import open_link
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import Attach, ErrorInfo, Open, Terminus
from waymesh_amqp.sasl import SaslClient
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.transfer import IncomingTransfer
from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, Loop

READ_BYTES = 65536
SLACK = bytes(64)
"""Bytes after the received ones that the engine may read."""
LIMIT_S = 10.0
MOST_BYTES = 8 << 20
"""Of a reply."""
ACCEPTED = 0x24
UNAUTHORIZED, FORBIDDEN, TOO_LARGE, UNAVAILABLE, NO_ANSWER = 401, 403, 413, 503, 504


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of the agent, not decoded; or why there is none: `text`, for `status`."""

    data: bytes = b""
    status: int = 0
    text: str = ""

    def read(self) -> tuple[int, str, Any]:
        """Status, description and body. Raises DecodeError."""
        if self.status:
            return self.status, self.text, None
        message = decode_message(self.data)
        properties = message.application_properties or {}
        return int(properties.get("statusCode") or 0), str(properties.get("statusDescription") or ""), message.body


@dataclass(frozen=True, slots=True)
class Asked:
    """What to ask: the address of the agent, and the properties and the body of the request."""

    address: str
    properties: Mapping[str, Any]
    body: Mapping[str, Any]

    def encoded(self, reply_to: str) -> bytes:
        """The message of the request. Raises ValueError, TypeError or OverflowError for values without an AMQP type."""
        message = Message(
            to=self.address, reply_to=reply_to, correlation_id=1, application_properties=dict(self.properties),
            body=dict(self.body), body_kind="value",
        )  # fmt: skip
        return encode_message(message)


class RestClient(Handler):
    """Sends one request and calls `done` once, with the reply."""

    def __init__(
        self, loop: Loop, sock: socket.socket, host: str, sasl: SaslClient, asked: Asked, done: Callable[[Reply], None]
    ) -> None:
        """`sock`: not blocking. `host`: name in the open."""
        super().__init__()
        self._loop, self._sock, self._asked, self._done = loop, sock, asked, done
        settings = ConnectionSettings("rest", client=True, hostname=host, idle_timeout_s=0.0, sasl=sasl)
        self._conn = Connection(settings, self, loop.now())
        self._tail = b""
        self._reply = bytearray()
        self._sender: Link | None = None
        self._replies = ""
        self._over = False
        self._timer = loop.call_later(LIMIT_S, lambda: self._end(Reply(status=NO_ANSWER, text="no answer in time")))
        loop.register(sock.fileno(), self, EPOLLIN, low_priority=True)
        self._write()

    # ---- events of the socket
    def on_event(self, mask: int) -> None:
        """Continue to read and to write."""
        try:
            if mask & ~EPOLLOUT:
                self._read()
            if not self._over:
                self._write()
        except OSError as error:
            self._end(Reply(status=UNAVAILABLE, text=error.strerror or str(error)))

    def abandon(self) -> None:
        """An internal error."""
        self._end(Reply(status=500, text="internal error"))

    def _read(self) -> None:
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._conn.eof("closed")
        else:
            self._tail += data
            used = self._conn.receive(memoryview(self._tail + SLACK), len(self._tail))
            self._tail = self._tail[used:]
        if self._conn.done and not self._over:
            self._refused(self._conn.error)

    def _write(self) -> None:
        self.dirty.clear()
        self._conn.dirty = False
        self._conn.flush()
        waits = False
        while len(pending := self._conn.pending()):
            try:
                self._conn.sent(self._sock.send(pending))
            except BlockingIOError:
                waits = True
                break
        if not self._over:
            self._loop.modify(self._sock.fileno(), EPOLLIN | (EPOLLOUT if waits else 0))

    def _end(self, reply: Reply) -> None:
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        self._loop.unregister(self._sock.fileno())
        with contextlib.suppress(OSError):
            self._conn.close()
            self._write()
        self._sock.close()
        self._done(reply)

    def _refused(self, error: ErrorInfo | None) -> None:
        """The connection ended without a reply."""
        text = "" if error is None else error.description or error.condition
        if self._conn.remote is None:
            login = error is not None and error.condition == UNAUTHORIZED_ACCESS
            busy = not login or "sys" in text.rpartition("outcome")[2]
            self._end(Reply(status=UNAVAILABLE if busy else UNAUTHORIZED, text=text))
        else:
            limit = error is not None and error.condition == RESOURCE_LIMIT_EXCEEDED
            self._end(Reply(status=UNAVAILABLE if limit else FORBIDDEN, text=text or "the connection was closed"))

    # ---- events of the engine
    def on_open(self, connection: Connection, performative: Open) -> None:
        """The client is known: attach the link for the reply, then that for the request."""
        session = connection.open_session()
        source = Terminus("source", dynamic=True)
        self._attach(session, Attach("reply", 0, True, source=source, target=Terminus("target")))
        target = Terminus("target", address=self._asked.address)
        self._sender = self._attach(session, Attach("request", 0, False, source=Terminus("source"), target=target))

    def _attach(self, session: Session, attach: Attach) -> Link:
        link = Link(session)
        open_link(session, link, attach)
        return link

    def on_attach(self, link: Link, performative: Attach) -> None:
        """A link is attached; or refused, without a terminus."""
        if not link.is_sender and performative.source is not None:
            self._replies = str(performative.source.address)
            link.capacity = 10
            link.grant()
            self._send()

    def on_credit(self, link: Link) -> None:
        """The router takes the request."""
        self._send()
        link.finish_drain()

    def _send(self) -> None:
        link = self._sender
        if link is None or not self._replies or not link.ready():
            return
        self._sender = None
        data = self._asked.encoded(self._replies)
        number = send_first(link, False, False, data, 0, 0, b"", 0, len(data), 0)
        delivery = Delivery()
        delivery.out, delivery.oid = link, number
        link.session.unsettled_out.put(delivery)

    def on_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        """The agent has the request, or no path leads to it."""
        if settled and len(state) > 2 and state[2] != ACCEPTED:
            self._end(Reply(status=UNAVAILABLE, text="the router cannot be reached"))

    def on_detach(self, link: Link, error: ErrorInfo | None) -> None:
        """The router refuses requests of this client."""
        if not self._conn.over:
            text = "" if error is None else error.description or error.condition
            self._end(Reply(status=FORBIDDEN, text=text or "the link was refused"))

    def on_transfer(self, link: Link, transfer: IncomingTransfer) -> None:
        """A part of the reply."""
        self._reply += transfer.payload()
        if len(self._reply) > MOST_BYTES:
            text = f"the reply has more than {MOST_BYTES} octets: ask for fewer entities or attributes"
            self._end(Reply(status=TOO_LARGE, text=text))
        elif not transfer.more:
            self._end(Reply(bytes(self._reply)))
