"""Ends of routed links: their deliveries first, in portions if there are many, then the link of the other side.

A detach that came before the outcomes of its deliveries would end them without these.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.performatives import ErrorInfo
from waymesh_amqp.states import ATTACH_RCVD, DETACH_RCVD, MAPPED
from waymesh_router.core.links.mesh_links import to_router

if TYPE_CHECKING:
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.model import RouterConnection, RouterLink
    from waymesh_router.core.settlement.interruptions import Interruptions

LINK_LOST = "qd:routed-link-lost"
LINK_LOST_TEXT = "Connectivity to the peer container was lost"
ANSWER_S = 5.0
"""Maximum delay of the answer to a client's detach while the container answers. The delay ensures that
the container knows of the detach before the client's next attach, perhaps through another router."""


class RoutedEndings:
    """Detaches the partners of routed links that have ended."""

    def __init__(self, context: CoreContext, interruptions: Interruptions) -> None:
        self._context = context
        self._interruptions = interruptions
        # Links whose deliveries still end: the error for the partner, and whether to close it
        self._under_way: dict[RouterLink, tuple[ErrorInfo | None, bool]] = {}
        self._postponed_answers: deque[tuple[float, RouterLink]] = deque()  # deadlines, and detached links to answer
        interruptions.routed_link_ended = self._finish

    def begin(self, lk: RouterLink, error: ErrorInfo | None) -> None:
        """One of two partners has ended: end its deliveries, then detach the other with the same error."""
        other = lk.partner
        self._interruptions.routed_link_lost(lk)
        if other is None:
            return
        if other.over:  # it has ended before: both are gone
            self._interruptions.part(lk)
            self._under_way.pop(other, None)
            other.answer_now()
            return
        self._under_way[lk] = _how(lk, other, error)
        if not self._interruptions.ends_later(lk):
            self._detach_partner(lk)
        elif other.route is not None and lk.state == DETACH_RCVD:
            lk.answer_postponed = True

    def _finish(self, lk: RouterLink) -> None:
        """The last delivery of a link that has ended has ended, too."""
        if lk in self._under_way and not self._detach_partner(lk):
            lk.answer_now()

    def _detach_partner(self, lk: RouterLink) -> bool:
        """Detach the partner of a link. Returns whether the answer to the peer's detach of the link waits for it."""
        error, closed = self._under_way.pop(lk)
        other: RouterLink = lk.partner  # type: ignore[assignment]  # otherwise it is not under way
        self._interruptions.part(lk)
        if other.state == ATTACH_RCVD:
            other.send_attach(other.bare_answer())
            closed = True
        other.detach_with(error, closed)
        if other.route is None or not lk.answer_after(other):
            return False
        self._postponed_answers.append((self._context.now + ANSWER_S, lk))
        return True

    def tick(self) -> None:
        """Answer overdue detaches; call it several times a second."""
        now, waiting = self._context.now, self._postponed_answers
        while waiting and (waiting[0][0] <= now or not waiting[0][1].answer_postponed):
            waiting.popleft()[1].answer_now()


def _how(lk: RouterLink, other: RouterLink, error: ErrorInfo | None) -> tuple[ErrorInfo | None, bool]:
    """The error with which to detach the partner of a link that has ended, and whether to close it."""
    closed = lk.closed
    if lk.connection.over or lk.session.state != MAPPED:
        closed = other.route is None  # state in the container outlives the client's connection
        if not closed:
            error = None
        elif error is None or lk.connection.over:
            error = _lost_with(lk.connection, error)
    return error, closed


def _lost_with(conn: RouterConnection, reason: ErrorInfo | None) -> ErrorInfo:
    """The error for a client after the container's connection ended; includes the container's error.

    The condition stays qd:routed-link-lost, which tells clients that they may attach the link again; `info` has the
    original condition. Errors of connections between routers are not passed to clients.
    """
    if to_router(conn) or reason is None or not reason.condition:
        return ErrorInfo(LINK_LOST, LINK_LOST_TEXT)
    info = {Symbol("condition"): Symbol(reason.condition), Symbol("description"): reason.description}
    return ErrorInfo(LINK_LOST, f"{LINK_LOST_TEXT}: {reason.description or reason.condition}", info)
