"""Sends waiting deliveries when an outgoing link gets credit, session window or buffer space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.expiry import Expiry
from waymesh_router.core.forwarding.gathering import Gathering
from waymesh_router.core.forwarding.multicast import Multicast
from waymesh_router.core.forwarding.pacing import Pacing
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.forwarding.spread import Spread
from waymesh_router.core.forwarding.writable_links import WritableLinks
from waymesh_router.core.link_routing.transfers import RoutedLinks
from waymesh_router.core.model import RouterConnection, RouterLink
from waymesh_router.core.portions import AT_ONCE, RoundsOfEach

if cython.compiled:
    from cython.cimports.waymesh_router.core.link_kinds import DATA
else:
    from waymesh_router.core.link_kinds import DATA

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.session import Session
    from waymesh_router.core.model import Address
    from waymesh_router.core.portions import Portions

MANY_LINKS = cython.declare(cython.Py_ssize_t, AT_ONCE)
"""Maximum number of links of a connection that are told together that its output has room."""
MANY_ADDRESSES = cython.declare(cython.Py_ssize_t, AT_ONCE)
"""Maximum number of addresses for which a neighbour's credit is used together."""
ADDRESS_COST = 3
"""Of looking at an address that waits for a neighbour."""


class CreditEvents:
    """Notifies everything that waits for a link: routed deliveries, copies of multicasts, pending deliveries."""

    def __init__(
        self,
        routed: RoutedLinks,
        multicast: Multicast,
        pending: PendingDeliveries,
        gathering: Gathering,
        portions: Portions,
        pacing: Pacing,
    ) -> None:
        self.writable = WritableLinks(portions, self.tell_some)
        self.routed = routed
        self.multicast = multicast
        self.pending = pending
        self.gathering = gathering
        self.pacing = pacing
        self.addresses: RoundsOfEach[RouterConnection, Address] = RoundsOfEach(
            portions, "addresses that wait for a neighbour", _waiting, self._serve_next
        )

    def on_credit(self, out: RouterLink) -> None:
        """An outgoing link may have become ready."""
        if out.partner is not None:
            self.routed.pass_credit(out)
            return
        if out.queue is not None:
            self.multicast.send_waiting(out)
        if out.kind == DATA and out.address is None:
            conn: RouterConnection = out.connection
            if len(conn.waiting) > MANY_ADDRESSES:
                self.addresses.begin(conn)
            elif conn.waiting:
                waiting = conn.waiting
                conn.waiting = {}
                for address in waiting:
                    self.serve(address)
        elif out.address is not None:
            if out.address.pending is not None:
                self.pending.drain_to(out.address, out)
            else:
                out.address.lone = None
                if out.address.paced is not None:
                    self.pacing.room_grew(out.address)
        if out.drain and not self.goes_on(out):
            out.finish_drain()

    def serve(self, address: Address) -> None:
        """What an address waits for may have changed: send what can be sent, and wait for the rest."""
        self.pending.drain_groups(address, False)
        if address.pending is not None:
            self.pending.await_credit(address)

    def _serve_next(self, conn: RouterConnection, left: list[Address]) -> int:
        """A neighbour has issued credit: one of many addresses that wait for it may use it."""
        address = left.pop()
        if address not in conn.waiting:  # another one was served, or the connection has ended
            return 1
        del conn.waiting[address]
        self.serve(address)
        return ADDRESS_COST

    def goes_on(self, out: RouterLink) -> cython.bint:
        """Whether deliveries wait that may be sent on the link in the next turn of the event loop."""
        expiry: Expiry = self.pending.expiry
        if out.address is not None and out.address in expiry.addresses:
            expiry.go_on_later(out)
        return out in expiry.links

    def send_freed(self) -> None:
        """Windows have room again: send what waits for them. Then containers get credit for what has left."""
        spread: Spread = self.pending.settlement.spread
        freed = spread.freed
        if freed:
            spread.freed = {}
            for address in freed:
                self.serve(address)
        self.pacing.run()

    def end_expired(self) -> cython.bint:
        """Go on where the last turn of the event loop had ended or sent as many waiting deliveries as it could. Returns
        whether some are left."""
        expiry: Expiry = self.pending.expiry
        expiry.next_turn()
        while expiry.addresses and expiry.left:
            address = next(iter(expiry.addresses))
            del expiry.addresses[address]
            self.pending.drain(address)
        while expiry.links and expiry.left:
            link: RouterLink = expiry.take_link()
            if not link.over:
                self.on_credit(link)
        return len(expiry.addresses) > 0 or len(expiry.links) > 0

    def tick_streams(self, now: cython.double) -> None:
        """Send on what arrives slowly, and end unneeded links for it. Must be called several times a second."""
        self.gathering.tick()
        self.pending.streams.links.tick(now)

    def on_writable(self, connection: Connection) -> None:
        """The output buffer of a connection has shrunk: all of its links may have become ready."""
        if connection.links > MANY_LINKS:
            self.writable.begin(connection)
            return
        for session in list(connection.sessions.values()):
            self.tell_some(session, 0, len(session.links))

    def tell_some(self, session: Session, first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> None:
        """The links with `count` handles from `first` on may have become ready."""
        for link in session.links[first : first + count]:
            if link is not None and link.is_sender and link.attached and link.credit > 0:
                self.on_credit(link)  # type: ignore[arg-type]


def _waiting(conn: RouterConnection) -> list[Address]:
    """The addresses that wait for credit of a neighbour."""
    return list(conn.waiting)
