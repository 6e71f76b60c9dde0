"""Relays the SASL exchange of one client to an authentication service, over a separate connection for each client."""

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
from waymesh_router.clients.service_identity import IdentityError, identity_of
from waymesh_router.runtime.loop import EPOLLIN, Loop, Timer
from waymesh_router.runtime.tls.endpoints import ConnectorTls
from waymesh_router.runtime.tls.sockets import Transport
from waymesh_router.runtime.tls.transports import connection_io
from waymesh_router.runtime.transport.addresses import SocketAddress
from waymesh_router.runtime.transport.connection_io import ConnectionIO, continue_all_inputs
from waymesh_router.runtime.transport.dialing import DialAttempt
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer

CLOSE_S = 2.0
"""Time for the service to answer the close."""

MAX_REASON = 200
"""Maximum length, in characters, of a failure reason in the log."""

Resume = Callable[[Connection, bytes], None]
"""Resumes the connection of a client, with the bytes to send to it."""


class RelayedService(Protocol):
    """The authentication service, shared by all its relays."""

    loop: Loop
    host: str
    realm: str | None
    tls: ConnectorTls | None
    buffer: ReceiveBuffer

    def look_up(self, found: Callable[[list[SocketAddress], str], None]) -> None:
        """Resolve the host, then call `found(addresses, problem)` once."""

    def answered(self) -> None:
        """The service accepted or refused a client."""

    def failed(self, relay: Relay, reason: str) -> None:
        """The service could not be reached, or violated the protocol."""


