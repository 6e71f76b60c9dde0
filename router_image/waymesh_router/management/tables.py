"""Adapters of operational entities: connections, links, addresses, routers, log counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from waymesh_amqp.errors import CONNECTION_FORCED, DETACH_FORCED
from waymesh_amqp.states import OPENED
from waymesh_router.core.addresses.keys import EDGE
from waymesh_router.core.addresses.reserved import HELLO_KEY
from waymesh_router.core.edge.messages import DOWNLINK_CAPABILITY
from waymesh_router.core.link_health import deliveries_of, seconds_without_credit
from waymesh_router.core.link_kinds import CONTROL, DATA, DISTRIBUTIONS, ENDPOINT, ROUTED
from waymesh_router.core.link_routing.route_candidates import link_route_of
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.management.adapters import Attributes, EntityAdapter, TableEntities
from waymesh_router.management.errors import forbidden
from waymesh_router.management.statistics import AREA
from waymesh_router.management.view import CoreView, RouterView
from waymesh_router.routing.nodes import NodeView
from waymesh_schema.entities import entity_type
from waymesh_schema.loglevels import LOG_LEVELS, LOG_MODULES

Column = Callable[[Any, float], Any]

LINK_TYPES = {ENDPOINT: "endpoint", ROUTED: "endpoint", CONTROL: "router-control", DATA: "inter-router"}
SELF = "(self)"
"""Next hop in this router's row about itself, as in Dispatch."""


def tables(view: RouterView) -> list[EntityAdapter]:
    """The adapters of all operational types."""
    return [
        _connections(view),
        _links(view),
        _addresses(view),
        _nodes(view),
        _log_stats(view),
        TableEntities(
            entity_type("management"),
            lambda: ("self",),
            {"identity": lambda name, _now: f"management/{name}", "name": lambda name, _now: name},
        ),
    ]


def _fields(**columns: Callable[[Any], Any]) -> dict[str, Column]:
    """Columns that do not depend on the time."""
    return {name: _timeless(read) for name, read in columns.items()}


def _timeless(read: Callable[[Any], Any]) -> Column:
    return lambda item, _now: read(item)


# connection


def _connections(view: RouterView) -> EntityAdapter:
    return TableEntities(
        entity_type("connection"),
        lambda: list(view.core.connections.values()),
        connection_columns(view),
        on_update=partial(_update_connection, view),
    )


def connection_columns(view: RouterView) -> dict[str, Column]:
    """All attributes of a `RouterConnection`."""
    columns = _fields(
        name=lambda c: f"connection/{c.peer.host}",
        identity=lambda c: str(c.id),
        adminStatus=lambda c: "enabled",
        operStatus=lambda c: "closing" if c.over or c.done else "up",
        protocol=lambda c: "amqp",
        container=lambda c: None if c.remote is None else c.remote.container_id,
        opened=lambda c: c.state == OPENED,
        host=lambda c: c.peer.host,
        dir=lambda c: "out" if c.settings.client else "in",
        role=lambda c: c.role,
        active=partial(_active, view.core),
        isAuthenticated=lambda c: c.mechanism is not None,
        isEncrypted=lambda c: c.peer.tls,
        enableProtocolTrace=view.traced,
        sasl=lambda c: None if c.mechanism is None else str(c.mechanism),  # a received one is a symbol
        user=lambda c: c.user,
        ssl=lambda c: c.peer.tls,
        sslProto=lambda c: c.peer.tls_proto,
        sslCipher=lambda c: c.peer.tls_cipher,
        sslSsf=lambda c: c.peer.tls_ssf,
        tenant=lambda c: f"{c.tenant}/" if c.tenant else None,
        properties=lambda c: (c.remote.properties if c.remote is not None else None) or {},
    )
    columns["uptimeSeconds"] = lambda c, now: int(now - c.opened_at)
    columns["lastDlvSeconds"] = lambda c, now: int(now - c.last_delivery_at) if c.last_delivery_at else None
    return columns


def _active(core: CoreView, connection: RouterConnection) -> bool | None:
    """Whether an edge router uses this connection, of all its connections; None: neither end is an edge router."""
    if connection.uplink:
        return core.uplink is not None and connection is core.uplink.active
    edge = connection.edge_router
    return None if edge is None else edge.downlink is not None


