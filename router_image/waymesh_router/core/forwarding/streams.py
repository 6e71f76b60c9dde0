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
from typing import TYPE_CHECKING

import cython

from waymesh_router.core.addresses.keys import RELAYED
from waymesh_router.core.attaching import takes_streams
from waymesh_router.core.forwarding.groups import add_slot
from waymesh_router.core.forwarding.lost_links import LostLinks
from waymesh_router.core.forwarding.stream_links import StreamLinks
from waymesh_router.core.model import Branch, Queued, RouterConnection, RouterLink

if cython.compiled:
    from cython.cimports.waymesh_router.core.link_kinds import DATA, LONG_BYTES
else:
    from waymesh_router.core.link_kinds import DATA, LONG_BYTES

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Open
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.choice import ConsumerChoice
    from waymesh_router.core.forwarding.sending import QueuedSender


class Streams:
    """Chooses such links, and sends waiting deliveries on them."""

    def __init__(self, context: CoreContext, links: StreamLinks, sender: QueuedSender) -> None:
        self.context = context
        self.links = links
        self.sender = sender
        self.choice: ConsumerChoice = sender.choice
        self.lost_links = LostLinks(context.portions)
        self.behind = 0  # deliveries that wait behind those of lost links, since the last portion of these

    def opened(self, conn: RouterConnection, performative: Open) -> None:
        """A peer's open has arrived: use such links if it is a router that takes them."""
        conn.streams = conn.is_router() and self.context.streaming and takes_streams(performative)

    def send(self, q: Queued, out: RouterLink) -> None:
        """Send a delivery that has waited to the consumer or router of a ready link."""
        link: RouterLink = self.instead(q, out)
        if link is out or (link.queue is None and link.ready()):
            self.sender.send(q, link, None)
        else:
            self.wait_for(q, link)

    def wait_for(self, q: Queued, link: RouterLink) -> None:
        """A delivery waits for one link, and goes elsewhere if that ends. `RouterLink.awaited`: those of message groups
        that do, or did since the queue was last empty: by address, slots as bits."""
        q.alone = True
        if link.awaited is None or (link.queue is None and not link.over):
            link.awaited = {}
        if q.slot and link.kind == DATA:
            add_slot(link.awaited, q.address, q.slot)
        if link.kind == DATA:
            q.to_routers = 1
            q.expires = 0.0
        q.target = self.choice.picked
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
        link: RouterLink | None = self.links.find(lk, conn, q.address)
        if link is None and needed and not conn.over:
            link = self.links.open(lk, conn, q.address)
        lk.streamed = self.links.has_streams(lk)
        return out if link is None else link

    def take_behind(self) -> cython.Py_ssize_t:
        """How many deliveries have begun to wait behind those of lost links since the last call."""
        count: cython.Py_ssize_t = self.behind
        self.behind = 0
        return count