class Relay:
    """Implements `waymesh_amqp.relayed.Service`, and owns the `ConnectionIO` to the service.

    Connections are only changed in steps that the loop runs later, because the caller may be reading from one of them.
    """

    def __init__(self, service: RelayedService, settings: ConnectionSettings, limit_s: float, resume: Resume) -> None:
        """`limit_s`: time limit for the whole exchange."""
        self._service = service
        self._settings = settings
        self._limit_s = limit_s
        self._resume = resume
        self._exchange: RelayedServerExchange
        self._client: Connection
        self._steps: deque[Callable[[], None]] = deque()
        self._deadline: Timer | None = None
        self._addresses: list[SocketAddress] = []
        self._attempt: DialAttempt | None = None
        self._io: ConnectionIO | None = None
        self._service_sasl = RelayedClientExchange(self._sasl_received, service.realm)
        self._awaiting_service = True  # False while the service waits for the client
        self._outcome_data: bytes | None = None  # additional data of the outcome ok
        self._done = False
        self.name = ""

    # ---- the client's exchange

    def start(self, exchange: RelayedServerExchange, connection: Connection) -> None:
        """Connect to the service."""
        self._exchange = exchange
        self._client = connection
        self.name = f"[C{getattr(connection, 'id', '?')}]"
        self._deadline = self._service.loop.call_later(self._limit_s, lambda: self._later(self._timed_out))
        self._service.look_up(lambda addresses, problem: self._later(partial(self._resolved, addresses, problem)))

    def send(self, frame: SaslInit | SaslResponse) -> None:
        """Forward a frame of the client."""
        self._awaiting_service = True
        self._later(partial(self._forward, frame))

    def drop(self) -> None:
        """The client has disconnected, or authenticates without the service."""
        self._done = True
        self._later(self._end)

    # ---- calls from the connection attempt

    def reached(self, attempt: DialAttempt, sock: Transport) -> None:
        """The service is connected."""
        self._later(partial(self._connected, sock))

    def failed(self, source: DialAttempt | ConnectionIO, reason: str | Exception) -> None:
        """A connection attempt failed, or the router's code raised an error on the connection."""
        if isinstance(source, DialAttempt):
            self._later(partial(self._next_address, str(reason)))
        else:
            self._later(partial(self._fail, f"internal error: {reason}"))

    # ---- calls from the connection's input and output

    def on_event(self, mask: int) -> None:
        """The socket is ready."""
        io = self._io
        if io is not None:
            io.on_event(mask)
            self._after_input(io)

    def _after_input(self, io: ConnectionIO) -> None:
        if io.open:
            io.flush()
        if self._service.buffer.ready:
            self._service.loop.call_later(0, self._continue)

    def _continue(self) -> None:
        """Handle input that was left: of TLS, or more than may be handled in a turn."""
        continue_all_inputs(self._service.buffer)
        if self._io is not None:
            self._after_input(self._io)

    def abandon(self) -> None:
        """An internal error while the socket was handled: end the exchange."""
        self._later(partial(self._fail, "internal error, see the log"))

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport to the service has ended."""
        self._close(io)
        self._later(partial(self._fail, reason))

    def finished(self, io: ConnectionIO) -> None:
        """The service's connection is closed on both sides."""
        error = io.conn.error
        self._close(io)
        self._later(partial(self._fail, "closed" if error is None else f"{error.condition}: {error.description}"))

    def last_bytes_wait(self, io: ConnectionIO) -> None:
        """The service does not take the last bytes: the relay's own time limit ends the connection."""

    def await_events(self, fd: int, mask: int) -> None:
        """Wait for other events."""
        self._service.loop.modify(fd, mask)

    def opened(self, performative: Open) -> None:
        """The service sent its open, whose properties identify the client."""
        self._later(partial(self._admit, performative.properties))

    def _sasl_received(self, frame: SaslPerformative) -> None:
        self._later(partial(self._handle_frame, frame))

    # ---- steps

    def _later(self, step: Callable[[], None]) -> None:
        self._steps.append(step)
        if len(self._steps) == 1:
            self._service.loop.call_later(0, self._run_steps)

    def _run_steps(self) -> None:
        while self._steps:
            try:
                self._steps[0]()
            except Exception as error:  # noqa: BLE001 - the edge of timers: the client must not wait forever
                self._service.loop.on_error("in the relay to a SASL service", error)
                self._give_up("internal error")
            finally:
                self._steps.popleft()

    def _resolved(self, addresses: list[SocketAddress], problem: str) -> None:
        self._addresses = addresses
        self._next_address(problem)

    def _next_address(self, problem: str) -> None:
        """Connect to the next address."""
        self._attempt = None
        if self._done:
            return
        if not self._addresses:
            self._fail(problem)
            return
        service, address = self._service, self._addresses.pop(0)
        self._attempt = DialAttempt(service.loop, self, address, service.host, service.tls)
        self._attempt.start()

    def _connected(self, sock: Transport) -> None:
        self._attempt = None
        if self._done:
            sock.close()
            return
        self._settings.sasl = self._service_sasl
        conn = Connection(self._settings, _Opening(self), self._service.loop.now())
        io = self._io = connection_io(self, sock, conn, self._service.buffer)
        self._service.loop.register(io.fd, self, EPOLLIN)
        io.flush()

    def _forward(self, frame: SaslInit | SaslResponse) -> None:
        if self._io is not None and not self._done:
            self._io.resume(self._service_sasl.answer(frame))
            if self._io is not None:
                self._io.flush()

    def _handle_frame(self, frame: SaslPerformative) -> None:
        """Handle a SASL frame of the service."""
        if self._done:
            return
        if isinstance(frame, SaslMechanisms):
            self._answer_client(self._exchange.offer(frame.sasl_server_mechanisms))
            if self._exchange.failed:
                self._service.failed(self, self._exchange.failed)
                self.drop()
        elif isinstance(frame, SaslChallenge):
            self._answer_client(self._exchange.challenge(frame.challenge))
        elif isinstance(frame, SaslOutcome) and frame.code == OK:
            self._outcome_data = frame.additional_data  # sent to the client after the open, which identifies it
        elif isinstance(frame, SaslOutcome):
            self._service.answered()
            self._done = True
            self._answer_client(self._exchange.refuse(frame.code, frame.additional_data))
            self._end()

    def _admit(self, properties: Any) -> None:
        """The service authenticated the client."""
        if self._done:
            return
        try:
            user, permissions = identity_of(properties)
        except IdentityError as error:
            self._fail(str(error))
            return
        self._service.answered()
        self._done = True
        self._answer_client(self._exchange.admit(user, self._outcome_data, permissions))
        if self._io is not None:
            self._io.conn.close()
            self._io.flush()
        self._set_deadline(CLOSE_S, self._end)

    def _timed_out(self) -> None:
        self._fail("no answer in time" if self._awaiting_service else "the client does not answer")

    def _fail(self, reason: str) -> None:
        if self._done:
            return
        reason = reason[:MAX_REASON]  # it may come from the service
        if self._awaiting_service:  # otherwise the client did not answer, which is not a fault of the service
            self._service.failed(self, reason)
        self._give_up(f"the service is not available: {reason}")

    def _give_up(self, reason: str) -> None:
        if self._done:
            return
        self._done = True
        if self._awaiting_service:
            self._answer_client(self._exchange.lose(reason))
        else:
            self._exchange.fail_next_step(reason)
        self._end()

    def _answer_client(self, answer: bytes) -> None:
        self._awaiting_service = False
        self._resume(self._client, answer)

    def _set_deadline(self, seconds: float, call: Callable[[], None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._service.loop.call_later(seconds, call)

    def _end(self) -> None:
        """Cancel the timer and the connection attempt, and close the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._attempt is not None:
            self._attempt.drop()
            self._attempt = None
        if self._io is not None:
            self._close(self._io)

    def _close(self, io: ConnectionIO) -> None:
        if io.open:
            io.open = False
            self._service.loop.unregister(io.fd)
            io.sock.close()
            self._io = None


class _Opening(Handler):
    """Handles the service's open; nothing else is needed from the connection."""

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay

    def on_open(self, connection: Connection, performative: Open) -> None:
        self._relay.opened(performative)
