# cython: boundscheck=False
"""Writes transfer frames: headers in place, the payload copied once and split by the peer's limits. Spec: 2.7.5.

The payload of a first frame consists of two pieces around a rewritten message-annotations section:
b[s0:e0] (header, delivery-annotations), `annotations`, b[s1:e1] (the rest).
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.link import Link

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        copy,
        frame_start,
        octets,
        serial_add,
        to_bytes,
        write_u32,
    )
else:
    from waymesh_amqp.wire import Octets, WritableOctets, copy, frame_start, octets, serial_add, to_bytes, write_u32

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.session import Session

_FIRST = struct.Struct(">IHH7sIBIHIBIH")
_START = bytes((0, 0x53, 0x14, 0xC0, 24, 6, 0x70))
HALF_OF_IDS = cython.declare(cython.uint, 0x7FFFFFFF)  # see `Session.new_delivery_id`
FIRST_HEADER = cython.declare(cython.Py_ssize_t, 37)
MORE_HEADER = cython.declare(cython.Py_ssize_t, 24)


def send_first(
    link: Link,
    settled: cython.bint,
    more: cython.bint,
    b: Octets,
    s0: cython.Py_ssize_t,
    e0: cython.Py_ssize_t,
    annotations: bytes,
    s1: cython.Py_ssize_t,
    e1: cython.Py_ssize_t,
    form: cython.uint,
) -> cython.uint:
    """Begin a delivery on a link that is `ready()`; returns its delivery-id, which is also its delivery-tag."""
    session: Session = link.session
    conn: Connection = link.connection
    oid: cython.uint = session.next_delivery_id
    if oid & HALF_OF_IDS == 0 or session.unsettled_out.overflow is not None:
        oid = session.new_delivery_id()
    else:  # nearly always: what that would do, without the call
        session.next_delivery_id = serial_add(oid, 1)
    link.credit -= 1
    link.delivery_count = serial_add(link.delivery_count, 1)
    head: cython.Py_ssize_t = e0 - s0
    ann: cython.Py_ssize_t = len(annotations)
    n: cython.Py_ssize_t = head + ann + e1 - s1
    room: cython.Py_ssize_t = conn.peer_max - FIRST_HEADER
    if n > room:
        write_first(link, oid, settled, True, form, room)
        if ann or head:
            joined: bytes = to_bytes(b, s0, e0) + annotations + to_bytes(b, s1, e1)
            split(link, more, octets(joined), 0, n, room)
        else:
            split(link, more, b, s1, e1, room)
        return oid
    write_first(link, oid, settled, more, form, n)
    p: cython.Py_ssize_t = conn.end
    if head or ann:
        copy(conn.out, p, b, s0, head)
        if ann:
            copy(conn.out, p + head, octets(annotations), 0, ann)
        p += head + ann
    copy(conn.out, p, b, s1, e1 - s1)
    conn.end = p + e1 - s1
    link.busy = more
    return oid


def split(
    link: Link, more: cython.bint, b: Octets, start: cython.Py_ssize_t, end: cython.Py_ssize_t, room: cython.Py_ssize_t
) -> None:
    """Write the payload of a delivery of several frames, after the header of the first one."""
    conn_put(link.connection, b, start, start + room)
    link.busy = True
    send_more(link, more, b, start + room, end)


def write_first(
    link: Link, oid: cython.uint, settled: cython.bint, more: cython.bint, form: cython.uint, payload: cython.Py_ssize_t
) -> None:
    """Write the header of a first transfer frame, and reserve room for its payload."""
    session: Session = link.session
    conn: Connection = link.connection
    if conn.cap - conn.end < FIRST_HEADER + payload:
        conn.reserve(FIRST_HEADER + payload)
    p: cython.Py_ssize_t = conn.end
    if not cython.compiled:
        flags = 0x4200 - (settled << 8) + (0x41 if more else 0x42)
        size = FIRST_HEADER + payload
        _FIRST.pack_into(
            conn.out, p, size, 512, session.channel, _START, link.handle, 0x70, oid, 0xA004, oid, 0x70, form, flags
        )
    else:
        write_first_header(conn, p, session.channel, link.handle, oid, form, FIRST_HEADER + payload)
        conn.out[p + 35] = 0x41 if settled else 0x42
        conn.out[p + 36] = 0x41 if more else 0x42
    conn.end = p + FIRST_HEADER
    session.next_outgoing_id = serial_add(session.next_outgoing_id, 1)
    session.remote_window -= 1
    if not conn.dirty:
        conn.mark_dirty()


def write_first_header(
    conn: Connection,
    p: cython.Py_ssize_t,
    channel: cython.int,
    handle: cython.uint,
    oid: cython.uint,
    form: cython.uint,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Write the first 35 of the 37 octets of `_FIRST`, without a Python object."""
    write_u32(conn.out, p, size)
    write_u32(conn.out, p + 4, 0x02000000 | channel)
    write_u32(conn.out, p + 8, 0x005314C0)
    write_u32(conn.out, p + 11, 0xC0180670)
    write_u32(conn.out, p + 15, handle)
    conn.out[p + 19] = 0x70
    write_u32(conn.out, p + 20, oid)
    conn.out[p + 24] = 0xA0
    conn.out[p + 25] = 4
    write_u32(conn.out, p + 26, oid)
    conn.out[p + 30] = 0x70
    write_u32(conn.out, p + 31, form)


