# cython: boundscheck=False
"""Flow frames in and out: session windows and link credit. Spec: 2.5.6, 2.6.7, 2.7.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import UNATTACHED_HANDLE
from waymesh_amqp.limits import OUTGOING_WINDOW
from waymesh_amqp.link import Link
from waymesh_amqp.performatives import Flow
from waymesh_amqp.refused import is_refused

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import ATTACH_RCVD, DETACH_SENT, MAPPED
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        frame_start,
        serial_add,
        serial_gap,
        write_u32,
    )
else:
    from waymesh_amqp.states import ATTACH_RCVD, DETACH_SENT, MAPPED
    from waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        frame_start,
        serial_add,
        serial_gap,
        write_u32,
    )

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.incoming_flow import IncomingFlow
    from waymesh_amqp.session import Session

PROPERTIES_ROOM = 100
"""Maximum size of a flow frame without its properties, in octets."""


def read_flow(
    session: Session, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> None:
    """The flow whose field list is at p. Spec: 2.7.4."""
    flow: IncomingFlow = session.connection.incoming_flow
    flow.read(b, p, end)
    if session.state != MAPPED:  # its links have ended: a window would let messages out to them, which get lost
        return
    seen: cython.uint = flow.next_incoming_id if flow.next_incoming_id >= 0 else 0
    # the remaining window is the peer's window less the frames in flight. Spec: 2.5.6
    shut: cython.bint = session.remote_window <= 0
    session.remote_window = flow.incoming_window - serial_gap(session.next_outgoing_id, seen)
    if session.blocked:
        take_credit_first(session, flow)
        session.unblock()
    if flow.handle < 0:
        if flow.echo:
            session.window_soon()
        credit_everywhere(session)
        return
    link: Link | None = session.remote_link(flow.handle)
    if link is None or not (link.attached or link.state == ATTACH_RCVD):
        if not is_refused(session, flow.handle) if link is None else link.state != DETACH_SENT:
            session.end(UNATTACHED_HANDLE, f"flow for handle {flow.handle}, which is not attached")
        return
    take_link_flow(session, link, flow)
    if shut and session.remote_window > 0:
        credit_everywhere(session)


def take_link_flow(session: Session, link: Link, flow: IncomingFlow) -> None:
    """The link's part of a flow. Spec: 2.6.7."""
    if link.passing and (flow.available >= 0 or flow.echo or flow.properties is not None):
        session.handler.on_flow_details(link, flow)
    if link.is_sender:
        take_credit(link, flow)
        link.drain = flow.drain
        session.handler.on_credit(link)
    elif flow.delivery_count >= 0:
        take_sender_count(session, link, cython.cast(cython.uint, flow.delivery_count))
    if flow.echo and link.attached:
        link.flow_soon()


def take_credit_first(session: Session, flow: IncomingFlow) -> None:
    """A flow opens the window for a delivery in progress: the next one must not use credit that it takes back."""
    link: Link | None = session.remote_link(flow.handle) if flow.handle >= 0 else None
    if link is not None and link.is_sender and link.attached:
        take_credit(link, flow)


def take_credit(link: Link, flow: IncomingFlow) -> None:
    """The receiver's credit, less the deliveries that it has not seen. Spec: 2.6.7."""
    if flow.link_credit < 0:
        return
    base: cython.uint = flow.delivery_count if flow.delivery_count >= 0 else 0
    unseen: cython.int = serial_gap(link.delivery_count, base)
    link.credit = flow.link_credit - unseen if unseen > 0 else flow.link_credit
    if link.paused:
        link.pause()


def take_sender_count(session: Session, link: Link, count: cython.uint) -> None:
    """The sender reports its delivery-count: it may have used up its credit. Spec: 2.6.7."""
    skipped: cython.int = serial_gap(count, link.delivery_count)
    if skipped > 0:
        link.delivery_count = count
        link.use_up(skipped)
        if link.accepting:
            link.grant()
    if link.credit <= 0:
        link.drain = False
    if link.passing:
        session.handler.on_sender_flow(link)


def credit_everywhere(session: Session) -> None:
    """The session window has opened: any outgoing link may be ready."""
    session.connection.budget -= len(session.links) >> 2
    link: Link
    for e in list(session.links):
        if e is not None:
            link = e
            if link.is_sender and link.attached and link.credit > 0:
                session.handler.on_credit(link)


def renew_window(session: Session) -> None:
    """Ask for the window of a session, before it is offered, if it may change."""
    if session.connection.settings.window_opens:
        session.window = session.handler.session_window(session)


def narrow_window(session: Session, window: cython.uint) -> None:
    """Take back what the window of a session has beyond `window` frames.

    The peer may have sent more before it reads the flow: as much as it was offered is accepted. Spec: 2.5.6.
    """
    session.window = window
    end: cython.uint = serial_add(session.next_incoming_id, window)
    beyond: cython.int = serial_gap(session.window_end, end)
    if beyond > 0 and session.state == MAPPED:
        session.spare += beyond
        session.window_end = end
        session.window_soon()


def write_window(session: Session) -> None:
    """Write a flow for the window, with the state of the link of the last transfer: some clients misread a flow without
    link state."""
    link: Link | None = session.last_link
    if link is not None and (link.is_sender or link.drain or not link.attached or link.next_flow_details is not None):
        link = None
    write_flow(session, link)


def write_flow(session: Session, link: Link | None) -> None:
    """Write a flow frame, with the link state if a link is given."""
    end: cython.uint = serial_add(session.next_incoming_id, session.window)
    wider: cython.int = serial_gap(end, session.window_end)
    if wider > 0 and session.holds == 0:
        session.window_end = end
        session.spare -= min(session.spare, cython.cast(cython.uint, wider))
    session.window_due = False
    if link is not None and link.next_flow_details is not None:
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
    assert link.next_flow_details is not None
    available, echo, properties = link.next_flow_details
    link.next_flow_details = None
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
