"""The links between two routers: a pair for control messages, and a pair for each message priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_router.core import attaching
from waymesh_router.core.link_kinds import CONTROL, DATA, MULTICAST, PRIORITIES
from waymesh_router.core.model import Address

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach, Open
    from waymesh_amqp.session import Session
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection, RouterLink

INTER_ROUTER = "inter-router"
MESH_FRAME_BYTES = 8192
"""Maximum frame size toward another router. Control messages wait for one frame: a second at 64 kbit/s."""


def to_router(conn: RouterConnection) -> bool:
    """Whether the connection is an interior router's to another router of the mesh, or an edge router's uplink."""
    return conn.role == INTER_ROUTER or conn.uplink


class MeshLinks:
    """Attaches and accepts the links between routers, and handles their loss."""

    def __init__(self, context: CoreContext, links: LinkRegistry) -> None:
        self._context = context
        self._links = links
        self.control_address = Address("Lqdrouter", MULTICAST)  # of incoming control links
        self.control_address.subscriber = self._on_control

    def opened(self, conn: RouterConnection, performative: Open) -> None:
        """The other router's open has arrived. The connector's side attaches all links. Source: inter-router.md."""
        conn.cost = attaching.agreed_cost(conn.cost, performative)
        conn.peer_max = min(conn.peer_max, MESH_FRAME_BYTES)
        if not conn.settings.client:
            return
        for kind in (CONTROL, *[DATA] * PRIORITIES):
            session = conn.open_session()
            for incoming in (True, False):
                self._open(session, kind, incoming)

    def _open(self, session: Session, kind: int, incoming: bool) -> None:
        name = f"qdlink.{self._context.router_id}.{self._links.next_id}"
        self._links.open_link(session, attaching.mesh_attach(name, kind, incoming)).kind = kind

    def accept(self, conn: RouterConnection, lk: RouterLink, attach: Attach, kind: int) -> None:
        """The other router attaches a link."""
        lk.kind = kind
        lk.accept(attach, attach.source, attach.target)
        if lk.attached:
            self.attached(conn, lk)

    def attached(self, conn: RouterConnection, lk: RouterLink) -> None:
        """A control or data link is attached on both sides."""
        links = conn.data_out if lk.is_sender else conn.data_in
        lk.max_message_size = 0  # it carries messages for many consumers
        if lk.kind == DATA and (lk.streaming or len(links) >= PRIORITIES):
            lk.streaming = lk.streamed = True
        elif lk.kind == DATA:
            lk.priority = min(len(links), PRIORITIES - 1)
            links.append(lk)
        elif lk.is_sender:
            conn.control_out = lk
        else:
            conn.control_in = lk
            lk.address = self.control_address
        if not lk.is_sender:
            lk.capacity = conn.link_capacity
            lk.grant()
        if lk.kind == CONTROL and conn.control_in is not None and conn.control_out is not None:
            self._context.control_plane.control_up(conn)

    def lost(self, conn: RouterConnection, lk: RouterLink) -> None:
        """A link has ended; does nothing for other kinds of links."""
        if lk in conn.data_out:
            conn.data_out.remove(lk)
        elif lk in conn.data_in:
            conn.data_in.remove(lk)
        elif lk in (conn.control_in, conn.control_out):
            conn.control_in = conn.control_out = None
            lk.address = None
            if not conn.over:
                self._context.control_plane.control_lost(conn)

    def _on_control(self, message: bytes, lk: RouterLink | None) -> None:
        """A complete message arrived on a control link."""
        if lk is not None:
            self._context.control_plane.control_message(lk.connection, message)