def conn_put(
    conn: Connection, b: Octets, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> None:
    """Append b[start:end]; the caller has reserved room."""
    copy(conn.out, conn.end, b, start, end - start)
    conn.end += end - start


def send_more(
    link: Link,
    more: cython.bint,
    b: Octets,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> None:
    """Continue the delivery in progress with b[start:end]; `more`: further calls follow."""
    session: Session = link.session
    conn: Connection = link.connection
    room: cython.Py_ssize_t = conn.peer_max - MORE_HEADER
    n: cython.Py_ssize_t
    last: cython.bint = False
    if link.backlog is None:
        while not last and session.remote_window > 0 and (not conn.backed_up() or session.channel == conn.express):
            n = end - start
            last = n <= room
            if not last:
                n = room
            conn.reserve(MORE_HEADER + n)
            write_more(link, more or not last, False, n)
            conn_put(conn, b, start, start + n)
            start += n
        if last:
            link.busy = more
            return
        link.backlog = deque()
        session.blocked.append(link)
    keep_back(link.backlog, b, start, end, room)
    if not more and not link.backlog:
        link.backlog.append(b"")  # only the end of the delivery remains to be sent
    link.backlog_more = more
    link.busy = True


def keep_back(
    kept: deque[bytes],
    b: Octets,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
) -> None:
    """Append b[start:end] to a backlog, in payloads of at most `room` octets: a single buffer would be copied often."""
    n: cython.Py_ssize_t
    while start < end:
        n = end - start
        if n > room:
            n = room
        kept.append(to_bytes(b, start, start + n))
        start += n


def write_more(link: Link, more: cython.bint, aborted: cython.bint, payload: cython.Py_ssize_t) -> None:
    """Write the header of a later transfer frame; the caller has reserved room for it and its payload."""
    session: Session = link.session
    conn: Connection = link.connection
    o: WritableOctets = conn.out
    p: cython.Py_ssize_t = conn.end
    size: cython.Py_ssize_t = MORE_HEADER + payload + (4 if aborted else 0)
    frame_start(o, p, size, session.channel, 0x14)
    o[p + 11] = 0xC0
    o[p + 12] = 15 if aborted else 11
    o[p + 13] = 10 if aborted else 6
    o[p + 14] = 0x70
    write_u32(o, p + 15, link.handle)
    o[p + 19] = o[p + 20] = o[p + 21] = o[p + 22] = 0x40
    o[p + 23] = 0x41 if more else 0x42
    conn.end = p + MORE_HEADER
    if aborted:
        o[p + 24] = o[p + 25] = o[p + 26] = 0x40
        o[p + 27] = 0x41
        conn.end = p + MORE_HEADER + 4
    session.next_outgoing_id = serial_add(session.next_outgoing_id, 1)
    session.remote_window -= 1
    conn.mark_dirty()


def abort(link: Link) -> None:
    """Abort the delivery in progress; it counts as settled. Spec: 2.7.5."""
    usable: cython.bint = link.usable()
    if usable and link.session.remote_window <= 0:
        if link.backlog is None:
            link.session.blocked.append(link)
        link.backlog = deque()
        link.abandoned = True  # an abort is a transfer too: it waits for the session window. Spec: 2.5.6
        link.busy = True
    else:
        link.backlog = None
        link.busy = False
        if usable:
            link.connection.reserve(MORE_HEADER + 4)
            write_more(link, False, True, 0)
    link.connection.release_held()


def flush_backlog(link: Link) -> None:
    """Send the backlog: the peer's session window has opened, or its transport has taken the output."""
    kept: deque[bytes] | None = link.backlog
    if kept is None:
        return
    session: Session = link.session
    conn: Connection = link.connection
    if session.remote_window <= 0:
        session.blocked.append(link)
        return
    if link.abandoned:
        link.abandoned = False
        link.backlog_more = False
        conn.reserve(MORE_HEADER + 4)
        write_more(link, False, True, 0)
    while kept and session.remote_window > 0 and not conn.backed_up():
        data: bytes = kept.popleft()
        n: cython.Py_ssize_t = len(data)
        conn.reserve(MORE_HEADER + n)
        write_more(link, link.backlog_more or bool(kept), False, n)
        b: Octets = octets(data)
        conn_put(conn, b, 0, n)
    if kept:
        session.blocked.append(link)
        return
    link.backlog = None
    link.busy = link.backlog_more
    conn.release_held()
    if not link.busy:
        session.handler.on_credit(link)
