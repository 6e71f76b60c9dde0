"""The links between routers for the messages of one sender: opened, found, and ended when nobody needs them.

A link belongs to a sender link and an address. A client has `OF_CLIENT` of them. Further long messages of all its
senders share one more link to each router, and delay each other there. While it exists, the client gets no further
links of its own: so no message leaves it for another one, and overtakes those before. Decision 0060.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.errors import AmqpError
from waymesh_router.core.attaching import stream_attach
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.core.portions import Rounds

if cython.compiled:
    from cython.cimports.waymesh_router.core.link_kinds import DATA, PRIORITIES
else:
    from waymesh_router.core.link_kinds import DATA, PRIORITIES

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_amqp.session import Session
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.links.registry import LinkRegistry

    User = tuple[RouterConnection, RouterLink | None, Any]

IDLE_S = 10.0
"""A link ends when it was not used for this time."""
OF_CLIENT = 64
"""Maximum number of links for the senders of one client, without those that all of them share."""


class StreamLinks:
    """All of these links."""

    def __init__(self, context: CoreContext, links: LinkRegistry) -> None:
        self.context = context
        self.links = links
        # of each link: the connection of its sender, the sender (None: all of the connection), and the key in
        # `RouterLink.stream_links`, or in `RouterConnection.shared_streams`
        self.users: dict[RouterLink, User] = {}
        self.idle: dict[RouterLink, tuple[float, int]] = {}  # since when links are idle, and their delivery-count then
        self.now = 0.0
        self.unneeded = Rounds(context.portions, "links for long messages", self.users, self.end_unneeded)

    def find(self, lk: RouterLink, conn: RouterConnection, address: Address) -> RouterLink | None:
        """The link for the messages of `lk` to an address, through a neighbour."""
        link: RouterLink | None = None
        if lk.stream_links is not None:
            link = lk.stream_links.get((conn, address))
        if link is None and lk.connection.shared_streams is not None:
            link = lk.connection.shared_streams.get(conn)
        return link

    def open(self, lk: RouterLink, conn: RouterConnection, address: Address) -> RouterLink | None:
        """Open a link for the messages of `lk` to an address, or, if its client has many, for all its further senders.

        None if the peer has no room for it.
        """
        if conn.role == "inter-router" and len(conn.data_out) < PRIORITIES:
            return None  # an old version, or its links are not attached yet: further ones would be taken for these
        link: RouterLink | None = self.attach(conn)
        if link is None:
            return None
        link.kind = DATA
        link.streaming = True
        link.strip = False
        owner: RouterConnection = lk.connection
        if owner.stream_count < OF_CLIENT or owner.is_router():  # a router limits what each of its clients uses
            owner.stream_count += 1
            if lk.stream_links is None:
                lk.stream_links = {}
            lk.stream_links[(conn, address)] = link
            self.users[link] = (owner, lk, (conn, address))
        else:
            if owner.shared_streams is None:
                owner.shared_streams = {}
            owner.shared_streams[conn] = link
            self.users[link] = (owner, None, conn)
        return link

    def attach(self, conn: RouterConnection) -> RouterLink | None:
        """Attach a link in a session of its own. None if the peer accepts no more sessions, or no more links."""
        try:
            session: Session = conn.open_session()
        except AmqpError:
            return None
        try:
            interior: cython.bint = conn.role == "inter-router"
            link: RouterLink = self.links.open_link(
                session, stream_attach(self.context.router_id, self.context.rng, interior)
            )
        except AmqpError:
            session.end()
            return None
        return link

    def answered(self, link: RouterLink, answer: Attach) -> None:
        """The peer has answered the attach of such a link: without a target, it refuses it and takes no others."""
        if answer.target is None:
            link.connection.streams = False

    def lost(self, link: RouterLink) -> None:
        """A link has ended."""
        user = self.users.pop(link, None)
        self.idle.pop(link, None)
        if user is None:
            return
        owner: RouterConnection = user[0]
        lk: RouterLink | None = user[1]
        if lk is None:
            del owner.shared_streams[user[2]]  # type: ignore[union-attr]
        else:
            owner.stream_count -= 1
            del lk.stream_links[user[2]]  # type: ignore[union-attr]
            lk.streamed = self.has_streams(lk)

    def has_streams(self, lk: RouterLink) -> cython.bint:
        """Whether messages from a link may go on links of its sender, or of its client."""
        return lk.streaming or bool(lk.stream_links) or bool(lk.connection.shared_streams)

    def tick(self, now: cython.double) -> None:
        """End the links that are not needed. Must be called several times a second."""
        self.now = now
        self.unneeded.begin()

    def end_unneeded(self, link: RouterLink) -> cython.long:
        """End a link that is not needed. Returns the cost, see core/portions.py."""
        if link not in self.users:
            return 1
        owner, sender, _ = self.users[link]
        lk: RouterLink | None = sender
        over: cython.bint = owner.over if lk is None else lk.over
        since, count = self.idle.get(link, (self.now, -1))
        if link.busy or link.queue is not None or link.unsettled or not link.usable():
            self.idle.pop(link, None)
        elif link.delivery_count != count:  # used since the last look
            self.idle[link] = (self.now, link.delivery_count)
        elif over or self.now - since >= IDLE_S:
            link.session.end()
            return 20
        return 2
