"""Connections of external containers (brokers): how entities refer to them, and sessions for the router's own links.

Dispatch book "Indirect Waypoints and Auto-Links", routing chapter "Connecting a Router to the Broker".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.states import BEGIN_SENT, MAPPED
from waymesh_router.core.link_routing.sessions import SessionPending, has_room, shared_session

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.link_routing.held import HeldAttaches
    from waymesh_router.core.model import RouterConnection

ROUTE_CONTAINER = "route-container"
LINKS_A_SESSION = 128
"""Links per session. Peers limit sessions and links of a session."""

OPEN_STATES = (MAPPED, BEGIN_SENT)

Place = tuple[str, str]
"""("connection", name of connector or listener), ("containerId", id), or ("id", number of one connection)."""


def place_of(attrs: Mapping[str, Any]) -> Place | None:
    """The container that an autoLink or linkRoute entity refers to; None if it refers to none."""
    for name in ("connection", "containerId"):
        if attrs.get(name):
            return name, str(attrs[name])
    return None


def places_of(conn: RouterConnection) -> tuple[Place, ...]:
    """All ways in which entities can refer to an open connection. Only its own link routes refer to an edge router."""
    if conn.edge_router is not None:
        return (("id", str(conn.id)),)
    container = "" if conn.remote is None else str(conn.remote.container_id)
    return ("connection", conn.origin), ("containerId", container), ("id", str(conn.id))


def no_container(connection: str, role: str) -> str:
    """Why autolinks and link routes do not use the connections of a connector or listener."""
    return f"{connection} has role {role}; only connections with role {ROUTE_CONTAINER} are used"


class Containers:
    """Open route-container connections, by the places in entities."""

    def __init__(self, held: HeldAttaches) -> None:
        self.held = held
        self._by_place: dict[Place, list[RouterConnection]] = {}
        self._sessions: dict[tuple[int, bool], list[Session]] = {}
        self._lone: dict[int, list[Session]] = {}

    def opened(self, conn: RouterConnection) -> None:
        """The peer's open has arrived."""
        for place in places_of(conn):
            self._by_place.setdefault(place, []).append(conn)

    def closed(self, conn: RouterConnection) -> None:
        """The connection is closed."""
        for place in places_of(conn):
            there = self._by_place.get(place, [])
            if conn in there:
                there.remove(conn)
            if not there:
                self._by_place.pop(place, None)
        for incoming in (True, False):
            self._sessions.pop((conn.id, incoming), None)
        self._lone.pop(conn.id, None)

    def at(self, place: Place | None) -> list[RouterConnection]:
        """The connections of a place, oldest first."""
        return [] if place is None else self._by_place.get(place, [])

    def session(self, conn: RouterConnection, incoming: bool) -> Session:
        """A session with room for one more link of the router itself.

        Incoming and outgoing links use separate sessions, so that a blocked link does not stall the other direction. If
        the peer accepts no more of them, any session of the connection with room is shared. Raises AmqpError if there
        is none, and SessionPending if there may be one: a begin on the connection is not answered yet.
        """
        sessions = self._sessions.setdefault((conn.id, incoming), [])
        for session in reversed(sessions):  # the others are full, most of the time
            known = session.state == MAPPED or conn.role == ROUTE_CONTAINER  # routers take many links
            room = session.handles.lowest() < LINKS_A_SESSION and (not known or has_room(session))
            if room and session.state in OPEN_STATES:
                if session is not sessions[-1]:
                    sessions.remove(session)
                    sessions.append(session)
                return session
        sessions[:] = [session for session in sessions if session.state in OPEN_STATES]
        if conn.role == ROUTE_CONTAINER and any(s.state == BEGIN_SENT and not has_room(s) for s in sessions):
            raise SessionPending(conn)
        try:
            sessions.append(conn.open_session())
        except AmqpError:
            shared = shared_session(conn.sessions.values())
            if shared is None:
                raise
            return shared
        return sessions[-1]

    def separate_session(self, conn: RouterConnection) -> Session:
        """A session without links, for a link that may end its session. Raises AmqpError if the peer accepts none."""
        sessions = self._lone.setdefault(conn.id, [])
        sessions[:] = [session for session in sessions if session.state in OPEN_STATES]
        for session in sessions:
            if not session.handles.used:
                return session
        sessions.append(conn.open_session())
        return sessions[-1]
