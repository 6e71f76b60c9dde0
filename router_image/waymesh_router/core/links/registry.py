"""All links of a router by id; attaches the router's own links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.link_frames import open_link
from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.core.model import RouterConnection, RouterLink

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_amqp.session import Session


class LinkRegistry:
    """Creates links and numbers them."""

    def __init__(self) -> None:
        self.by_id: dict[int, RouterLink] = {}
        self.next_id = 1

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
