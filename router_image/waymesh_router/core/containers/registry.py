"""Connections of external containers (brokers): which ones an entity means, and the sessions of the router's own links.

Dispatch book "Indirect Waypoints and Auto-Links", routing chapter "Connecting a Router to the Broker".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import AmqpError

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.model import RouterConnection

ROUTE_CONTAINER = "route-container"
LINKS_A_SESSION = 128
"""A peer's limits are for sessions and for links of a session; both are rarely below some hundreds."""

OPEN_STATES = ("MAPPED", "BEGIN_SENT")

Place = tuple[str, str]
"""("connection", name of connector or listener), ("containerId", id), or ("id", number of one connection)."""


def place_of(attrs: Mapping[str, Any]) -> Place | None:
    """Where an autoLink or linkRoute entity leads; None where it does not say."""
    for name in ("connection", "containerId"):
        if attrs.get(name):
            return name, str(attrs[name])
    return None


def places_of(conn: RouterConnection) -> tuple[Place, ...]:
    """What entities may call an open connection."""
    container = "" if conn.remote is None else str(conn.remote.container_id)
    return ("connection", conn.origin), ("containerId", container), ("id", str(conn.id))


class Containers:
    """Open route-container connections, by what entities call them."""

    def __init__(self) -> None:
        self._by_place: dict[Place, list[RouterConnection]] = {}
        self._sessions: dict[tuple[int, bool], list[Session]] = {}
        self._lone: dict[int, list[Session]] = {}

    def opened(self, conn: RouterConnection) -> None:
        """Its peer's open is there."""
        for place in places_of(conn):
            self._by_place.setdefault(place, []).append(conn)

    def closed(self, conn: RouterConnection) -> None:
        """It is gone."""
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
        """The connections that a place means, in the order in which they came."""
        return [] if place is None else self._by_place.get(place, [])

    def session(self, conn: RouterConnection, incoming: bool) -> Session:
        """A session with room for one more link of the router itself.

        Incoming and outgoing links have sessions of their own, so that one that is held up does not stall the others.
        Raises AmqpError where the peer takes neither a further session nor a further link.
        """
        sessions = self._sessions.setdefault((conn.id, incoming), [])
        sessions[:] = [session for session in sessions if session.state in OPEN_STATES]
        for session in sessions:
            if session.handles.lowest() < min(LINKS_A_SESSION, session.remote_handle_max + 1):
                return session
        try:
            sessions.append(conn.open_session())
        except AmqpError:
            if not sessions:
                raise
            return min(sessions, key=lambda session: session.handles.used)
        return sessions[-1]

    def lone_session(self, conn: RouterConnection) -> Session:
        """A session without links, for one that may be the end of it. Raises AmqpError where the peer takes none."""
        sessions = self._lone.setdefault(conn.id, [])
        sessions[:] = [session for session in sessions if session.state in OPEN_STATES]
        for session in sessions:
            if not session.handles.used:
                return session
        sessions.append(conn.open_session())
        return sessions[-1]
