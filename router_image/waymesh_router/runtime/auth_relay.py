"""One client's SASL exchange with a service: one connection to it, from the client's protocol header to the outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from waymesh_amqp.connection import Connection
from waymesh_amqp.handler import Handler
from waymesh_amqp.performatives import (
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
)
from waymesh_amqp.relayed import RelayedClientExchange, RelayedServerExchange
from waymesh_amqp.sasl import OK
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.runtime.addresses import SocketAddress
from waymesh_router.runtime.connection_io import ConnectionIO, ReceiveBuffer
from waymesh_router.runtime.dialing import Try
from waymesh_router.runtime.endpoint_tls import ConnectorTls
from waymesh_router.runtime.loop import EPOLLIN, Loop, Timer
from waymesh_router.runtime.tls_io import connection_io
from waymesh_router.runtime.tls_socket import Transport
from waymesh_router.service_identity import IdentityError, identity_of

CLOSE_S = 2.0
"""Time for the service to answer the close."""

MAX_REASON = 200
"""Characters of the reason of a failure in the log."""

Resume = Callable[[Connection, bytes], None]
"""Lets a client's connection go on with these bytes."""


class Place(Protocol):
    """The service, for all its relays."""

    loop: Loop
    host: str
    realm: str | None
    tls: ConnectorTls | None
    buffer: ReceiveBuffer

    def look_up(self, found: Callable[[list[SocketAddress], str], None]) -> None:
        """Call `found(addresses, problem)` once, later."""

    def answered(self) -> None:
        """The service gave a verdict."""

    def failed(self, relay: Relay, reason: str) -> None:
        """The service did not do what it should."""


