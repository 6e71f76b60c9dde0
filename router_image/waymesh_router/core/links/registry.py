"""All links of a router by id; attaches the router's own links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.link_frames import open_link
from waymesh_router.core.addresses.keys import is_management_key
from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.core.model import RouterConnection, RouterLink

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_amqp.session import Session
    from waymesh_router.core.model import Address


class LinkRegistry:
    """Creates links and numbers them."""

    def __init__(self) -> None:
        self.by_id: dict[int, RouterLink] = {}
        self.next_id = 1
        self._managing: dict[Session, int] = {}  # links for management requests, where there are any

    def new_link(self, session: Session) -> RouterLink:
        """Create the object for a link of a session."""
        link = RouterLink(session)
        conn: RouterConnection = link.connection
        link.id = self.next_id
        link.container = conn.role == ROUTE_CONTAINER
        link.edge = conn.uplink or conn.edge_router is not None
        self.next_id += 1
        self.by_id[link.id] = link
        return link

    def open_link(self, session: Session, attach: Attach) -> RouterLink:
        """Attach a link of the router itself. Raises AmqpError if the peer accepts no more links."""
        link = self.new_link(session)
        try:
            open_link(session, link, attach)
        except AmqpError:
            del self.by_id[link.id]
            raise
        return link

    # ---- management
    def joined(self, link: RouterLink, address: Address) -> None:
        """An incoming link was added to the producers of an address."""
        if is_management_key(address.key):
            self._managing[link.session] = self._managing.get(link.session, 0) + 1

    def left(self, link: RouterLink, address: Address) -> None:
        """It was removed."""
        if is_management_key(address.key):
            number = self._managing.pop(link.session, 1) - 1
            if number:
                self._managing[link.session] = number

    def manages(self, session: Session) -> bool:
        """Whether a session has a link for management requests: if so, replies use an address of this router.

        A link route for `#` sends all other dynamic sources to the container; replies reach addresses there only while
        the container is connected.
        """
        return session in self._managing
