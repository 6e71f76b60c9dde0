"""How many bytes of deliveries may wait in the router: a budget for each link, each connection and all of them.

Who goes beyond one has the incoming window of its session closed until half of it is free again; nothing is dropped.
From half of a budget on windows are narrow, so that little more than the budget can be on its way when they close.
A session that is held still gets a few frames at a time as long as one of its deliveries is partly with a consumer,
who can take nothing else before its end: see `Session.admit_few` and `Settlement.on_held_window`.

Links of other routers are counted and never held: two routers that wait for each other would wait for ever. Their
credit bounds what they bring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from waymesh_router.core.model import Queued, RouterConnection, RouterLink

SMALL_BYTES = cython.declare(cython.longlong, 65536)
NARROW_FRAMES = cython.declare(cython.uint, 32)
UNLIMITED = 1 << 62


class Budget:
    """`kept`: bytes that wait now; `per_router`, `per_connection`, `per_link`: so many may. `full`: more than
    `per_router` wait, and it is not yet down to half of it. `small`: what a link may have here even when others have
    used up what they share with it. `braked`: links whose sessions are held.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.full = False
        self.per_router = UNLIMITED
        self.per_connection = UNLIMITED
        self.per_link = UNLIMITED
        self.small = SMALL_BYTES
        self.braked: dict[RouterLink, None] = {}

    def set_limits(self, router: cython.longlong, connection: cython.longlong, link: cython.longlong) -> None:
        """In bytes. What is held now stays so until there is room by the new limits."""
        self.per_router = router
        self.per_connection = connection
        self.per_link = link
        self.small = min(SMALL_BYTES, link // 2)

    def take(self, q: Queued, size: cython.Py_ssize_t) -> None:
        """So many more bytes of a delivery wait."""
        lk: RouterLink | None = q.link
        if lk is None:
            return
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        q.kept += size
        lk.kept += size
        conn.kept += size
        self.kept += size
        if self.kept > self.per_router:
            self.full = True
        if conn.kept > self.per_connection:
            conn.full = True
        if lk.kept > self.per_link:
            lk.full = True
        if lk.kept <= self.small or conn.role == "inter-router":
            return
        if lk.full or conn.full or self.full:
            self.brake(lk)
        elif (
            lk.kept * 2 > self.per_link
            or conn.kept * 2 > self.per_connection
            or self.kept * 2 > self.per_router
        ):
            self.narrow(lk)

    def narrow(self, lk: RouterLink) -> None:
        if lk.session.window > NARROW_FRAMES:
            lk.session.window = NARROW_FRAMES

    def brake(self, lk: RouterLink) -> None:
        """Hold the session of a link."""
        self.narrow(lk)
        lk.braked = True
        self.braked[lk] = None
        lk.session.hold(lk)

    def give(self, q: Queued) -> None:
        """All of a delivery has left. Looks at other links only when a budget that was used up is half free again."""
        size: cython.longlong = q.kept
        if size == 0:
            return
        lk: RouterLink = q.link  # type: ignore[assignment]
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        q.kept = 0
        lk.kept -= size
        conn.kept -= size
        self.kept -= size
        if lk.full and lk.kept * 2 <= self.per_link:
            lk.full = False
        if lk.kept <= self.small:
            lk.session.window = conn.settings.window
        if self.full and self.kept * 2 <= self.per_router:
            self.full = False
            self.ease_all(None)
        if conn.full and conn.kept * 2 <= self.per_connection:
            conn.full = False
            self.ease_all(conn)
        if lk.braked:
            self.ease(lk)

    def ease_all(self, conn: RouterConnection | None) -> None:
        """Look again at all links that are held, or at those of a connection."""
        for lk in list(self.braked):
            if conn is None or lk.connection is conn:
                self.ease(lk)

    def ease(self, lk: RouterLink) -> None:
        """Let a link that is held bring more again, if there is room for it."""
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        if lk.kept * 2 > self.small and (lk.full or conn.full or self.full):
            return
        self.braked.pop(lk, None)
        lk.braked = False
        lk.session.release(lk)

    def release(self, lk: RouterLink) -> None:
        """Another reason to hold the link is gone."""
        if not lk.braked:
            lk.session.release(lk)

    def forget(self, lk: RouterLink) -> None:
        """The link is gone. What it brought stays counted as long as it is here."""
        self.braked.pop(lk, None)
        lk.braked = False
