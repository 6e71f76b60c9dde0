"""Links and sessions that end together: all stop at once, and the handler is notified of them in portions.

The peer's close or end is answered after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waymesh_amqp.states import CLOSE_RCVD, END_RCVD

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.link import Link
    from waymesh_amqp.session import Session

SESSIONS_A_LINK = 16
"""Sessions without links that take as much time to end as one link."""


def lose_session(session: Session) -> None:
    """A session has ended, but not its connection."""
    session.losing = True  # postpones the answer to its end
    session.connection.losing.append(session)
    lose_links(session.connection, [session])


def lose_links(connection: Connection, sessions: Sequence[Session]) -> None:
    """Stop all links of these sessions at once; `end_some` notifies the handler later.

    One list for all sessions: a copy would take as long as the stop, as it changes the reference count of each link.
    """
    lost: list[Link] = []
    for session in sessions:
        session.stop(lost)
    lost.reverse()
    connection.lost_links = lost + connection.lost_links if connection.lost_links else lost
    connection.handler.ending[connection] = None


def end_some(connection: Connection, count: int) -> bool:
    """Notify the handler of the end of up to `count` links. After the last link of a connection that has ended, remove
    its sessions (SESSIONS_A_LINK of them count as one link), and notify the handler of its end.

    Returns True when nothing is left to do.
    """
    while connection.lost_links and count > 0:
        count -= 1
        link = connection.lost_links.pop()
        link.session.lose(link, link.session.error)
    if connection.lost_links:
        return False
    ended, connection.losing = connection.losing, []
    if connection.over:
        for _ in range(min(max(count, 1) * SESSIONS_A_LINK, len(connection.sessions))):
            connection.sessions.popitem()
            if connection.remote_sessions:
                connection.remote_sessions.popitem()
        if connection.sessions:
            return False
        connection.links_ended()
        if connection.state == CLOSE_RCVD and not connection.done:
            connection.answer_close()
        return True
    for session in ended:
        session.losing = False
        if session.state == END_RCVD:
            session.answer_end()
    return True
