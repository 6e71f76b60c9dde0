"""Session windows of clients that are larger than usual, while nothing waits.

Some clients need time for each renewal of the window in proportion to the message that they send. So the first credit
in a session, and each renewal, offers OPENED times the bytes that one link may keep.

What all windows have beyond `ConnectionSettings.window` takes at most 1/OPENED_PART of the router's budget, and with
the rest of a connection at most what a connection may keep. If that is used up, clients that send nothing give theirs
back, and while memory is short or messages wait, all do: a flow lowers the window. A client that ignores it can send no
more than it was offered, and relief.py bounds what that takes. Decision 0092.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.flows import narrow_window
from waymesh_amqp.states import MAPPED
from waymesh_router.core.portions import Rounds

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.forwarding.buffer_budget import BufferBudget
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.core.portions import Portions

OPENED = 3
"""While nothing waits, the window of a session takes OPENED times the bytes that one link may keep."""
OPENED_PART = 4
"""All windows beyond their usual size take at most 1/OPENED_PART of the router's budget."""
OPENED_SESSIONS = 16
"""No window of a connection with more sessions is opened."""
MAX_WINDOW = 1 << 16
"""Frames that a window has beyond its usual size at most."""
IDLE_S = 1.0
"""A window that was not used for this time is given back if others need it."""


class Opened:
    """A window that is larger than usual. `extra`: frames beyond that; `seen`: next-incoming-id when it was last used,
    at `used_at`."""

    __slots__ = ("extra", "seen", "used_at")

    def __init__(self, extra: int, seen: int, used_at: float) -> None:
        self.extra = extra
        self.seen = seen
        self.used_at = used_at


class OpenedWindows:
    """Chooses the windows of the sessions of clients, and takes them back."""

    def __init__(self, budget: BufferBudget, portions: Portions) -> None:
        self.budget = budget
        self.total = 0  # bytes of all windows beyond their usual size
        self.missed = False  # there was no room for a window, and half of the room is not free yet
        self.sessions: dict[Session, Opened] = {}
        self.now = 0.0
        self.round = Rounds(portions, "session windows", self.sessions, self.look)

    def room(self) -> int:
        """Bytes that all windows may have beyond their usual size."""
        return self.budget.per_router // OPENED_PART

    def pressed(self) -> bool:
        """Whether windows have their usual size because memory is short, or messages wait."""
        return self.budget.short or self.budget.kept * 2 > self.budget.per_router

    def next_window(self, session: Session) -> cython.uint:
        """The window that a client's session gets next, in frames."""
        conn: RouterConnection = session.connection  # type: ignore[assignment]
        least = int(conn.settings.window)
        if session.window < least or conn.over:
            return session.window  # see `BufferBudget.narrow`
        extra = self._extra(session, conn, least)
        self._count(session, conn, extra)
        return least + extra

    def _extra(self, session: Session, conn: RouterConnection, least: int) -> int:
        """Frames beyond the usual window; those of the last one do not count any more."""
        budget, frame = self.budget, conn.max_frame
        wanted = budget.per_link * OPENED // frame - least
        idle = session.holds == 0 and conn.kept <= budget.small
        if wanted <= 0 or not idle or self.pressed() or len(conn.sessions) > OPENED_SESSIONS:
            return 0
        before = self.sessions[session].extra if session in self.sessions else 0
        others = conn.opened - before * frame
        wanted = min(wanted, MAX_WINDOW, self.room() // frame, (budget.per_connection - others) // frame - least)
        room = (self.room() - self.total) // frame + before
        self.missed = self.missed or room < wanted
        return max(0, min(wanted, room))

    def _count(self, session: Session, conn: RouterConnection, extra: int) -> None:
        opened = self.sessions.pop(session, None)
        change = (extra - (0 if opened is None else opened.extra)) * conn.max_frame
        conn.opened += change
        self.total += change
        if extra:
            self.sessions[session] = Opened(extra, session.next_incoming_id, self.now)

    def closed(self, conn: RouterConnection) -> None:
        """A connection is closed: its windows are free."""
        self.total -= conn.opened
        conn.opened = 0

    def tick(self, now: float) -> None:
        """Look for windows that must be given back. Must be called several times a second."""
        self.now = now
        if self.total * 2 <= self.room():
            self.missed = False
        if self.sessions:
            self.round.begin()

    def look(self, session: Session) -> int:
        """Take back the window of a session if that is due. Returns the cost, see core/portions.py."""
        opened = self.sessions.get(session)
        if opened is None:
            return 1
        conn: RouterConnection = session.connection  # type: ignore[assignment]
        if conn.over:  # see `closed`
            del self.sessions[session]
            return 2
        if session.state != MAPPED:
            self._count(session, conn, 0)
            return 2
        if opened.seen != session.next_incoming_id:
            opened.seen, opened.used_at = session.next_incoming_id, self.now
        scarce = self.missed and self.total * 2 > self.room()
        if session.holds or not (self.pressed() or (scarce and self.now - opened.used_at >= IDLE_S)):
            return 1
        self._count(session, conn, 0)
        narrow_window(session, min(session.window, conn.settings.window))
        return 20
