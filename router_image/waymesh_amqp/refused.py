"""Handles of refused links. Until the peer has answered the detach of a link that was refused, frames on its handle are
valid and discarded (Spec: 2.6.5), and our handle is not used again. Nothing else of the link is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED
from waymesh_amqp.states import LinkState

if TYPE_CHECKING:
    from waymesh_amqp.link import Link
    from waymesh_amqp.session import Session


def keep_handles(link: Link) -> None:
    """Replace a link, which was refused, by a record of its handles. Ends a connection with too many of them."""
    session = link.session
    if link.state != LinkState.DETACH_SENT:
        return  # the refusal was too long for the peer, or its connection has ended
    session.free_remote_handle(link)
    session.links[link.handle] = None
    if session.refused is None:
        session.refused = {}
    session.refused[link.remote_handle] = link.handle
    connection = session.connection
    connection.refused += 1
    most = connection.settings.max_refused
    if connection.refused > most:
        text = f"{most} links were refused, and the peer has not answered their detaches"
        connection.fail(RESOURCE_LIMIT_EXCEEDED, text)


def is_refused(session: Session, handle: int) -> bool:
    """Whether the peer's handle is that of a refused link."""
    return session.refused is not None and handle in session.refused


def end_refused(session: Session, handle: int) -> bool:
    """The peer answers the detach of a link: free the handles if it was refused; False if not."""
    if session.refused is None or handle not in session.refused:
        return False
    session.handles.give(session.refused.pop(handle))
    session.connection.links -= 1
    session.connection.refused -= 1
    if session.handles.used == 0:
        session.links.clear()
    return True


def drop_refused(session: Session) -> None:
    """The session has ended, and with it all its handles."""
    if session.refused:
        session.connection.links -= len(session.refused)
        session.connection.refused -= len(session.refused)
    session.refused = None
