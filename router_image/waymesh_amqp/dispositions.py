# cython: boundscheck=False
"""Disposition frames in and out. Spec: 2.7.6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp import checks
from waymesh_amqp.errors import NO_TRANSACTIONS, NOT_IMPLEMENTED, DecodeError
from waymesh_amqp.outcomes import ACCEPTED_STATE

if cython.compiled:
    from cython.cimports.waymesh_amqp.reading import check_end, list_body, list_count, number, skip, strict_flag
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        copy,
        frame_start,
        octets,
        same,
        serial_add,
        serial_gap,
        to_bytes,
        write_u32,
    )
else:
    from waymesh_amqp.reading import check_end, list_body, list_count, number, skip, strict_flag
    from waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        copy,
        frame_start,
        octets,
        same,
        serial_add,
        serial_gap,
        to_bytes,
        write_u32,
    )

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery, DeliveryRing
    from waymesh_amqp.link import Link
    from waymesh_amqp.session import Session

FIELDS = cython.declare(cython.Py_ssize_t, 6)
"""Number of fields of a disposition. Spec: 2.7.6."""
PLAIN_STATE = cython.declare(cython.Py_ssize_t, 4)
"""Octets of an outcome without fields."""
STATE_COST = cython.declare(cython.Py_ssize_t, 4)
"""Octets of a state whose check costs 1 in the budget of `receive`."""
WIDE = cython.declare(cython.Py_ssize_t, 256)
"""Ids of a range that is applied in portions of as many deliveries."""
DELIVERY_COST = cython.declare(cython.int, 4)
"""Deliveries of a range that cost 1 in the budget of `receive`."""


def read_disposition(
    session: Session, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> None:
    """The disposition whose field list is at p. Spec: 2.7.6."""
    n: cython.Py_ssize_t = list_count(b, p, end)
    settled: cython.bint = False
    state: bytes = b""
    v: cython.longlong
    if n < 2 or n > FIELDS:
        raise DecodeError(f"disposition with {n} fields")
    end = skip(b, p, end)
    p = list_body(b, p)
    v = number(b, p, end)
    if v < 0:
        raise DecodeError("disposition without role")
    from_receiver: cython.bint = v >> 4 == 1
    p += v & 15
    v = number(b, p, end)
    if v < 0:
        raise DecodeError("disposition without first")
    first: cython.uint = v >> 4
    last: cython.uint = first
    p += v & 15
    if n > 2:
        v = number(b, p, end)
        if v >= 0:
            last = v >> 4
        p += v & 15
    if n > 3:
        v = number(b, p, end)
        settled = v >> 4 == 1
        p += v & 15
    if n > 4:
        v = p
        p = skip(b, p, end)
        if b[v] != 0x40:
            state = read_state(session, b, v, p)
    if n > 5:
        p += strict_flag(b, p, end) & 15
    if p != end:
        check_end(p, end)
    apply_range(session, from_receiver, first, last, settled, state)


def read_state(
    session: Session, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> bytes:
    """The state b[p:end], checked. Raises DecodeError."""
    if same(b, p, end, ACCEPTED_STATE):
        return ACCEPTED_STATE
    state: bytes = to_bytes(b, p, end)
    if end - p != PLAIN_STATE or b[p] != 0 or b[p + 1] != 0x53 or b[p + 2] & 0xFC != 0x24 or b[p + 3] != 0x45:
        check_state(session, state)
    return state


def apply_range(
    session: Session,
    from_receiver: cython.bint,
    first: cython.uint,
    last: cython.uint,
    settled: cython.bint,
    state: bytes,
) -> None:
    """Apply a disposition to the deliveries of its range."""
    ring: DeliveryRing = session.unsettled_out if from_receiver else session.unsettled_in
    count: cython.longlong = serial_gap(last, first)
    if count < 0:
        raise DecodeError("disposition whose last is before its first")
    if count >= WIDE:
        apply_wide_range(session, from_receiver, first, count, settled, state)
        return
    session.connection.budget -= count // DELIVERY_COST
    did: cython.uint = first
    plain: cython.bint = settled and len(state) <= PLAIN_STATE
    while True:
        f = ring.take(did) if plain else ring.find(did)
        if f is None:
            pass
        elif plain and from_receiver:
            session.handler.on_outcome(f, True, state)
        elif plain:
            session.handler.on_sender_outcome(f, True, state)
        else:
            apply_outcome(session, f, from_receiver, settled, state, ring)
        if did == last:
            break
        did = serial_add(did, 1)


def apply_wide_range(
    session: Session,
    from_receiver: cython.bint,
    first: cython.uint,
    count: cython.longlong,
    settled: cython.bint,
    state: bytes,
) -> None:
    """Apply a disposition to the deliveries of a range of `count` further ids, within the budget of `receive`.

    If the budget is used up, the other deliveries stay in `range_left`: the frame is not used up either, so the next
    call of `receive` continues with them. Those that are sent in the meantime are not in the range.
    """
    ring: DeliveryRing = session.unsettled_out if from_receiver else session.unsettled_in
    conn: Connection = session.connection
    left: list[Delivery] = conn.range_left
    conn.range_left = []
    if not left:
        left = ring.span(first, count + 1)
        conn.budget -= len(ring.slots) // WIDE
    d: Delivery
    examined: cython.Py_ssize_t = 0
    while left:
        d = left.pop()
        did: cython.uint = d.oid if from_receiver else d.did
        if 0 <= serial_gap(did, first) <= count and ring.find(did) is d:
            apply_outcome(session, d, from_receiver, settled, state, ring)
        examined += 1
        if examined % WIDE == 0:
            conn.budget -= WIDE // DELIVERY_COST
            if conn.budget <= 0 and left:
                conn.range_left = left
                return


def check_state(session: Session, state: bytes) -> None:
    """Check a state, which is passed on as bytes: others must be able to decode it. Raises DecodeError."""
    if state != session.checked_state:
        session.connection.budget -= len(state) // STATE_COST
        session.state_transactional = checks.is_transactional(state)
        session.checked_state = state


def apply_outcome(
    session: Session, d: Delivery, from_receiver: cython.bint, settled: cython.bint, state: bytes, ring: DeliveryRing
) -> None:
    """Apply a disposition to one delivery."""
    link: Link | None = d.out if from_receiver else d.link
    if len(state) > PLAIN_STATE and link is not None and not link.passing and session.state_transactional:
        link.detach(NOT_IMPLEMENTED, NO_TRANSACTIONS)
        return
    if settled:
        ring.drop(d)
    if from_receiver:
        session.handler.on_outcome(d, settled, state)
    else:
        session.handler.on_sender_outcome(d, settled, state)


def write_disposition(
    session: Session, receiver: cython.bint, first: cython.uint, last: cython.uint, settled: cython.bint, state: bytes
) -> None:
    """Write a disposition frame; `receiver`: our role. An empty `state` is null."""
    conn: Connection = session.connection
    if len(state) > conn.peer_max - 32:  # keep the outcome, drop its fields
        view: Octets = octets(state)
        state = state[: skip(view, 1, len(state))] + b"\x45"
        if len(state) > conn.peer_max - 32:
            state = b""
    n: cython.Py_ssize_t = len(state)
    size: cython.Py_ssize_t = n if n else 1
    conn.reserve(32 + size)
    o: WritableOctets = conn.out
    p: cython.Py_ssize_t = conn.end
    frame_start(o, p, 32 + size, session.channel, 0x15)
    o[p + 11] = 0xD0
    write_u32(o, p + 12, 16 + size)
    write_u32(o, p + 16, 5)
    o[p + 20] = 0x41 if receiver else 0x42
    o[p + 21] = 0x70
    write_u32(o, p + 22, first)
    o[p + 26] = 0x70
    write_u32(o, p + 27, last)
    o[p + 31] = 0x41 if settled else 0x42
    if n:
        copy(o, p + 32, octets(state), 0, n)
    else:
        o[p + 32] = 0x40
    conn.end = p + 32 + size
