"""Links and sessions that end together: the sessions end at once, and the handler is notified of each link in portions.

Until then such a link is still attached, but not `usable`: nothing is written in its session. The peer's close or end
is answered after the last one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from waymesh_amqp.refused import drop_refused
from waymesh_amqp.states import CLOSE_RCVD, END_RCVD

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.session import Session

SESSIONS_A_LINK = 16
"""Sessions without links, or free handles, that take as much time to end as one link."""


def lose_session(session: Session) -> None:
    """A session has ended with its links; `end_some` notifies the handler of them later."""
    if session.losing:
        return
    session.losing = True
    session.flow_links.clear()
    session.outcomes.clear()
    drop_refused(session)
    if session.connection.losing is None:  # an empty one takes 600 octets
        session.connection.losing = deque()
    session.connection.losing.append(session)
    session.connection.handler.ending[session.connection] = None


def end_some(connection: Connection, count: int) -> bool:
    """Notify the handler of the end of up to `count` links. After the last link of a connection that has ended, remove
    its sessions (SESSIONS_A_LINK of them count as one link), and notify the handler of its end.

    Returns True when nothing is left to do.
    """
    while connection.losing and count > 0:
        session = connection.losing[0]
        count = _end_links(session, count)
        if session.lost < len(session.links):
            return False
        connection.losing.popleft()
        if not connection.over:
            _end_session(session)
    if connection.losing:
        return False
    if not connection.over:
        return True
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


def _end_links(session: Session, count: int) -> int:
    """End up to `count` links of a session. Returns how many more may end in this portion."""
    end = session.lost + count * SESSIONS_A_LINK
    while count > 0 and session.lost < min(end, len(session.links)):
        link = session.links[session.lost]
        session.lost += 1
        if link is not None:
            count -= 1
            session.lose(link, session.error)
    return count if session.lost < end else 0


def _end_session(session: Session) -> None:
    """All links of a session have ended, and its connection goes on."""
    session.losing = False
    if session.state == END_RCVD:
        session.answer_end()