class Relay:
    """Implements `waymesh_amqp.relayed.Service`, and is the owner of its `ConnectionIO`.

    What changes a connection happens in a step of its own, because the caller may be reading from that connection.
    """

    def __init__(self, place: Place, settings: ConnectionSettings, limit_s: float, resume: Resume) -> None:
        """`limit_s`: time for the whole exchange."""
        self._place = place
        self._settings = settings
        self._limit_s = limit_s
        self._resume = resume
        self._exchange: RelayedServerExchange
        self._client: Connection
        self._steps: deque[Callable[[], None]] = deque()
        self._deadline: Timer | None = None
        self._addresses: list[SocketAddress] = []
        self._try: Try | None = None
        self._io: ConnectionIO | None = None
        self._toward = RelayedClientExchange(self._told, place.realm)
        self._asked = True  # the client waits for the service, and not the service for the client
        self._verdict: bytes | None = None  # additional data of the outcome ok
        self._over = False
        self.name = ""

    # ---- the client's exchange

    def start(self, exchange: RelayedServerExchange, connection: Connection) -> None:
        """Connect to the service."""
        self._exchange = exchange
        self._client = connection
        self.name = f"[C{getattr(connection, 'id', '?')}]"
        self._deadline = self._place.loop.call_later(self._limit_s, lambda: self._later(self._late))
        self._place.look_up(lambda addresses, problem: self._later(partial(self._found, addresses, problem)))

    def send(self, frame: SaslInit | SaslResponse) -> None:
        """Pass a frame of the client on."""
        self._asked = True
        self._later(partial(self._pass_on, frame))

    def drop(self) -> None:
        """The client is gone, or logs in without the service."""
        self._over = True
        self._later(self._end)

    # ---- calls from the attempt to connect

    def reached(self, one: Try, sock: Transport) -> None:
        """The service is connected."""
        self._later(partial(self._connected, sock))

    def failed(self, one: Try | ConnectionIO, reason: str | Exception) -> None:
        """An attempt failed, or our own code did on the connection."""
        if isinstance(one, Try):
            self._later(partial(self._next_address, str(reason)))
        else:
            self._later(partial(self._fail, f"internal error: {reason}"))

    # ---- calls from the connection's input and output

    def on_event(self, mask: int) -> None:
        """The socket is ready."""
        io = self._io
        if io is not None:
            io.on_event(mask)
            if io.open:
                io.flush()

    def abandon(self) -> None:
        """An internal error while the socket was handled."""
        self._later(partial(self._fail, "internal error, see the log"))

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport is gone."""
        self._close(io)
        self._later(partial(self._fail, reason))

    def finished(self, io: ConnectionIO) -> None:
        """The service's connection is closed on both sides."""
        error = io.conn.error
        self._close(io)
        self._later(partial(self._fail, "closed" if error is None else f"{error.condition}: {error.description}"))

    def await_events(self, fd: int, mask: int) -> None:
        """Wait for other events."""
        self._place.loop.modify(fd, mask)

    def opened(self, performative: Open) -> None:
        """The service's open: it names the client."""
        self._later(partial(self._admit, performative.properties))

    def _told(self, frame: SaslPerformative) -> None:
        self._later(partial(self._answer, frame))

    # ---- steps

    def _later(self, step: Callable[[], None]) -> None:
        self._steps.append(step)
        if len(self._steps) == 1:
            self._place.loop.call_later(0, self._work)

    def _work(self) -> None:
        while self._steps:
            try:
                self._steps[0]()
            except Exception as error:  # noqa: BLE001 - the edge of timers: the client must not wait for ever
                self._place.loop.on_error("in the relay to a SASL service", error)
                self._give_up("internal error")
            finally:
                self._steps.popleft()

    def _found(self, addresses: list[SocketAddress], problem: str) -> None:
        self._addresses = addresses
        self._next_address(problem)

    def _next_address(self, problem: str) -> None:
        """Connect to the next address."""
        self._try = None
        if self._over:
            return
        if not self._addresses:
            self._fail(problem)
            return
        self._try = Try(self._place.loop, self, self._addresses.pop(0), self._place.host, self._place.tls)
        self._try.start()

    def _connected(self, sock: Transport) -> None:
        self._try = None
        if self._over:
            sock.close()
            return
        self._settings.sasl = self._toward
        conn = Connection(self._settings, _Opening(self), self._place.loop.now())
        io = self._io = connection_io(self, sock, conn, self._place.buffer)
        self._place.loop.register(io.fd, self, EPOLLIN)
        io.flush()

    def _pass_on(self, frame: SaslInit | SaslResponse) -> None:
        if self._io is not None and not self._over:
            self._io.resume(self._toward.answer(frame))
            if self._io is not None:
                self._io.flush()

    def _answer(self, frame: SaslPerformative) -> None:
        """A frame of the service."""
        if self._over:
            return
        if isinstance(frame, SaslMechanisms):
            self._tell(self._exchange.offer(frame.sasl_server_mechanisms))
            if self._exchange.failed:
                self._place.failed(self, self._exchange.failed)
                self.drop()
        elif isinstance(frame, SaslChallenge):
            self._tell(self._exchange.challenge(frame.challenge))
        elif isinstance(frame, SaslOutcome) and frame.code == OK:
            self._verdict = frame.additional_data  # the client waits for the open, which names it
        elif isinstance(frame, SaslOutcome):
            self._place.answered()
            self._over = True
            self._tell(self._exchange.refuse(frame.code, frame.additional_data))
            self._end()

    def _admit(self, properties: Any) -> None:
        """The service has let the client in."""
        if self._over:
            return
        try:
            user, permissions = identity_of(properties)
        except IdentityError as error:
            self._fail(str(error))
            return
        self._place.answered()
        self._over = True
        self._tell(self._exchange.admit(user, self._verdict, permissions))
        if self._io is not None:
            self._io.conn.close()
            self._io.flush()
        self._set_deadline(CLOSE_S, self._end)

    def _late(self) -> None:
        self._fail("no answer in time" if self._asked else "the client does not go on")

    def _fail(self, reason: str) -> None:
        if self._over:
            return
        reason = reason[:MAX_REASON]  # it may be a text of the service
        if self._asked:  # else the client kept the service waiting, which says nothing about the service
            self._place.failed(self, reason)
        self._give_up(f"the service is not available: {reason}")

    def _give_up(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        if self._asked:
            self._tell(self._exchange.lose(reason))
        else:
            self._exchange.lose_idle(reason)
        self._end()

    def _tell(self, answer: bytes) -> None:
        self._asked = False
        self._resume(self._client, answer)

    def _set_deadline(self, seconds: float, call: Callable[[], None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._place.loop.call_later(seconds, call)

    def _end(self) -> None:
        """Leave nothing behind."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._try is not None:
            self._try.drop()
            self._try = None
        if self._io is not None:
            self._close(self._io)

    def _close(self, io: ConnectionIO) -> None:
        if io.open:
            io.open = False
            self._place.loop.unregister(io.fd)
            io.sock.close()
            self._io = None


class _Opening(Handler):
    """Takes the service's open, behind which nothing is wanted."""

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay

    def on_open(self, connection: Connection, performative: Open) -> None:
        self._relay.opened(performative)
