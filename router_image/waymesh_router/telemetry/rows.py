"""The values of records, in the order of the table in waymesh_schema.telemetry, from the router's state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from waymesh_router.core.addresses.keys import MOBILE, key_name
from waymesh_router.core.forwarding.annotations import FALLBACK, FALLBACK_PHASE
from waymesh_router.core.link_health import counts_of, seconds_without_credit
from waymesh_router.core.link_kinds import DISTRIBUTIONS
from waymesh_router.management.statistics import router_statistics
from waymesh_router.management.tables import LINK_TYPES
from waymesh_router.telemetry.lines import Row

if TYPE_CHECKING:
    from waymesh_router.core.containers.autolink import AutoLink
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import Address, RouterConnection, RouterLink
    from waymesh_router.management.view import RouterView
    from waymesh_router.routing.nodes import NodeView
    from waymesh_router.telemetry.exporter import Process

_STATISTICS = (
    "mode",
    "version",
    "uptimeSeconds",
    "connectionCount",
    "linkCount",
    "addrCount",
    "nodeCount",
    "autoLinkCount",
    "linkRouteCount",
    "presettledDeliveries",
    "droppedPresettledDeliveries",
    "acceptedDeliveries",
    "rejectedDeliveries",
    "releasedDeliveries",
    "modifiedDeliveries",
    "deliveriesIngress",
    "deliveriesEgress",
    "deliveriesTransit",
    "deliveriesIngressRouteContainer",
    "deliveriesEgressRouteContainer",
    "deliveriesRedirectedToFallback",
    "deliveriesDelayed1Sec",
    "deliveriesDelayed10Sec",
    "deliveriesStuck",
    "linksBlocked",
    "unsettledDeliveries",
    "drainStatus",
)


def router_row(
    view: RouterView, now: float, process: Process, records: Mapping[str, int], dropped: Mapping[str, int]
) -> Row:
    """Kind `router`."""
    values = {**view.attrs, **router_statistics(view, now)}
    usage = (process.cpu_us, values["memoryUsage"], process.loop_lag_us)
    return (*(values[name] for name in _STATISTICS), *usage, dict(records), dict(dropped))


def connection_row(event: str, conn: RouterConnection, now: float, error: str | None) -> Row:
    """Kind `connection`."""
    remote = conn.remote
    properties: Any = (remote.properties if remote is not None else None) or {}
    return (
        event,
        conn.id,
        None if remote is None else remote.container_id,
        conn.peer.host,
        "out" if conn.settings.client else "in",
        conn.role,
        None if remote is None else remote.hostname,
        conn.user,
        conn.mechanism,
        conn.peer.tls_proto,
        conn.peer.tls_cipher,
        int(now - conn.opened_at),
        int(now - conn.last_delivery_at) if conn.last_delivery_at else None,
        {str(name): str(value) for name, value in properties.items()},
        error,
        conn.octets_in,
        conn.octets_out,
    )


def link_row(event: str, link: RouterLink, view: RouterView, now: float, undelivered: int) -> Row:
    """Kind `link`. `undelivered`: for an incoming link, its deliveries that wait at the address."""
    conn: RouterConnection = link.connection
    delays = view.sampler.of(link)
    name, phase = named(link.address)
    return (
        event,
        link.id,
        conn.id,
        None if conn.remote is None else conn.remote.container_id,
        link.name,
        "out" if link.is_sender else "in",
        LINK_TYPES[link.kind],
        conn.role,
        name,
        phase,
        None if link.partner is None else link.partner.id,
        conn.link_capacity,
        link.credit,
        int(seconds_without_credit(link, now)),
        link.undelivered() if link.is_sender else undelivered,
        link.unsettled,
        *counts_of(link, delays),
        delays.stuck,
        link.priority,
    )


def address_counts(address: Address, former: Row | None = None) -> Row:
    """The counters of an address, including those of `former`, an earlier address with its name."""
    own = (address.ingress, address.egress, address.transit, address.to_container, address.from_container)
    return own if former is None else tuple(map(sum, zip(own, former)))


def address_row(address: Address, former: Row | None = None) -> Row:
    """Kind `address`; `former`: counters to add."""
    name, phase = named(address)
    outstanding = {router: target.outstanding for router, target in address.targets.items() if target.outstanding}
    return (
        name,
        phase,
        DISTRIBUTIONS[address.treatment],
        int(address.subscriber is not None),
        len(address.consumers),
        len(address.producers),
        len(address.targets),
        *address_counts(address, former),
        len(address.pending or ()),
        outstanding,
    )


def node_row(node: NodeView) -> Row:
    """Kind `node`."""
    return (
        node.id,
        node.cost,
        node.next_hop,
        dict(node.link_state),
        sorted(node.valid_origins),
        node.instance,
        node.link_id,
        False,
    )


def node_gone(node: Row) -> Row:
    """Kind `node`: the router is no longer known."""
    return (*node[:-1], True)


def autolink_row(auto: AutoLink, before: str | None, after: str | None) -> Row:
    """Kind `autolink`."""
    attrs = auto.attrs
    return (
        attrs.get("name"),
        auto.address,
        attrs.get("externalAddress"),
        attrs["direction"],
        auto.phase,
        before,
        after,
        attrs.get("containerId"),
        attrs.get("connection"),
        auto.last_error,
    )


def linkroute_row(route: LinkRoute, before: str | None, after: str | None) -> Row:
    """Kind `linkroute`."""
    attrs = route.attrs
    return (
        attrs.get("name"),
        attrs.get("prefix") or attrs.get("pattern"),
        attrs["direction"],
        before,
        after,
        attrs.get("containerId"),
        attrs.get("connection"),
    )


def named(address: Address | None) -> tuple[str | None, int | None]:
    """An address without class and phase, and its phase; None for an address that is not mobile."""
    return (None, None) if address is None else _named(address.key)


@lru_cache(1024)
def _named(key: str) -> tuple[str, int | None]:
    if not key.startswith(MOBILE):
        return key_name(key), None
    return key_name(key), FALLBACK_PHASE if key[1] == FALLBACK else int(key[1])
