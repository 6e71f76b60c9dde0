"""Empties a client's connection, so that it can be closed while no delivery is in progress.

1. The router withdraws the credit of the client's senders, and delays the outcomes of their deliveries: a client that
   sends as long as few of its messages are unsettled then stops. The outcomes are written before the connection closes.
2. When no delivery is in progress on the senders, or after SENDERS_S, the receivers get no new deliveries: other
   consumers get them, or they wait at their address. The receivers settle what they have received.
3. A client may need the outcome of a message that it has sent before it settles one that it has received: if there is
   no progress, the delayed outcomes are written.

Receivers of multicast addresses and of replies are not paused, and connections with routed links are only closed if
they become empty by themselves. Source: docs/balance.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from waymesh_router.clients.drain import CREDIT_S, grant_again
from waymesh_router.core.addresses.keys import MOBILE
from waymesh_router.core.hang_up import hang_up
from waymesh_router.core.link_kinds import ENDPOINT, MULTICAST, ROUTED
from waymesh_router.core.model import RouterConnection, RouterLink
from waymesh_router.core.unsettled import at_rest, client_senders, no_delivery_in_progress

SENDERS_S = 1.0
"""Receivers are paused after this time, even if deliveries are in progress on the senders."""
REPLIES_S = 1.0
"""After this time without progress, the delayed outcomes are written if no delivery is in progress on the senders."""
TIME_LIMIT_S = 10.0
"""A connection that is not empty after this time stays open."""
PROGRESS_S = 3.0
"""A connection on which nothing is settled for this time also stays open: messages wait because its receivers are
paused."""


class Emptying:
    """The attempt to empty one connection. Ends with `close` or, if the connection stays open, with `end`."""

    def __init__(self, conn: RouterConnection, now: float) -> None:
        self.conn = conn
        self._since = now
        self._paused_at = math.inf
        self._lowest_unsettled = self._unsettled()
        self._progress_at = now
        self._routed = any(link.kind == ROUTED for link in self._links())
        if not self._routed:
            for session in conn.sessions.values():
                session.keeps_outcomes = True

    def at_rest(self, now: float) -> bool:
        """Take the next step; returns whether the connection can be closed. Must be called several times a second."""
        senders = self._senders()
        for link in senders:
            if link.accepting:  # the first time, or because another consumer has attached
                link.withdraw()
        if now - self._since < CREDIT_S and any(link.credit > 0 for link in senders):
            return False
        if at_rest(self.conn):
            return True
        unsettled = self._unsettled()
        if unsettled < self._lowest_unsettled:
            self._lowest_unsettled, self._progress_at = unsettled, now
        if not self._routed:
            self._pause_and_release(now, all(no_delivery_in_progress(link) for link in senders))
        return False

    def is_overdue(self, now: float) -> bool:
        """Whether the time limit of the attempt is exceeded, or that for progress."""
        return now - self._since >= TIME_LIMIT_S or now - max(self._progress_at, self._paused_at) >= PROGRESS_S

    def _pause_and_release(self, now: float, senders_rest: bool) -> None:
        """Pause the receivers when step 2 begins, then write the delayed outcomes if there is no progress."""
        if self._paused_at == math.inf:
            if not senders_rest and now - self._since < SENDERS_S:
                return
            self._paused_at = now
        for link in self._receivers():
            if not link.paused:
                link.pause()
        if senders_rest and now - max(self._progress_at, self._paused_at) >= REPLIES_S:
            self._send_outcomes()

    def close(self, reason: str) -> None:
        """Write the delayed outcomes and close the connection. `at_rest` must have returned True."""
        self._send_outcomes()
        hang_up(self.conn, reason)

    def end(self, grant: bool) -> None:
        """Return the connection to normal service. `grant`: also grant its senders credit again."""
        self._send_outcomes()
        for link in self._links():  # not `_receivers`: an address may be multicast by now
            if link.paused:
                link.resume()
        for link in self._senders() if grant else ():
            grant_again(link)

    def _unsettled(self) -> int:
        return sum(link.unsettled for link in self._links())

    def _send_outcomes(self) -> None:
        for session in self.conn.sessions.values():
            session.send_outcomes()

    def _links(self) -> Iterable[RouterLink]:
        links = (link for session in self.conn.sessions.values() for link in list(session.links))
        return (link for link in links if link is not None and link.usable())  # type: ignore[misc]

    def _senders(self) -> list[RouterLink]:
        return client_senders(self._links())

    def _receivers(self) -> list[RouterLink]:
        """Receivers whose messages can wait or go to other consumers."""
        return [link for link in self._links() if link.is_sender and link.kind == ENDPOINT and _can_wait(link)]


def _can_wait(link: RouterLink) -> bool:
    address = link.address
    return address is not None and address.key.startswith(MOBILE) and address.treatment > MULTICAST
