"""Attaches of clients and of this router that wait until a peer has told how many links its sessions take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_router.core.attaching import Refusal

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.model import RouterConnection, RouterLink
    from waymesh_router.core.portions import Portions

IN_VAIN = 8
"""After so many in a row that must still wait, the others are not tried either."""
TRY_COST = 10
"""Of one attach that is tried again, see `Portions`."""

Again = Callable[[], object]
Held = tuple["RouterLink | None", Again]


class _Round:
    """Attaches held on a connection that are tried again, and how many in a row must still wait."""

    def __init__(self, left: deque[Held]) -> None:
        self.left = left
        self.in_vain = 0


class HeldAttaches:
    """Held attaches by the connection whose answers they wait for, oldest first. They are tried again in portions.

    `refuse` refuses one of a client.
    """

    def __init__(self, portions: Portions, refuse: Callable[[RouterLink, Refusal], object]) -> None:
        self.refuse = refuse
        self._portions = portions
        self._held: dict[RouterConnection, deque[Held]] = {}
        self._rounds: dict[RouterConnection, _Round] = {}

    def __str__(self) -> str:
        return "held attaches"

    def add(self, conn: RouterConnection, lk: RouterLink | None, again: Again) -> None:
        """Hold the attach of `lk`; `again` forwards it, and raises Refusal. With None, `again` attaches a link of this
        router if that is still needed, and raises nothing."""
        self._held.setdefault(conn, deque()).append((lk, again))

    def session_begun(self, session: Session) -> None:
        """A peer has begun a session or answered our begin, and so told its handle-max."""
        conn: RouterConnection = session.connection  # type: ignore[assignment]
        conn.handle_max = session.remote_handle_max
        self._begin(conn)

    def tick(self) -> None:
        """Try again; call it several times a second: a session or the connection may have ended."""
        for conn in list(self._held):
            self._begin(conn)

    def _begin(self, conn: RouterConnection) -> None:
        """Try those that are held now. If some of them are being tried, these go on."""
        under_way = self._rounds.get(conn)
        if under_way is not None:
            under_way.in_vain = 0
        elif conn in self._held:
            self._rounds[conn] = _Round(self._held.pop(conn))
            self._portions.begin(self)

    def step(self) -> int:
        """Try one of them."""
        if not self._rounds:
            return 0
        conn, under_way = next(iter(self._rounds.items()))
        if under_way.left and under_way.in_vain < IN_VAIN:
            before = len(self._held.get(conn, ()))
            self._try(*under_way.left.popleft())
            held = len(self._held.get(conn, ())) > before
            under_way.in_vain = under_way.in_vain + 1 if held else 0
        else:
            del self._rounds[conn]
            if under_way.left:
                self._held.setdefault(conn, deque()).extend(under_way.left)
        return TRY_COST

    def _try(self, lk: RouterLink | None, again: Again) -> None:
        if lk is not None and not lk.unanswered():
            return
        try:
            again()
        except Refusal as refusal:
            if lk is not None:
                self.refuse(lk, refusal)
