"""Opening and closing connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_amqp.sasl import ANONYMOUS_USER
from waymesh_router.core.access import CLOSED
from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.core.link_kinds import READ_MANAGEMENT, UNDECIDED_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_schema.host_rules import numeric_address

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo, Open
    from waymesh_router.core.containers.autolinks import AutoLinks
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.edge.uplink import Uplink
    from waymesh_router.core.link_routing.routes import LinkRoutes
    from waymesh_router.core.links.mesh_links import MeshLinks
    from waymesh_router.core.links.refusals import Refusals
    from waymesh_router.core.model import RouterConnection


class Connections:
    """The connections of a router by id; notifies the parts of the core that depend on them."""

    def __init__(
        self,
        context: CoreContext,
        containers: Containers,
        autolinks: AutoLinks,
        link_routes: LinkRoutes,
        mesh_links: MeshLinks,
        refusals: Refusals,
    ) -> None:
        self.by_id: dict[int, RouterConnection] = {}
        self.closing: dict[int, RouterConnection] = {}  # closed, with bytes still to send
        self.next_id = 1
        self.uplink: Uplink | None = None  # only at an edge router
        self.on_opened: Callable[[RouterConnection], None] | None = None
        """Called when a peer's open has arrived, before it is answered."""
        self._context = context
        self._containers = containers
        self._autolinks = autolinks
        self._link_routes = link_routes
        self._mesh_links = mesh_links
        self._refusals = refusals

    def add(self, conn: RouterConnection) -> None:
        """A transport was established."""
        conn.id = self.next_id
        self.next_id += 1
        self.by_id[conn.id] = conn

    def opened(self, conn: RouterConnection, performative: Open) -> None:
        """The peer's open has arrived: answer it."""
        undecided = conn.management == UNDECIDED_MANAGEMENT
        conn.creates_link_routes = undecided and _only_routes(conn) and _is_trusted(conn)
        if self.on_opened is not None:
            self.on_opened(conn)
        if conn.over:
            return
        if conn.management == UNDECIDED_MANAGEMENT:
            conn.management = default_management(conn)
        if not conn.settings.client:
            conn.send_open()
        self._context.telemetry.connection_opened(conn)
        if conn.role == ROUTE_CONTAINER:
            self._containers.opened(conn)
            self._autolinks.container_opened(conn)
            self._link_routes.containers_changed(conn)
        elif conn.role == INTER_ROUTER:
            self._mesh_links.opened(conn, performative)
        elif self.uplink is not None and conn.uplink:
            self.uplink.opened(conn)

    def closed(self, conn: RouterConnection, error: ErrorInfo | None) -> None:
        """The connection is closed; its links are already detached."""
        self.by_id.pop(conn.id, None)
        if not conn.done:
            self.closing[conn.id] = conn
        if conn.role == INTER_ROUTER:
            self._containers.closed(conn)
            self._context.control_plane.control_lost(conn)
        elif conn.role == ROUTE_CONTAINER and conn.remote is not None:
            self._containers.closed(conn)
            self._autolinks.container_closed(conn, error)
            self._link_routes.container_closed(conn)
        elif self.uplink is not None and conn.uplink:
            self.uplink.closed(conn)
        conn.waiting.clear()
        if conn.access is not None:
            conn.access.closed()
            conn.access = CLOSED
        if error is not None and conn.remote is None and not conn.settings.client:
            self._refusals.report("connection", conn.peer.host, error.condition, error.description or "", conn)
        self._context.telemetry.connection_closed(conn, error)


def default_management(conn: RouterConnection) -> int:
    """The default right to management of a peer, if its listener does not set one.

    Edge routers and containers only need link routes to themselves. With the right to write, they could create
    listeners and addresses.
    """
    return WRITE_MANAGEMENT if _is_trusted(conn) and not _only_routes(conn) else READ_MANAGEMENT


def _only_routes(conn: RouterConnection) -> bool:
    """Whether the peer is an edge router or a container."""
    return conn.edge_router is not None or conn.role == ROUTE_CONTAINER


def _is_trusted(conn: RouterConnection) -> bool:
    """Whether the peer is authenticated, or runs on this machine."""
    # A SASL service may admit a client with any mechanism and not name it.
    if conn.user not in (None, ANONYMOUS_USER) and conn.mechanism not in (None, "ANONYMOUS"):
        return True
    host = numeric_address(conn.peer.address)
    return host is not None and host.is_loopback
