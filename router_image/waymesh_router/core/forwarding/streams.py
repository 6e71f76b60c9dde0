"""Links of their own, between routers, for the messages of a sender that are long or arrive slowly.

Most messages to another router share a few links: a message that is not complete, or that the other router cannot take
completely, would delay all others there. On connections whose peer offers `qd.streaming-links`, such a message goes on
a link that only its sender uses, with a session of its own. Later messages of that sender to the same address follow on
this link, so that none overtakes another. The link ends when it was idle for a while, or its sender has ended.

A message waits for the link as a copy of a multicast does, within the budgets of its sender. Source: protocol/edge.md
"Streaming".
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.errors import AmqpError
from waymesh_router.core.addresses.keys import RELAYED
from waymesh_router.core.attaching import stream_attach, takes_streams
from waymesh_router.core.model import Address, Branch, Queued, RouterConnection, RouterLink

if cython.compiled:
    from cython.cimports.waymesh_router.core.link_kinds import DATA, LONG_BYTES, PRIORITIES
else:
    from waymesh_router.core.link_kinds import DATA, LONG_BYTES, PRIORITIES

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Open
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.choice import ConsumerChoice
    from waymesh_router.core.forwarding.sending import QueuedSender
    from waymesh_router.core.links.registry import LinkRegistry

IDLE_S = 10.0
"""A link ends when it was not used for this time."""


class Streams:
    """Opens and ends the links, and sends waiting deliveries on them."""

    def __init__(self, context: CoreContext, links: LinkRegistry, sender: QueuedSender) -> None:
        self.context = context
        self.links = links
        self.sender = sender
        self.choice: ConsumerChoice = sender.choice
        self.users: dict[RouterLink, Any] = {}  # of each link: its sender, and the key in `RouterLink.stream_links`
        self.idle: dict[RouterLink, tuple[float, int]] = {}  # since when links are idle, and their delivery-count then

    def opened(self, conn: RouterConnection, performative: Open) -> None:
        """A peer's open has arrived: use such links if it is a router that takes them."""
        between_routers = conn.role == "inter-router" or conn.uplink or conn.edge_router is not None
        conn.streams = between_routers and self.context.streaming and takes_streams(performative)

    def send(self, q: Queued, out: RouterLink) -> None:
        """Send a delivery that has waited to the consumer or router of a ready link."""
        link: RouterLink = self.instead(q, out)
        if link is out or (link.queue is None and link.ready()):
            self.sender.send(q, link, None)
            return
        q.alone = True
        q.target = self.choice.picked
        q.to_routers = 1
        q.expires = 0.0
        branch = Branch(q, link)
        q.branches = [branch]
        if link.queue is None:
            link.queue = deque()
        link.queue.append(branch)

    def instead(self, q: Queued, out: RouterLink) -> RouterLink:
        """The link for a delivery to the router of `out`: that of its sender, if it needs or has one, else `out`."""
        lk: RouterLink | None = q.link
        conn: RouterConnection = out.connection
        if not conn.streams or lk is None or out.streaming or q.address.key.startswith(RELAYED):
            return out
        needed: cython.bint = not q.complete or q.size > LONG_BYTES or lk.streaming
        if not (needed or lk.streamed):
            return out
        key = (conn, q.address)
        link: RouterLink | None = None
        if lk.stream_links is not None:
            link = lk.stream_links.get(key)
        if link is None and needed and not conn.over:
            link = self.open(lk, conn, q.address)
        return out if link is None else link

    def open(self, lk: RouterLink, conn: RouterConnection, address: Address) -> RouterLink | None:
        """Open a link for the messages of `lk` to an address. None if the peer has no room for it."""
        if conn.role == "inter-router" and len(conn.data_out) < PRIORITIES:
            return None  # an old version, or its links are not attached yet: further ones would be taken for these
        try:
            interior: cython.bint = conn.role == "inter-router"
            attach = stream_attach(self.context.router_id, self.context.rng, interior)
            link: RouterLink = self.links.open_link(conn.open_session(), attach)
        except AmqpError:
            return None
        link.kind = DATA
        link.streaming = True
        link.strip = False
        key = (conn, address)
        if lk.stream_links is None:
            lk.stream_links = {}
        lk.stream_links[key] = link
        lk.streamed = True
        self.users[link] = (lk, key)
        return link

    def lost(self, link: RouterLink) -> list[Any]:
        """A link has ended. Returns the deliveries that wait for it and may go elsewhere."""
        conn: RouterConnection = link.connection
        user = self.users.pop(link, None)
        self.idle.pop(link, None)
        if user is not None:
            lk: RouterLink = user[0]
            del lk.stream_links[user[1]]  # type: ignore[union-attr]
            lk.streamed = lk.streaming or len(lk.stream_links) > 0  # type: ignore[arg-type]
        if link.credit == 0 and link.delivery_count == 0 and not conn.over:
            conn.streams = False  # refused
        return self.take_back(link, None, 0)

    def take_back(self, link: RouterLink, connection: RouterConnection | None, until: cython.longlong) -> list[Any]:
        """Remove deliveries that wait for a link alone: all, or those of a connection, see `Queued.came_from`."""
        q: Queued
        back: list[Any] = []
        stay: deque[Any] = deque()
        for branch in link.queue or ():
            q = branch.queued
            if q.alone and (until == 0 or q.came_from(connection, until)):
                q.alone = False
                q.branches = None
                q.to_routers = 0
                back.append(q)
            else:
                stay.append(branch)
        link.queue = stay if stay else None
        return back

    def tick(self, now: cython.double) -> None:
        """End the links that are not needed. Must be called several times a second."""
        link: RouterLink
        lk: RouterLink
        for e in list(self.users):
            link = e
            lk = self.users[link][0]
            since, count = self.idle.get(link, (now, -1))
            if link.busy or link.queue is not None or link.unsettled or not link.attached:
                self.idle.pop(link, None)
            elif link.delivery_count != count:  # used since the last look
                self.idle[link] = (now, link.delivery_count)
            elif lk.over or now - since >= IDLE_S:
                link.session.end()
