"""Limits for the bytes of waiting deliveries: one for each link, one for each connection, one for the router.

A waiting delivery counts with its bytes and those of its record, so that the limits hold for short messages, too.

If a sender exceeds one, the incoming window of its session is closed until half of the budget is free again; nothing
is dropped. From half of a budget on, windows are narrow, so that only little more than the budget can arrive after they
close. A held session still gets a few frames at a time while one of its deliveries is partly sent to a consumer, which
cannot receive anything else before its end: see `Session.admit_few` and `Settlement.on_held_window`.

A client may open many sessions and links, and each may exceed the budgets a little. If all together exceed the limit of
the router by far, `excess` is set, and the router disconnects the client with the most waiting bytes: memory/relief.py.

Links of other routers are counted but never held, except those of single senders (streams.py): two routers that wait
for each other would deadlock. Their credit limits the bytes that they send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.portions import AT_ONCE, Rounds

if TYPE_CHECKING:
    from waymesh_router.core.model import Queued, RouterConnection, RouterLink
    from waymesh_router.core.portions import Portions

SMALL_BYTES = cython.declare(cython.longlong, 65536)
REPLIES_PART = cython.declare(cython.longlong, 8)
"""Messages of the router itself may use 1/REPLIES_PART of the router's budget; the last one may exceed it."""
NARROW_FRAMES = cython.declare(cython.uint, 32)
UNLIMITED = 1 << 62
RECORD_BYTES = 360
"""What a waiting delivery takes beside its bytes: its record, and its place in a queue (measured)."""
_RECORD = cython.declare(cython.longlong, RECORD_BYTES)
BRANCH_BYTES = 100
"""What each consumer takes for which a copy of a waiting delivery waits (measured)."""
TOLERANCE = cython.declare(cython.longlong, 16 << 20)
"""`excess` is set at twice the router's limit and these bytes: what a few sessions may send before they are held."""
MANY_HELD = cython.declare(cython.Py_ssize_t, AT_ONCE)
"""Maximum number of held links that are examined together."""
RESUME_COST = 3
"""Of examining a held link, see `Portions`."""


