# cython: boundscheck=False
"""Flow frames in and out: session windows and link credit. Spec: 2.5.6, 2.6.7, 2.7.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import UNATTACHED_HANDLE, DecodeError
from waymesh_amqp.limits import OUTGOING_WINDOW
from waymesh_amqp.link import Link
from waymesh_amqp.performatives import Flow

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import ATTACH_RCVD, DETACH_SENT
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        frame_start,
        list_body,
        list_count,
        read_uint,
        serial_add,
        serial_gap,
        skip,
        to_bytes,
        write_u32,
    )
else:
    from waymesh_amqp.states import ATTACH_RCVD, DETACH_SENT
    from waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        frame_start,
        list_body,
        list_count,
        read_uint,
        serial_add,
        serial_gap,
        skip,
        to_bytes,
        write_u32,
    )

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.session import Session

PROPERTIES_ROOM = 100
"""Maximum size of a flow frame without its properties, in octets."""


def read_flow(session: Session, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
    """The flow whose field list is at p. Spec: 2.7.4."""
    n: cython.Py_ssize_t = list_count(b, p, end)
    v: cython.longlong
    if n < 4:
        raise DecodeError("flow without its session fields")
    end = skip(b, p, end)
    p = list_body(b, p)
    v = read_uint(b, p, end)
    seen: cython.uint = v if v >= 0 else 0
    p = skip(b, p, end)
    v = read_uint(b, p, end)
    if v < 0:
        raise DecodeError("flow without incoming-window")
    # the remaining window is the peer's window less the frames in flight. Spec: 2.5.6
    shut: cython.bint = session.remote_window <= 0
    session.remote_window = v - serial_gap(session.next_outgoing_id, seen)
    p = skip(b, skip(b, skip(b, p, end), end), end)
    handle: cython.longlong = read_uint(b, p, end) if n > 4 else -1
    if session.blocked:
        session.unblock()
    if handle < 0:
        echo: cython.bint = n > 9 and asks_for_echo(b, p, end)
        if echo:
            session.window_soon()
        credit_everywhere(session)
        return
    link: Link | None = session.remote_link(handle)
    if link is None or not (link.attached or link.state == ATTACH_RCVD):
        if link is None or link.state != DETACH_SENT:
            session.end(UNATTACHED_HANDLE, f"flow for handle {handle}, which is not attached")
        return
    read_link_flow(session, link, b, p, end, n)
    if shut and session.remote_window > 0:
        credit_everywhere(session)


def read_link_flow(
    session: Session,
    link: Link,
    b: Octets,
    p: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
) -> None:
    """The link's part of a flow: p is at its handle field. Spec: 2.6.7."""
    count: cython.longlong = -1
    credit: cython.longlong = -1
    drain: cython.bint = False
    echo: cython.bint = False
    q: cython.Py_ssize_t = skip(b, p, end)
    if n > 5:
        count = read_uint(b, q, end)
        q = skip(b, q, end)
        if n > 6:
            credit = read_uint(b, q, end)
            q = skip(b, q, end)
            if n > 7 and link.passing:
                session.handler.on_flow_details(link, to_bytes(b, q, end), n - 7)
            if n > 8:
                q = skip(b, q, end)
                drain = read_uint(b, q, end) == 1
                echo = n > 9 and read_uint(b, skip(b, q, end), end) == 1
    if link.is_sender:
        if credit >= 0:
            base: cython.uint = count if count >= 0 else 0
            unseen: cython.int = serial_gap(link.delivery_count, base)
            link.credit = credit - unseen if unseen > 0 else credit
            if link.paused:
                link.pause()
        link.drain = drain
        session.handler.on_credit(link)
    elif count >= 0:
        skipped: cython.int = serial_gap(count, link.delivery_count)
        if skipped > 0:
            link.delivery_count = count
            link.credit -= skipped
            if link.credit < 0:
                link.credit = 0
            if link.accepting:
                link.grant()
        if link.credit <= 0:
            link.drain = False
        if link.passing:
            session.handler.on_sender_flow(link)
    if echo and link.attached:
        link.flow_soon()


def asks_for_echo(
    b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether a flow without a link sets `echo`; p is at its handle field."""
    _: cython.int
    for _ in range(5):
        p = skip(b, p, end)
    return read_uint(b, p, end) == 1


def credit_everywhere(session: Session) -> None:
    """The session window has opened: any outgoing link may be ready."""
    session.connection.budget -= len(session.links) >> 2
    link: Link
    for e in list(session.links):
        if e is not None:
            link = e
            if link.is_sender and link.attached and link.credit > 0:
                session.handler.on_credit(link)


def write_flow(session: Session, link: Link | None) -> None:
    """Write a flow frame, with the link state if a link is given."""
    end: cython.uint = serial_add(session.next_incoming_id, session.window)
    if session.holds == 0 and serial_gap(end, session.window_end) > 0:  # a granted window cannot be withdrawn
        session.window_end = end
    session.window_due = False
    if link is not None and link.told is not None:
        session.send_frame(reported_flow(session, link))
        return
    conn: Connection = session.connection
    conn.reserve(64)
    o: WritableOctets = conn.out
    p: cython.Py_ssize_t = conn.end
    size: cython.int = 34 if link is None else 52
    frame_start(o, p, size, session.channel, 0x13)
    o[p + 11] = 0xC0
    o[p + 12] = size - 13
    o[p + 13] = 4 if link is None else 10
    o[p + 14] = 0x70
    write_u32(o, p + 15, session.next_incoming_id)
    o[p + 19] = 0x70
    write_u32(o, p + 20, serial_gap(session.window_end, session.next_incoming_id))
    o[p + 24] = 0x70
    write_u32(o, p + 25, session.next_outgoing_id)
    o[p + 29] = 0x70
    write_u32(o, p + 30, OUTGOING_WINDOW)
    if link is not None:
        o[p + 34] = 0x70
        write_u32(o, p + 35, link.handle)
        o[p + 39] = 0x70
        write_u32(o, p + 40, link.delivery_count)
        o[p + 44] = 0x70
        write_u32(o, p + 45, link.credit if link.credit > 0 else 0)
        o[p + 49] = 0x40  # available: unknown
        o[p + 50] = 0x41 if link.drain else 0x42
        o[p + 51] = 0x40
    conn.end = p + size


def reported_flow(session: Session, link: Link) -> Flow:
    """A flow that forwards `available`, `echo` and properties from the partner of a routed link, once. Spec: 2.7.4."""
    assert link.told is not None
    available, echo, properties = link.told
    link.told = None
    if properties is not None and len(properties) > link.connection.peer_max - PROPERTIES_ROOM:
        properties = None  # keep the credit, drop the properties
    return Flow(
        next_incoming_id=session.next_incoming_id,
        incoming_window=(session.window_end - session.next_incoming_id) & 0xFFFFFFFF,
        next_outgoing_id=session.next_outgoing_id,
        outgoing_window=OUTGOING_WINDOW,
        handle=link.handle,
        delivery_count=link.delivery_count,
        link_credit=link.credit if link.credit > 0 else 0,
        available=available,
        drain=link.drain,
        echo=echo,
        properties=properties,
    )
