# cython: boundscheck=False
"""Reads frame headers and dispatches the performatives to other modules. Spec: 2.3.

Bounds checks are off: the header has the frame size, and only whole frames are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import ILLEGAL_STATE, AmqpError, DecodeError, FramingError
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.transfer import IncomingTransfer

if cython.compiled:
    from cython.cimports.waymesh_amqp.connection_frames import take_begin, take_close, take_end, take_open
    from cython.cimports.waymesh_amqp.dispositions import read_disposition
    from cython.cimports.waymesh_amqp.flows import read_flow
    from cython.cimports.waymesh_amqp.link_frames import take_attach, take_detach
    from cython.cimports.waymesh_amqp.preamble import DEAD
    from cython.cimports.waymesh_amqp.states import CLOSE_SENT, MAPPED, OPENED
    from cython.cimports.waymesh_amqp.transfer import take_transfer
    from cython.cimports.waymesh_amqp.wire import Octets, octets, read_u32, to_bytes
else:
    from waymesh_amqp.connection_frames import take_begin, take_close, take_end, take_open
    from waymesh_amqp.dispositions import read_disposition
    from waymesh_amqp.flows import read_flow
    from waymesh_amqp.link_frames import take_attach, take_detach
    from waymesh_amqp.preamble import DEAD
    from waymesh_amqp.states import CLOSE_SENT, MAPPED, OPENED
    from waymesh_amqp.transfer import take_transfer
    from waymesh_amqp.wire import Octets, octets, read_u32, to_bytes

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.session import Session

COLD_FRAME = cython.declare(cython.longlong, 256)
"""Cost of an attach, detach, begin or end in the budget of `receive`, where a transfer, flow or disposition costs 1;
roughly proportional to the time that they take."""


def take_frames(connection: Connection, b: Octets, pos: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Handle the whole frames in b[pos:n] within the connection's budget; returns the position after the last one."""
    transfer: IncomingTransfer = connection.transfer
    transfer.data = b
    size: cython.Py_ssize_t
    p: cython.Py_ssize_t
    code: cython.int
    session: Session
    if connection.waits:
        connection.budget = 0  # nothing more in this turn
        return pos
    while n - pos >= 8:
        size = read_u32(b, pos)
        if size < 8 or size > connection.max_frame or b[pos + 4] < 2 or b[pos + 4] * 4 > size:
            bad_frame_header(connection, size, b[pos + 4])
        if n - pos < size:
            break
        connection.frame_end = pos + size
        code = 0
        p = pos + b[pos + 4] * 4
        if b[pos + 5] != 0:
            raise FramingError(f"frame type {b[pos + 5]} on an AMQP connection")
        if size - (p - pos) > 3 and b[p] == 0 and b[p + 1] == 0x53 and connection.state == OPENED:
            code = b[p + 2]
            if code == 0x14:
                session = connection.session_at(b[pos + 6] << 8 | b[pos + 7])
                take_transfer(session, transfer, p + 3, pos + size)
            elif code == 0x15:
                read_disposition(connection.session_at(b[pos + 6] << 8 | b[pos + 7]), b, p + 3, pos + size)
            elif connection.left and (code == 0x12 or code == 0x13):
                pass  # nobody reads the answer to an attach or uses the credit of a flow, see peer_left.py
            elif code == 0x13:
                read_flow(connection.session_at(b[pos + 6] << 8 | b[pos + 7]), b, p + 3, pos + size)
            else:
                take_other(connection, to_bytes(b, p, pos + size), b[pos + 6] << 8 | b[pos + 7])
        elif p < pos + size:
            take_other(connection, to_bytes(b, p, pos + size), b[pos + 6] << 8 | b[pos + 7])
        if code != 0x14 and connection.range_left:
            return pos  # the next call continues with this frame
        pos += size
        if connection.phase == DEAD:
            return n
        connection.budget -= 1
        if connection.budget <= 0:
            break
    return pos


def bad_frame_header(connection: Connection, size: cython.Py_ssize_t, doff: cython.int) -> None:
    """Raise FramingError. Spec: 2.3.1."""
    if size > connection.max_frame:
        raise FramingError(f"a frame of {size} octets, over max-frame-size {connection.max_frame}")
    raise FramingError(f"frame size {size}, data offset {doff}")


def take_other(connection: Connection, frame: bytes, channel: cython.int) -> None:
    """A performative that is decoded to a dataclass."""
    performative, payload = decode_performative(frame, 0, len(frame))
    connection.budget -= COLD_FRAME
    if isinstance(performative, Open):
        take_open(connection, performative)
    elif isinstance(performative, Close):
        take_close(connection, performative)
    elif connection.state == CLOSE_SENT:
        return
    elif connection.state != OPENED:
        raise AmqpError(ILLEGAL_STATE, f"{type(performative).__name__.lower()} before open")
    elif isinstance(performative, Begin):
        take_begin(connection, performative, channel)
    elif isinstance(performative, End):
        take_end(connection, performative, channel)
    elif isinstance(performative, Attach):
        if connection.session_at(channel).state == MAPPED:
            take_attach(connection.session_at(channel), performative)
    elif isinstance(performative, Detach):
        if connection.session_at(channel).state == MAPPED:
            take_detach(connection.session_at(channel), performative)
    elif isinstance(performative, (Transfer, Flow, Disposition)):
        take_unusual_encoding(connection, performative, frame[payload:], channel)
    else:
        raise DecodeError(f"{type(performative).__name__} frame outside of SASL")


def take_unusual_encoding(
    connection: Connection, performative: Transfer | Flow | Disposition, payload: bytes, channel: cython.int
) -> None:
    """A transfer, flow or disposition with a symbolic or long descriptor: encode it in the usual way and read that."""
    frame = encode_frame(channel, performative, payload)
    view: Octets = octets(frame)
    session: Session = connection.session_at(channel)
    if isinstance(performative, Transfer):
        transfer: IncomingTransfer = IncomingTransfer()
        transfer.hold(frame)
        take_transfer(session, transfer, 11, len(frame))
    elif isinstance(performative, Flow):
        read_flow(session, view, 11, len(frame))
    else:
        read_disposition(session, view, 11, len(frame))
