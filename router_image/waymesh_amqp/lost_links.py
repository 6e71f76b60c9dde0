"""Many links or sessions that end together: all stop at once, and the handler hears of them in portions.

The peer's close or end is answered behind the last one.
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
"""Sessions without links that end in the time of one link."""


def lose_session(session: Session) -> None:
    """A session is over, its connection is not."""
    session.owing += 1  # its end is not answered before `end_some` takes that back
    session.connection.losing.append(session)
    lose_links(session.connection, [session])


def lose_links(connection: Connection, sessions: Sequence[Session]) -> None:
    """Stop all links of these sessions at once; `end_some` tells the handler of them later."""
    lost: list[Link] = []
    for session in sessions:
        lost.extend(session.stop())
    lost.reverse()
    connection.lost_links = lost + connection.lost_links
    connection.handler.ending[connection] = None


def end_some(connection: Connection, count: int) -> bool:
    """Tell the handler of the end of up to `count` links; behind the last one give up the sessions of a connection that
    is over, SESSIONS_A_LINK for a link, and tell the handler of its end.

    True when there is nothing left to do.
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
        connection.gone()
        if connection.state == CLOSE_RCVD and connection.owing == 0 and not connection.done:
            connection.answer_close()
        return True
    for session in ended:
        session.owing -= 1
        if session.state == END_RCVD and session.owing == 0:
            session.answer_end()
    return True
