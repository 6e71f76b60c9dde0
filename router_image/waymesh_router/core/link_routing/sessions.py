"""Sessions of routed links: each of a client's has one of its own on every connection to which its links lead.

So a client's links do not stall those of others, and what belongs to a transaction stays in one session. Spec: 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import AmqpError

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.model import RouterConnection


class _Mirror:
    """A session of ours: for which ones of peers it stands, and how many routed links it has."""

    def __init__(self) -> None:
        self.links = 0
        self.origins: list[tuple[Session, int]] = []
        self.coordinated: list[Session] = []


class MirrorSessions:
    """Which session of ours stands for which of a peer's.

    Where the next hop takes no further session, one that is there is shared.
    """

    def __init__(self) -> None:
        self._by_origin: dict[tuple[Session, int], Session] = {}
        self._mirrors: dict[Session, _Mirror] = {}
        self._idle: set[Session] = set()
        self._coordinated: dict[Session, list[Session]] = {}

    def session(self, origin: Session, conn: RouterConnection) -> Session:
        """A session on `conn` for one more link of `origin`. Raises AmqpError where there is no room for it."""
        found = self._by_origin.get((origin, conn.id))
        if found is not None and found.state in ("MAPPED", "BEGIN_SENT") and has_room(found):
            return found
        try:
            found = conn.open_session()
        except AmqpError:
            there = [s for s in self._mirrors if s.connection is conn and s.mapped and has_room(s)]
            if not there:
                raise
            found = min(there, key=lambda s: self._mirrors[s].links)
        self._by_origin[origin, conn.id] = found
        mirror = self._mirrors.setdefault(found, _Mirror())
        mirror.origins.append((origin, conn.id))
        self._idle.add(found)
        return found

    def link_opened(self, origin: Session, session: Session, coordinator: bool) -> None:
        """A link of `origin` was passed on."""
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
        """End the sessions that have no links; to be called now and then, outside of any event of theirs.

        One with a link whose detach is not answered has to wait: its end would make the answer superfluous.
        """
        resting = [session for session in self._idle if not session.handles.used]
        for session in resting:
            mirror = self._mirrors.pop(session)
            for place in mirror.origins:
                if self._by_origin.get(place) is session:
                    del self._by_origin[place]
            for origin in mirror.coordinated:
                left = [s for s in self._coordinated.pop(origin, ()) if s is not session]
                if left:
                    self._coordinated[origin] = left
            if session.mapped:
                session.end()
        self._idle.difference_update(resting)

    def connections(self, origin: Session) -> dict[int, RouterConnection]:
        """Connections, by id, to which coordinator links of a session lead."""
        found = [session.connection for session in self._coordinated.get(origin, ())]
        return {conn.id: conn for conn in found}  # type: ignore[attr-defined, misc]


def has_room(session: Session) -> bool:
    """Whether the peer takes one more link in it."""
    return bool(session.handles.lowest() <= session.remote_handle_max)
