"""Protocol headers and the SASL exchange, before the first AMQP frame. Spec: 2.2, 5.3."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.errors import NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError, FramingError
from waymesh_amqp.negotiation import AMQP_HEADER, SASL_HEADER, SaslClientExchange, SaslServerExchange
from waymesh_amqp.performatives import ErrorInfo, decode_performative
from waymesh_amqp.relayed import RelayedClientExchange, RelayedServerExchange
from waymesh_amqp.sasl import SaslClient, SaslServer
from waymesh_amqp.states import Event

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import START
    from cython.cimports.waymesh_amqp.wire import Octets, read_u32, to_bytes
else:
    from waymesh_amqp.states import START
    from waymesh_amqp.wire import Octets, read_u32, to_bytes

    # What a connection reads next. WAITING: the answer to a SASL frame is being computed elsewhere, and no input is
    # taken. For compiled code, preamble.pxd has them.
    HEADER, SASL, FRAMES, DEAD, WAITING = range(5)

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection

MAX_WAITING = cython.declare(cython.Py_ssize_t, 65536)
"""Octets that a peer may send before the answer to its last SASL frame."""


def start_client(connection: Connection) -> None:
    """Send our protocol header; without SASL also our open."""
    s = connection.settings
    if isinstance(s.sasl, SaslClient):
        connection.sasl = SaslClientExchange(s.sasl, s.hostname)
        connection.put(SASL_HEADER)
    elif isinstance(s.sasl, RelayedClientExchange):
        connection.sasl = s.sasl
        connection.put(SASL_HEADER)
    else:
        start_amqp(connection)
    connection.mark_dirty()


def start_amqp(connection: Connection) -> None:
    """Client: send our AMQP header and open without waiting for the peer's. Spec: 2.4.1 pipelined open."""
    connection.step(Event.HEADER_OUT)
    connection.put(AMQP_HEADER)
    connection.send_open()


def take_preamble(connection: Connection, b: Octets, pos: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Handle the protocol header or SASL frame at pos; returns the bytes used, 0 if incomplete. Spec: 2.2, 5.3.2."""
    size: cython.Py_ssize_t
    if connection.phase == HEADER:
        if n - pos < 8:
            check_header_start(connection, to_bytes(b, pos, n))
            return 0
        take_header(connection, to_bytes(b, pos, pos + 8))
        return 8
    if connection.phase == WAITING:
        if n - pos > MAX_WAITING:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"over {MAX_WAITING} octets before the end of the SASL exchange")
        return 0
    if n - pos < 8:
        return 0
    assert connection.sasl is not None
    size = read_u32(b, pos)
    if size < 8 or size > connection.sasl.max_frame or b[pos + 4] < 2 or b[pos + 4] * 4 > size or b[pos + 5] != 1:
        raise FramingError("bad SASL frame")  # Spec: 5.3.1: at most 512 octets, but tokens are longer
    if n - pos < size:
        return 0
    frame = to_bytes(b, pos + b[pos + 4] * 4, pos + size)
    take_sasl(connection, decode_performative(frame, 0, len(frame))[0])
    return size


def check_header_start(connection: Connection, start: bytes) -> None:
    """End the connection if these octets are not the start of a protocol header."""
    if not b"AMQP".startswith(start[:4]):
        turn_away(connection, "not an AMQP protocol header")


def take_header(connection: Connection, header: bytes) -> None:
    """A protocol header of the peer."""
    s = connection.settings
    if s.client:
        take_answer(connection, header)
    elif header == SASL_HEADER and isinstance(s.sasl, SaslServer) and connection.sasl is None:
        connection.sasl = SaslServerExchange(s.sasl)
        connection.put(SASL_HEADER + connection.sasl.start())
        connection.phase = SASL
        connection.mark_dirty()
    elif header == SASL_HEADER and isinstance(s.sasl, RelayedServerExchange) and connection.sasl is None:
        connection.sasl = s.sasl
        connection.put(SASL_HEADER)
        connection.phase = WAITING
        connection.mark_dirty()
        s.sasl.begin(connection)
    elif header == AMQP_HEADER and (not s.require_sasl or (connection.sasl is not None and connection.sasl.succeeded)):
        connection.step(Event.HEADER_IN)
        connection.put(AMQP_HEADER)
        connection.step(Event.HEADER_OUT)
        connection.phase = FRAMES
        connection.mark_dirty()
    else:
        turn_away(connection, f"protocol header {header!r} is not supported")


def take_answer(connection: Connection, header: bytes) -> None:
    """The server's answer to our protocol header."""
    if header == SASL_HEADER and connection.sasl is not None and not connection.sasl.succeeded:
        connection.phase = SASL
    elif header == AMQP_HEADER and connection.state != START:
        connection.step(Event.HEADER_IN)
        connection.phase = FRAMES
    else:
        connection.error = ErrorInfo(NOT_ALLOWED, f"the peer answered with protocol header {header!r}")
        connection.finish()


def turn_away(connection: Connection, why: str) -> None:
    """Answer with a protocol header that we support, and close the transport. Spec: 2.2."""
    connection.put(SASL_HEADER if connection.settings.require_sasl else AMQP_HEADER)
    connection.error = ErrorInfo(NOT_ALLOWED, why)
    connection.finish()


def take_sasl(connection: Connection, frame: Any) -> None:
    """Answer a SASL frame, or offload the answer if it takes long to compute."""
    sasl = connection.sasl
    assert sasl is not None
    if isinstance(sasl, RelayedServerExchange):
        own = sasl.own(frame)
        if own is not None:
            sasl = connection.sasl = own
    if isinstance(sasl, (RelayedServerExchange, RelayedClientExchange)):
        answer = sasl.take(frame)
        if answer is None:
            connection.phase = WAITING
        else:
            end_sasl_step(connection, answer)
        return
    if connection.settings.offload is None or not sasl.hashes(frame):
        end_sasl_step(connection, sasl.on_frame(frame))
        return
    connection.phase = WAITING
    if not connection.settings.offload(connection, partial(sasl.on_frame, frame)):
        connection.resume(sasl.overloaded())


def end_sasl_step(connection: Connection, answer: bytes) -> None:
    """Write the answer to a SASL frame, and continue according to the result if the exchange has ended."""
    connection.put(answer)
    connection.mark_dirty()
    sasl = connection.sasl
    assert sasl is not None
    if sasl.failed:
        connection.error = ErrorInfo(UNAUTHORIZED_ACCESS, sasl.failed)
        connection.finish()
    elif sasl.succeeded:
        connection.user = sasl.user
        connection.groups = sasl.groups
        connection.expires_at = sasl.expires_at
        connection.mechanism = sasl.mechanism
        connection.phase = HEADER
        if connection.settings.client:
            start_amqp(connection)
