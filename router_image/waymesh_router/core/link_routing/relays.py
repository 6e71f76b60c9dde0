"""Messages of anonymous senders to link-routed addresses: the router attaches its own link for each address.

The address is in each message of an anonymous sender, so there is no attach to forward. Routing chapter "Configuring
Link Routing" and the ANONYMOUS-RELAY capability.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from waymesh_amqp.codec_encode import encode
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.outcomes import rejected
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_router.core.addresses.keys import RELAYED, bare_address
from waymesh_router.core.containers.autolink import OUTCOMES
from waymesh_router.core.link_kinds import CLOSEST
from waymesh_router.core.link_routing import rewriting
from waymesh_router.core.link_routing.sessions import SessionPending
from waymesh_router.core.model import Address
from waymesh_router.events.line_limit import WINDOW_S, LineLimit

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.pending import PendingDeliveries
    from waymesh_router.core.link_routing.attach import RoutedAttaches
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection, RouterLink

IDLE_S = 60.0
"""Time after which a link is detached that carries no messages, or that the container has not accepted."""
REFUSALS_TOLD = 5
"""Maximum number of logged refusals per container and window: each message of a sender can cause one."""


@dataclass(slots=True)
class Relay:
    """A link to a container, its address, and its number of messages at the last check.

    `client`: id of the connection whose message opened it.
    """

    link: RouterLink
    address: Address
    client: int
    seen: int
    since: float


class Relays:
    """The router's links for messages of anonymous senders, by link id."""

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        pending: PendingDeliveries,
        links: LinkRegistry,
        containers: Containers,
        attaches: RoutedAttaches,
    ) -> None:
        self._context = context
        self._addresses = addresses
        self._pending = pending
        self._links = links
        self._containers = containers
        self._attaches = attaches
        self.over_link_limit = Address("", CLOSEST)  # result of `address`: the client may not have a further link
        self._relays: dict[int, Relay] = {}
        self._opened: Counter[int] = Counter()  # number of links, by id of the client's connection
        self._refusals = LineLimit(REFUSALS_TOLD)

    def address(self, lk: RouterLink, text: str) -> Address | None:
        """The local address for messages to a link-routed address, created on first use; None without a link route.

        Deliveries wait there until the container has answered. A link counts toward maxLinks of the connection that
        opens it; beyond that, the result is `over_link_limit`.
        """
        text = bare_address(text)
        known = self._addresses.by_key.get(RELAYED + text)
        if known is not None and self._attaches.known_to(lk, text):
            return known
        conn: RouterConnection = lk.connection
        terms = Attach(
            name=f"{self._context.router_id}.relay.{self._links.next_id}",
            handle=0,
            role=False,
            snd_settle_mode=2,
            rcv_settle_mode=0,
            source=Terminus("source", outcomes=OUTCOMES),
            target=Terminus("target", address=text),
        )
        if conn.links + self._opened[conn.id] >= conn.settings.max_links:
            return self.over_link_limit if any(self._attaches.candidates(lk, terms)) else None
        try:
            link = self._open(lk, terms)
        except SessionPending as pending:
            address = self._addresses.get(RELAYED + text)
            self._containers.held.add(pending.connection, None, partial(self._open_held, lk, terms, address))
            return address
        if link is None:
            return None
        address = self._addresses.get(RELAYED + text)
        self._add(link, address, conn)
        return address

    def _add(self, link: RouterLink, address: Address, conn: RouterConnection) -> None:
        self._relays[link.id] = Relay(link, address, conn.id, 0, self._context.now)
        self._opened[conn.id] += 1

    def _open_held(self, lk: RouterLink, terms: Attach, address: Address) -> None:
        """Go on with an attach that waited until a container has told its limits: messages wait for it."""
        if self._addresses.by_key.get(address.key) is not address:
            return
        try:
            link = self._open(lk, terms)
        except SessionPending as pending:
            self._containers.held.add(pending.connection, None, partial(self._open_held, lk, terms, address))
            return
        if link is None:
            self._pending.release_all(address)
            self._addresses.refresh(address)
        else:
            self._add(link, address, lk.connection)

    def _open(self, lk: RouterLink, attach: Attach) -> RouterLink | None:
        """Attach a link of the router itself; None if no link route matches, or no candidate accepts the link. Raises
        SessionPending."""
        for candidate in self._attaches.candidates(lk, attach):
            try:
                session = self._containers.session(candidate.conn, False)
                terms = rewriting.upstream_attach(attach, attach.name, candidate.entity, None)
                return self._links.open_link(session, terms)
            except AmqpError as e:
                self._tell_refusal(candidate.conn, f"{rewriting.route_address(attach)}: {e.description}")
        return None

    def _tell_refusal(self, conn: RouterConnection, text: str) -> None:
        if self._refusals.admits(_container(conn), self._context.now):
            self._context.log("ROUTER_CORE", "warning", f"link for anonymous senders to {text}")

    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The container answered. After an attach without a target, a detach with the error follows."""
        relay = self._relays.get(link.id)
        if relay is None or answer.target is None:
            return
        link.address = relay.address
        link.strip = link.connection.strip_out
        relay.address.consumers.append(link)
        self._addresses.refresh(relay.address)

    def lost(self, link: RouterLink, error: ErrorInfo | None) -> None:
        """The link has ended: release its waiting deliveries, or reject them if the container sent an error."""
        relay = self._relays.pop(link.id, None)
        if relay is None:
            return
        self._opened[relay.client] -= 1
        if not self._opened[relay.client]:
            del self._opened[relay.client]
        if error is not None and not link.connection.over and relay.address.pending is not None:
            self._pending.refuse_all(relay.address, encode(rejected(error)))
        self._addresses.refresh(relay.address)

    def tick(self) -> None:
        """Detach links that are unused or were not accepted, and log the number of refusals that were not logged; call
        it regularly."""
        now = self._context.now
        for container, count in self._refusals.ended(now):
            text = f"{count} more links for anonymous senders were refused by {container} within {WINDOW_S:g} s"
            self._context.log("ROUTER_CORE", "warning", text)
        for relay in list(self._relays.values()):
            if relay.link.address is None:  # there is no answer, or no detach after one without a target
                if now - relay.since >= IDLE_S:
                    relay.link.detach()
            elif relay.address.ingress != relay.seen or relay.address.pending is not None or relay.link.unsettled:
                relay.seen, relay.since = relay.address.ingress, now
            elif now - relay.since >= IDLE_S:
                relay.link.detach()


def _container(conn: RouterConnection) -> str:
    """The container-id of the peer."""
    return "" if conn.remote is None else str(conn.remote.container_id)
