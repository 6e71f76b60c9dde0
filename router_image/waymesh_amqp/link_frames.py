"""Attaches our own links, and handles attach and detach frames. Spec: 2.6.3 to 2.6.5, 2.7.3, 2.7.7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import (
    FRAMING_ERROR,
    HANDLE_IN_USE,
    LINK_STOLEN,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    AmqpError,
)
from waymesh_amqp.limits import HANDLE_MAX
from waymesh_amqp.refused import end_refused, is_refused
from waymesh_amqp.states import LINK, Event, advance

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import ATTACH_RCVD, ATTACH_SENT, DETACH_PIPE, DETACH_RCVD, DETACH_SENT
else:
    from waymesh_amqp.states import ATTACH_RCVD, ATTACH_SENT, DETACH_PIPE, DETACH_RCVD, DETACH_SENT

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.link import Link
    from waymesh_amqp.performatives import Attach, Detach
    from waymesh_amqp.session import Session


def open_link(session: Session, link: Link, attach: Attach) -> None:
    """Attach a link to the peer: `link` is new, `attach` has its name, role, modes and termini. Spec: 2.6.3.

    Raises AmqpError if the peer accepts no more links, or if the attach is too long for it.
    """
    link.name = attach.name
    link.is_sender = not attach.role
    session.new_handle(link)
    if link.handle > session.remote_handle_max:
        session.free_handle(link)
        raise AmqpError(NOT_ALLOWED, f"the peer allows {session.remote_handle_max + 1} links per session", session)
    attach.handle = link.handle
    if link.is_sender:
        attach.initial_delivery_count = 0
    link.snd_settle_mode = 2 if attach.snd_settle_mode is None else attach.snd_settle_mode
    link.rcv_settle_mode = attach.rcv_settle_mode or 0
    session.connection.names[(link.name, link.is_sender)] = link
    try:
        link.send_attach(attach)
    except AmqpError:
        session.forget(link)
        raise


def take_attach(session: Session, attach: Attach) -> None:
    """The peer attaches a link, or answers our attach."""
    if attach.handle > HANDLE_MAX:
        raise AmqpError(FRAMING_ERROR, f"handle {attach.handle} is over handle-max {HANDLE_MAX}")
    if attach.handle in session.remote_links or is_refused(session, attach.handle):
        session.end(HANDLE_IN_USE, f"handle {attach.handle} is already attached")
        return
    is_sender: bool = bool(attach.role)
    link: Link | None = session.connection.names.get((attach.name, is_sender))
    if link is not None and link.state not in (ATTACH_SENT, DETACH_PIPE):
        steal(session, link)
        link = None
    ours = link is not None
    if link is None:
        check_links(session.connection)
        link = session.handler.new_link(session)
        link.name = attach.name
        link.is_sender = is_sender
        session.new_handle(link)
        session.connection.names[(link.name, is_sender)] = link
        if link.handle > session.remote_handle_max:
            session.end(NOT_ALLOWED, f"more links than the peer's handle-max {session.remote_handle_max} allows")
            return
    link.remote_handle = attach.handle
    link.enter(advance(LINK, link.state, Event.ATTACH_IN, session))
    session.remote_links[attach.handle] = link
    if is_sender:
        link.max_message_size = attach.max_message_size or 0
    else:
        # it is mandatory; senders that omit it count from 0
        link.delivery_count = attach.initial_delivery_count or 0
    if not ours:
        link.snd_settle_mode = 2 if attach.snd_settle_mode is None else attach.snd_settle_mode
        link.rcv_settle_mode = attach.rcv_settle_mode or 0
    link.source = attach.source
    link.target = attach.target
    if link.state != DETACH_SENT:
        session.handler.on_attach(link, attach)


def check_links(connection: Connection) -> None:
    """Raises AmqpError if the peer attaches more than `max_links` links: even refused links take memory."""
    most: int = connection.settings.max_links
    if connection.links >= most:
        raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"more than {most} links on a connection")


def take_detach(session: Session, detach: Detach) -> None:
    """The peer detaches a link, or answers our detach."""
    link = session.remote_link(detach.handle)
    if link is None:
        if end_refused(session, detach.handle):
            return
        session.end(UNATTACHED_HANDLE, f"detach of handle {detach.handle}, which is not attached")
        return
    unanswered = link.state == ATTACH_RCVD
    link.enter(advance(LINK, link.state, Event.DETACH_IN, session))
    link.closed = detach.closed
    if link.state == DETACH_RCVD:
        if unanswered:
            session.send_frame(link.bare_answer())
        session.free_remote_handle(link)  # the peer may use it again
        session.link_over(link, detach.error)
        if not link.answer_postponed:
            link.answer_detach()
    else:
        session.forget(link, detach)


def steal(session: Session, link: Link) -> None:
    """The peer attaches a link with the name of an existing one: detach the old one. Spec: 2.6.1."""
    if link.state == ATTACH_RCVD:
        link.send_attach(link.bare_answer())
    link.detach(LINK_STOLEN, "attached again under the same name")
