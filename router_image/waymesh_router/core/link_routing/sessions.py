"""Sessions of routed links: each client session has its own session on every connection of its links.

So the links of one client do not stall those of others, and a transaction stays in one session. Spec: 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.states import BEGIN_SENT, MAPPED
from waymesh_router.core.portions import Rounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waymesh_amqp.session import Session
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.core.portions import Portions

END_COST = 10


class SessionPending(Exception):
    """There is no room for a link as far as is known: a begin on the connection is not answered yet."""

    def __init__(self, connection: RouterConnection) -> None:
        super().__init__()
        self.connection = connection


class _Mirror:
    """A session of this router: the peers' sessions that it mirrors, and its number of routed links."""

    def __init__(self) -> None:
        self.links = 0
        self.origins: list[tuple[Session, int]] = []
        self.coordinated: list[Session] = []


class MirrorSessions:
    """Maps sessions of peers to sessions of this router.

    If the next hop accepts no more sessions, an existing one is shared. How many links a session takes is not known
    until its begin is answered: until then, it takes as many as the last one that the peer answered, or one.
    """

    def __init__(self, portions: Portions) -> None:
        self._by_origin: dict[tuple[Session, int], Session] = {}
        self._mirrors: dict[Session, _Mirror] = {}
        self._idle: set[Session] = set()
        self._coordinated: dict[Session, list[Session]] = {}
        self._ends = Rounds(portions, "sessions of routed links", self._idle, self._end_if_idle)

    def session(self, origin: Session, conn: RouterConnection) -> Session:
        """A session on `conn` for one more link of `origin`. Raises AmqpError if the peer has no room for it, and
        SessionPending if it may have room."""
        found = self._by_origin.get((origin, conn.id))
        if found is not None and found.state in (MAPPED, BEGIN_SENT):
            if has_room(found):
                return found
            if found.state == BEGIN_SENT:
                raise SessionPending(conn)
        try:
            found = conn.open_session()
        except AmqpError:
            found = self._shared(conn)
            if found is None:
                raise
        self._by_origin[origin, conn.id] = found
        mirror = self._mirrors.setdefault(found, _Mirror())
        mirror.origins.append((origin, conn.id))
        self._idle.add(found)
        return found

    def _shared(self, conn: RouterConnection) -> Session | None:
        """The session on `conn` with the fewest links of those with room. Raises SessionPending if there may be one."""
        if conn.role == "route-container":  # with those of the router's own links
            return shared_session(conn.sessions.values())
        return shared_session([session for session in self._mirrors if session.connection is conn])

    def link_opened(self, origin: Session, session: Session, coordinator: bool) -> None:
        """A link of `origin` was forwarded."""
        mirror = self._mirrors[session]
        mirror.links += 1
        self._idle.discard(session)
        if coordinator:
            mirror.coordinated.append(origin)
            self._coordinated.setdefault(origin, []).append(session)

    def link_gone(self, session: Session) -> None:
        """A link is gone."""
        mirror = self._mirrors.get(session)
        if mirror is not None:
            mirror.links -= 1
            if mirror.links <= 0:
                self._idle.add(session)

    def tidy(self) -> None:
        """End sessions without links; call it regularly, but not from within their events.

        A session whose link still waits for a detach stays: after an end, the peer would not send the detach.
        """
        if self._idle:
            self._ends.begin()

    def _end_if_idle(self, session: Session) -> int:
        """End a session without links. Returns the cost."""
        if session.handles.used or session not in self._idle:
            return 1
        self._idle.discard(session)
        mirror = self._mirrors.pop(session)
        for place in mirror.origins:
            if self._by_origin.get(place) is session:
                del self._by_origin[place]
        for origin in mirror.coordinated:
            left = [s for s in self._coordinated.pop(origin, ()) if s is not session]
            if left:
                self._coordinated[origin] = left
        if session.state == MAPPED:
            session.end()
        return END_COST

    def connections(self, origin: Session) -> dict[int, RouterConnection]:
        """Connections, by id, of the coordinator links of a session."""
        found = [session.connection for session in self._coordinated.get(origin, ())]
        return {conn.id: conn for conn in found}  # type: ignore[attr-defined, misc]


def has_room(session: Session) -> bool:
    """Whether the peer accepts one more link in the session, as far as is known."""
    most = session.remote_handle_max if session.state == MAPPED else session.connection.handle_max  # type: ignore[attr-defined]
    return bool(session.handles.lowest() <= most)


def shared_session(sessions: Iterable[Session]) -> Session | None:
    """Of those that this router has begun on a connection, the session with the fewest links of those with room; None
    if there is none. Raises SessionPending if there may be one."""
    open_ = [session for session in sessions if session.ours and session.state in (MAPPED, BEGIN_SENT)]
    there = [session for session in open_ if has_room(session)]
    if not there:
        for session in open_:
            if session.state == BEGIN_SENT:
                raise SessionPending(session.connection)  # type: ignore[arg-type]
    return min(there, key=lambda session: session.handles.used, default=None)
