"""Open, close, begin and end frames of the peer. Spec: 2.4.1 to 2.4.3, 2.5.1 to 2.5.4."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import FRAMING_ERROR, ILLEGAL_STATE, AmqpError
from waymesh_amqp.limits import MIN_MAX_FRAME
from waymesh_amqp.states import Event

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import CLOSE_SENT, ENDED, MAPPED, OPENED
else:
    from waymesh_amqp.states import CLOSE_SENT, ENDED, MAPPED, OPENED

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.performatives import Begin, Close, End, Open
    from waymesh_amqp.session import Session

MAX_FRAME = cython.declare(cython.Py_ssize_t, 1048576)
"""Maximum size of frames that are sent, even if the peer accepts larger ones, so that buffers stay small."""


def take_open(connection: Connection, performative: Open) -> None:
    """The peer's open, first or in answer to ours."""
    connection.step(Event.OPEN_IN)
    if connection.state == CLOSE_SENT:
        return
    connection.remote = performative
    size = performative.max_frame_size
    if size is None or size > MAX_FRAME:
        size = MAX_FRAME
    elif size < MIN_MAX_FRAME:
        size = MIN_MAX_FRAME
    connection.peer_max = size
    if performative.channel_max is not None and performative.channel_max < connection.channel_max:
        connection.channel_max = performative.channel_max
    if performative.idle_time_out:
        connection.times.send_every = performative.idle_time_out / 2000.0
    connection.handler.on_open(connection, performative)


def take_close(connection: Connection, performative: Close) -> None:
    """The peer's close, first or in answer to ours."""
    if connection.error is None and performative.error is not None:
        connection.error = performative.error
    if connection.state != OPENED:
        connection.step(Event.CLOSE_IN)
        connection.finish()
        return
    connection.flush()
    connection.step(Event.CLOSE_IN)
    connection.times.deadline = math.inf  # the end of its last links answers
    connection.over_now()
    if not connection.sessions:
        connection.answer_close()


def take_begin(connection: Connection, performative: Begin, channel: cython.int) -> None:
    """The peer begins a session, or answers our begin."""
    if channel > connection.channel_max:
        connection.channels_exceeded = True
        raise AmqpError(FRAMING_ERROR, f"channel {channel} is over channel-max {connection.channel_max}")
    if channel in connection.remote_sessions:
        raise AmqpError(ILLEGAL_STATE, f"begin on channel {channel}, which has a session")
    answered = performative.remote_channel
    if answered is None:
        session: Session = connection.new_session()
        session.on_begin(performative, channel)
        connection.remote_sessions[channel] = session
        session.begin()
    else:
        ours = connection.sessions.get(answered)
        if ours is None:
            raise AmqpError(ILLEGAL_STATE, f"begin answers channel {answered}, which has no session")
        session = ours
        session.on_begin(performative, channel)
        connection.remote_sessions[channel] = session
    if session.state == MAPPED:
        connection.handler.on_begin(session)


def take_end(connection: Connection, performative: End, channel: cython.int) -> None:
    """The peer ends a session, or answers our end."""
    session: Session = connection.session_at(channel)
    session.on_end(performative)
    connection.free_remote_channel(channel)
    if session.state == ENDED:
        connection.free_channel(session)