class BufferBudget:
    """Counts the bytes of waiting deliveries, and holds the sessions of senders that exceed a limit."""

    def __init__(self, portions: Portions) -> None:
        self.kept = 0  # bytes that wait now
        self.peak = 0  # maximum of `kept` since it was last reset
        self.full = False  # `kept` has exceeded `per_router` and has not fallen to half of it yet
        self.excess = False  # `kept` has exceeded `most`; the router resets it
        self.short = False  # memory is high or full, see memory_levels.py
        self.most = UNLIMITED
        self.per_router = UNLIMITED  # limits in bytes
        self.per_connection = UNLIMITED
        self.per_link = UNLIMITED
        self.small = SMALL_BYTES  # bytes a link may keep even if others have used up the shared budgets
        self.replies = 0  # bytes of the router's own messages that wait for credit, not in `kept`
        self.braked: dict[RouterLink, None] = {}  # links whose sessions are held, in this order
        self.resuming = Rounds(portions, "links that are held", self.braked, self._resume_next)

    def set_limits(self, router: cython.longlong, connection: cython.longlong, link: cython.longlong) -> None:
        """Set the limits, in bytes. Held sessions stay held until they have room within the new limits."""
        self.per_router = router
        self.most = UNLIMITED if router > UNLIMITED // 4 else 2 * router + TOLERANCE
        self.per_connection = connection
        self.per_link = link
        self.small = min(SMALL_BYTES, link // 2)

    def take(self, q: Queued, size: cython.Py_ssize_t) -> None:
        """Count `size` more waiting bytes of a delivery, and hold its session if they exceed a limit."""
        if q.link is None:
            self.count(q, size)
        else:
            lk: RouterLink = q.link
            conn: RouterConnection = lk.connection
            if q.kept == 0:
                size += _RECORD
            q.kept += size
            lk.kept += size
            conn.kept += size
            self.kept += size
            if self.kept > self.peak:
                self.peak = self.kept
            if self.kept > self.per_router:
                self.full = True
                if self.kept > self.most:
                    self.excess = True
            if conn.kept > self.per_connection:
                conn.full = True
            if lk.kept > self.per_link:
                lk.full = True
            if lk.kept > self.small:
                self.check(lk)

    def check(self, lk: RouterLink) -> None:
        """A link has more than what is left to each: hold its session if a limit is exceeded, or make its window
        narrow."""
        conn: RouterConnection = lk.connection
        if (lk.edge or conn.role == "inter-router") and not lk.streaming:
            pass
        elif lk.full or conn.full or self.full:
            self.brake(lk)
        elif (
            lk.kept * 2 > self.per_link
            or conn.kept * 2 > self.per_connection
            or self.kept * 2 > self.per_router
        ):
            self.narrow(lk)

    def count(self, q: Queued, size: cython.Py_ssize_t) -> None:
        """Add `size` more bytes of a delivery to all sums, and its record with the first ones."""
        if q.kept == 0:
            size += _RECORD
        q.kept += size
        if q.link is None:
            self.replies += size
        else:
            lk: RouterLink = q.link
            conn: RouterConnection = lk.connection
            lk.kept += size
            conn.kept += size
            self.kept += size

    def take_own(self, q: Queued, size: cython.Py_ssize_t) -> cython.bint:
        """Count `size` more bytes of an incomplete message to the router itself. False if a budget is exhausted: then
        the caller must refuse the message, as it could not be completed while its session is held."""
        self.count(q, size)
        lk: RouterLink = q.link  # type: ignore[assignment]
        conn: RouterConnection = lk.connection
        if lk.edge or conn.role == "inter-router":
            return True
        return conn.kept <= self.per_connection and self.kept <= self.per_router

    def take_reply(self, q: Queued) -> cython.bint:
        """Count a message of the router itself that waits for its consumer's credit. False if too many bytes of such
        messages wait: then the caller must drop it, as there is no sender to hold."""
        if self.enough_replies():
            return False
        self.take(q, q.size)
        return True

    def enough_replies(self) -> cython.bint:
        """Whether so many bytes of the router's own messages wait that no more may wait for a client."""
        return self.replies > self.per_router // REPLIES_PART

    def half_used(self, lk: RouterLink) -> cython.bint:
        """Whether a budget of this link is half used, and the link uses more than the bytes left to each link."""
        conn: RouterConnection = lk.connection
        return lk.kept > self.small and (
            lk.kept * 2 > self.per_link or conn.kept * 2 > self.per_connection or self.kept * 2 > self.per_router
        )

    def must_drop(self, lk: RouterLink) -> cython.bint:
        """Whether a pre-settled delivery of this link may not wait: a budget is half used, and its session is never
        held."""
        conn: RouterConnection = lk.connection
        return (lk.edge or conn.role == "inter-router") and self.half_used(lk)

    def narrow(self, lk: RouterLink) -> None:
        if lk.session.window > NARROW_FRAMES:
            lk.session.window = NARROW_FRAMES

    def brake(self, lk: RouterLink) -> None:
        """Hold the session of a link."""
        self.narrow(lk)
        lk.braked = True
        self.braked[lk] = None
        lk.session.hold_window(lk)

    def give(self, q: Queued) -> None:
        """All bytes of a delivery have left. Examines other links only if an exhausted budget is half free again."""
        size: cython.longlong = q.kept
        if size == 0:
            return
        if q.link is None:
            q.kept = 0
            self.replies -= size
            return
        lk: RouterLink = q.link
        conn: RouterConnection = lk.connection
        q.kept = 0
        lk.kept -= size
        conn.kept -= size
        self.kept -= size
        if lk.full and lk.kept * 2 <= self.per_link:
            lk.full = False
        if lk.kept <= self.small and lk.session.window <= NARROW_FRAMES:
            lk.session.window = conn.settings.window
        if self.full and self.kept * 2 <= self.per_router:
            self.full = False
            self.resume_all(None)
        if conn.full and conn.kept * 2 <= self.per_connection:
            conn.full = False
            self.resume_all(conn)
        if lk.braked:
            self.resume(lk)

    def resume_all(self, conn: RouterConnection | None) -> None:
        """Examine all held links again, or those of one connection; with many of them, all in portions."""
        if len(self.braked) > MANY_HELD:
            self.resuming.begin()
            return
        for lk in list(self.braked):
            if conn is None or lk.connection is conn:
                self.resume(lk)

    def _resume_next(self, lk: RouterLink) -> int:
        """A budget had room again: examine one of many links that were held then."""
        if lk in self.braked:
            self.resume(lk)
        return RESUME_COST

    def resume(self, lk: RouterLink) -> None:
        """Release the session of a held link if there is room for more."""
        conn: RouterConnection = lk.connection
        if lk.kept * 2 > self.small and (lk.full or conn.full or self.full):
            return
        self.braked.pop(lk, None)
        lk.braked = False
        lk.session.release(lk)

    def release(self, lk: RouterLink) -> None:
        """Another reason to hold the link has ended."""
        if not lk.braked and lk.holding is not None:
            lk.session.release(lk)

    def forget(self, lk: RouterLink) -> None:
        """The link has ended. Its bytes stay counted while they wait."""
        self.braked.pop(lk, None)
        lk.braked = False
