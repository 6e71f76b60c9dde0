"""Counts deliveries in progress on request, so that the hot path need not count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waymesh_router.core.addresses.keys import MOBILE
from waymesh_router.core.link_kinds import DATA, ENDPOINT, ROUTED
from waymesh_router.core.model import RouterConnection, RouterLink

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.session import Session
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import Address

MUCH = 500
"""Above this number, deliveries are not counted for each request: it is a third of a millisecond of work."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Numbers of deliveries in progress."""

    clients: int  # of client and route-container links, without an outcome or a consumer
    transit: int  # between other routers, without an outcome

    def __bool__(self) -> bool:
        return bool(self.clients or self.transit)


def count_unsettled(
    connections: Iterable[RouterConnection], links: Iterable[RouterLink], addresses: Iterable[Address]
) -> Unsettled:
    """Count deliveries in progress. A delivery from one client to another at this router counts once."""
    clients = transit = 0
    for connection in connections:
        for session in connection.sessions.values():
            here, through = _of_session(session)
            clients += here
            transit += through
    clients += sum(presettled_on(link) for link in links if link.kind == ENDPOINT)
    clients += sum(presettled_at(address) for address in addresses)
    return Unsettled(clients, transit)


def is_expensive_to_count(core: Core) -> bool:
    """Whether `count_unsettled` would examine more than MUCH sessions, links, addresses and deliveries."""
    left = MUCH - len(core.links) - len(core.addresses)
    for connection in core.connections.values():
        for session in connection.sessions.values():
            left -= 1 + session.unsettled_in.count + session.unsettled_out.count
            if left < 0:
                return True
    return left < 0


def _of_session(session: Session) -> tuple[int, int]:
    incoming = session.unsettled_in.live()
    clients = sum(of_client(delivery, True) for delivery in incoming)
    clients += sum(of_client(delivery, False) for delivery in session.unsettled_out.live())
    return clients, sum(_in_transit(delivery) for delivery in incoming)


def of_client(delivery: Delivery, incoming: bool) -> bool:
    """Whether an unsettled delivery in a session counts as a client's.

    A delivery from client to client counts in the sender's session (`incoming`), not in the receiver's.
    """
    link = delivery.link
    if not incoming:
        return delivery.out is not None and delivery.out.kind == ENDPOINT and (link is None or link.kind != ENDPOINT)
    if link is None:
        return False
    if link.kind == ROUTED:
        return bool(link.connection.role != "inter-router")
    return link.kind == ENDPOINT or delivery.out is None


def _in_transit(delivery: Delivery) -> bool:
    """Whether an incoming delivery is between other routers."""
    link = delivery.link
    if link is None or link.kind == ENDPOINT:
        return False
    if link.kind == ROUTED:
        return bool(link.connection.role == "inter-router")
    return delivery.out is not None and delivery.out.kind == DATA


def presettled_at(address: Address) -> int:
    """Pre-settled deliveries that wait for a consumer of a mobile address."""
    if not address.pending or not address.key.startswith(MOBILE):
        return 0
    return sum(queued.settled for queued in address.pending)


def presettled_on(link: RouterLink) -> int:
    """Pre-settled deliveries of a client's link that are incomplete, incoming or outgoing."""
    if link.is_sender:
        waiting: int = sum(branch.queued.settled and branch.queued.unstarted > 0 for branch in link.queue or ())
        return int(link.backlog is not None) + waiting
    return int(link.mid_delivery and link.transfer_settled)


def no_delivery_in_progress(link: RouterLink) -> bool:
    """Whether the link of a client or container could end without ending a delivery."""
    if link.unsettled:
        return False
    if link.is_sender:
        return link.backlog is None and link.feeder is None and not link.undelivered()
    return not link.mid_delivery


def _attached(connection: RouterConnection) -> list[RouterLink]:
    every = (k for session in connection.sessions.values() for k in session.links)
    return [k for k in every if isinstance(k, RouterLink) and k.usable()]


def at_rest(connection: RouterConnection) -> bool:
    """Whether the connection of a client or container could end without ending a delivery."""
    return all(no_delivery_in_progress(k) for k in _attached(connection))


def client_senders(links: Iterable[RouterLink]) -> list[RouterLink]:
    """Incoming links of clients to other clients, not to the router itself."""
    return [k for k in links if k.kind == ENDPOINT and not k.is_sender and k.usable() and not serves_router(k)]


def serves_router(link: RouterLink) -> bool:
    """Whether the link leads to the management agent of the router."""
    return link.address is not None and link.address.serves_router()


def only_manages(connection: RouterConnection) -> bool:
    """Whether all links of a connection are for management: requests to the router and replies to the client."""
    links = _attached(connection)
    return any(serves_router(k) for k in links) and all(
        serves_router(k) or (k.is_sender and k.address is not None and not k.address.key.startswith(MOBILE))
        for k in links
    )


def mobile_traffic(addresses: Iterable[Address]) -> int:
    """Deliveries of mobile addresses so far: in, out and transit, without those for the router itself.

    The difference between two calls shows whether there were any in between.
    """
    return sum(
        address.ingress + address.egress + address.transit
        for address in addresses
        if not address.serves_router() and address.key.startswith(MOBILE)
    )