def _update_connection(view: RouterView, connection: RouterConnection, changed: Attributes) -> None:
    """enableProtocolTrace logs its frames; adminStatus deleted closes it. Spec: 2.8.16 connection-forced."""
    if changed.get("adminStatus") == "deleted":
        if connection.role == INTER_ROUTER:
            raise forbidden("adminStatus: a connection between routers cannot be closed; delete its connector")
        connection.close(CONNECTION_FORCED, "Connection closed by a management request")
    if "enableProtocolTrace" in changed:
        view.trace(connection, changed["enableProtocolTrace"])


# router.link


class Links:
    """The links of the core. Deliveries that wait at addresses are counted at most once per request."""

    def __init__(self, core: CoreView) -> None:
        self._core = core
        self._waiting: Counter[int] | None = None

    def all(self) -> Iterable[RouterLink]:
        self.forget()
        return list(self._core.links.values())

    def forget(self) -> None:
        """Count again; called at the start of each request."""
        self._waiting = None

    def undelivered(self, link: RouterLink) -> int:
        """Outgoing link: deliveries that wait for credit. Incoming link: deliveries that wait for a consumer."""
        if link.is_sender:
            return int(link.undelivered())
        if self._waiting is None:
            self._waiting = Counter(
                queued.link.id
                for address in self._core.addresses.values()
                for queued in address.pending or ()
                if queued.link is not None
            )
        return self._waiting[link.id]


def _links(view: RouterView) -> EntityAdapter:
    links = Links(view.core)
    columns = link_columns(view, links.undelivered)
    return TableEntities(entity_type("router.link"), links.all, columns, on_update=_update_link)


def link_columns(view: RouterView, undelivered: Callable[[RouterLink], int]) -> dict[str, Column]:
    """All attributes of a `RouterLink`."""
    columns = _fields(
        identity=lambda k: str(k.id),
        name=lambda k: k.name,
        adminStatus=lambda k: "enabled",
        operStatus=lambda k: "up" if k.usable() else "down",
        linkName=lambda k: k.name,
        linkType=link_type,
        linkDir=lambda k: "out" if k.is_sender else "in",
        owningAddr=owner,
        connectionId=lambda k: str(k.connection.id),
        capacity=lambda k: k.connection.link_capacity,
        undeliveredCount=undelivered,
        unsettledCount=lambda k: k.unsettled,
        deliveryCount=deliveries_of,
        presettledCount=lambda k: k.presettled,
        droppedPresettledCount=lambda k: k.dropped_presettled,
        acceptedCount=lambda k: k.accepted,
        rejectedCount=lambda k: k.rejected,
        releasedCount=lambda k: k.released,
        modifiedCount=lambda k: k.modified,
        creditAvailable=lambda k: max(k.credit, 0),  # below 0 while more is in flight than the peer now allows
        peer=lambda k: None if k.partner is None else str(k.partner.id),
        priority=lambda k: k.priority,
        deliveriesDelayed1Sec=lambda k: view.sampler.of(k).one_s,
        deliveriesDelayed10Sec=lambda k: view.sampler.of(k).ten_s,
        deliveriesStuck=lambda k: view.sampler.of(k).stuck,
    )
    columns["settleRate"] = lambda k, _now: view.sampler.settle_rate(k)
    columns["zeroCreditSeconds"] = lambda k, now: int(seconds_without_credit(k, now))
    return columns


def link_type(link: RouterLink) -> str:
    """`linkType` of a link. An edge-downlink carries all messages to an edge router that have no link of their own."""
    if link.connection.uplink and link.kind == DATA:
        source = None if link.source is None else link.source.capabilities
        return "edge-downlink" if DOWNLINK_CAPABILITY in (source or ()) else "endpoint"
    if link.edge and link.address is not None and link.address.key.startswith(EDGE):
        return "edge-downlink"
    return LINK_TYPES[link.kind]


def owner(link: RouterLink) -> str | None:
    """Key of the link's address; for a routed link, of its link route; for a control link, of what it carries first."""
    if link.address is not None:
        return link.address.key
    if link.kind == CONTROL:
        return HELLO_KEY
    return link_route_of(link)


def _update_link(link: RouterLink, changed: Attributes) -> None:
    """adminStatus disabled detaches it. Spec: 2.8.17 detach-forced."""
    if link.kind in (CONTROL, DATA):
        raise forbidden("adminStatus: a link between routers cannot be disabled; delete the connector")
    if changed.get("adminStatus") == "disabled":
        link.detach(DETACH_FORCED, "Link disabled by a management request")


