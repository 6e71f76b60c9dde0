"""Attaches of clients and of this router that wait until a peer has told how many links its sessions take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_router.core.attaching import Refusal

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.model import RouterConnection, RouterLink

AT_ONCE = 64
"""Held attaches that are tried in one turn."""
IN_VAIN = 8
"""After so many in a row that must still wait, the others are not tried either."""

Again = Callable[[], object]


class HeldAttaches:
    """Held attaches by the connection whose answers they wait for, oldest first. `refuse` refuses one of a client."""

    def __init__(self, refuse: Callable[[RouterLink, Refusal], object]) -> None:
        self.refuse = refuse
        self._held: dict[RouterConnection, deque[tuple[RouterLink | None, Again]]] = {}

    def add(self, conn: RouterConnection, lk: RouterLink | None, again: Again) -> None:
        """Hold the attach of `lk`; `again` forwards it, and raises Refusal. With None, `again` attaches a link of this
        router if that is still needed, and raises nothing."""
        self._held.setdefault(conn, deque()).append((lk, again))

    def session_begun(self, session: Session) -> None:
        """A peer has begun a session or answered our begin, and so told its handle-max."""
        conn: RouterConnection = session.connection  # type: ignore[assignment]
        conn.handle_max = session.remote_handle_max
        if conn in self._held:
            self._forward(conn)

    def tick(self) -> None:
        """Try again; call it several times a second: a session or the connection may have ended."""
        for conn in list(self._held):
            self._forward(conn)

    def _forward(self, conn: RouterConnection) -> None:
        waiting = self._held.pop(conn)
        in_vain = 0
        for _ in range(min(len(waiting), AT_ONCE)):
            lk, again = waiting.popleft()
            if lk is not None and not lk.unanswered():
                continue
            before = len(self._held.get(conn, ()))
            try:
                again()
            except Refusal as refusal:
                if lk is not None:
                    self.refuse(lk, refusal)
            in_vain = in_vain + 1 if len(self._held.get(conn, ())) > before else 0
            if in_vain == IN_VAIN:
                break
        if waiting:
            self._held.setdefault(conn, deque()).extend(waiting)