# router.address


def _addresses(view: RouterView) -> EntityAdapter:
    core = view.core

    def rows() -> list[Address]:
        return [*core.addresses.values(), *view.reserved.by_key.values()]

    return TableEntities(entity_type("router.address"), rows, address_columns(core))


def address_columns(core: CoreView) -> dict[str, Column]:
    """All attributes of an `Address`."""
    return _fields(
        identity=lambda a: a.key,
        key=lambda a: a.key,
        distribution=lambda a: DISTRIBUTIONS[a.treatment],
        inProcess=lambda a: int(a.subscriber is not None),
        subscriberCount=lambda a: len(a.consumers),
        remoteCount=lambda a: len(a.targets),
        remoteHostRouters=lambda a: sorted(a.targets),
        deliveriesIngress=lambda a: a.ingress,
        deliveriesEgress=lambda a: a.egress,
        deliveriesTransit=lambda a: a.transit,
        deliveriesIngressRouteContainer=lambda a: a.from_container,
        deliveriesEgressRouteContainer=lambda a: a.to_container,
        deliveriesToContainer=lambda a: a.to_process,
        deliveriesFromContainer=lambda a: a.from_process,
        deliveriesRedirectedToFallback=lambda a: a.redirected,
        expiredDeliveries=lambda a: a.expired,
        containerCount=lambda a: core.linkroutes.container_count(a.key),
        transitOutstanding=_outstanding,
        trackedDeliveries=lambda a: sum(_outstanding(a) or ()),
        priority=lambda a: a.priority,
        groupSlots=lambda a: None if a.groups is None else a.groups.taken.bit_count(),
    )


def _outstanding(address: Address) -> list[int] | None:
    """Unsettled deliveries to each router of `remoteHostRouters`, in that order; None if not balanced."""
    if DISTRIBUTIONS[address.treatment] != "balanced":
        return None
    return [address.targets[name].outstanding for name in sorted(address.targets)]


# router.node


def _nodes(view: RouterView) -> EntityAdapter:
    own = view.core.router_id
    columns = _fields(
        identity=lambda n: f"router.node/{n.id}",
        id=lambda n: n.id,
        protocolVersion=lambda n: n.protocol_version,
        instance=lambda n: n.instance,
        linkState=lambda n: sorted(n.link_state),
        nextHop=lambda n: SELF if n.id == own else n.next_hop,
        validOrigins=lambda n: sorted(n.valid_origins),
        address=lambda n: f"amqp:/_topo/{AREA}/{n.id}",
        routerLink=lambda n: _router_link(view.core, n.id),
        cost=lambda n: n.cost,
        lastTopoChange=lambda n: _since_1970(view, n.last_topo_change),
        index=lambda n: n.index,
    )
    return TableEntities(entity_type("router.node"), lambda: _all_nodes(view), columns)


def _all_nodes(view: RouterView) -> list[NodeView]:
    """This router and the routers that it knows, sorted by id; as in Dispatch none at edge and standalone routers."""
    if view.routing is None:
        return []
    known: Mapping[str, NodeView] = view.routing.nodes
    return sorted((view.routing.local, *known.values()), key=lambda node: node.id)


def _router_link(core: CoreView, router_id: str) -> str | None:
    """Identity of our control link to a neighbour."""
    node: Any = core.nodes.get(router_id)
    if node is None or node.connection is None or node.connection.control_out is None:
        return None
    return str(node.connection.control_out.id)


def _since_1970(view: RouterView, moment: float) -> int | None:
    """Convert a time of the router's clock to seconds since 1970; `instance` is its start time in that unit."""
    if view.routing is None or view.routing.local.instance is None:
        return None
    return view.routing.local.instance + int(moment - view.core.started_at)


# logStats


def _log_stats(view: RouterView) -> EntityAdapter:
    columns: dict[str, Column] = {"identity": lambda module, _now: f"logStats/{module}"}
    columns |= {f"{level}Count": _log_count(view, f"{level}Count") for level in LOG_LEVELS}
    return TableEntities(entity_type("logStats"), lambda: LOG_MODULES, columns)


def _log_count(view: RouterView, name: str) -> Column:
    return lambda module, _now: view.log_stats(module).get(name, 0)
