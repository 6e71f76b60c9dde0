"""The management entities that a tenant can read: its own connections, links, addresses and vhost.

Entity types and attributes that are not listed here are hidden. Entities of others are absent, as if there were none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waymesh_amqp.sasl import ANONYMOUS_USER
from waymesh_router.core.addresses.keys import MANAGEMENT, MOBILE, OWN_MANAGEMENT_KEYS
from waymesh_router.core.link_kinds import ENDPOINT, ROUTED
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.management.adapters import Attributes, EntityAdapter, TableEntities
from waymesh_router.management.tables import Column, Links, address_columns, connection_columns, link_columns, owner
from waymesh_router.management.view import RouterView
from waymesh_router.policy.settings import Policy
from waymesh_schema.entities import entity_type


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CONNECTION = _words(
    "identity adminStatus operStatus protocol container opened host dir role isAuthenticated isEncrypted sasl user ssl "
    "sslProto sslCipher sslSsf tenant properties uptimeSeconds lastDlvSeconds"
)
_LINK = _words(
    "name adminStatus operStatus linkName linkType linkDir connectionId capacity undeliveredCount unsettledCount "
    "deliveryCount presettledCount droppedPresettledCount acceptedCount rejectedCount releasedCount modifiedCount "
    "creditAvailable priority deliveriesDelayed1Sec deliveriesDelayed10Sec deliveriesStuck settleRate zeroCreditSeconds"
)
_ADDRESS = _words(
    "distribution subscriberCount remoteCount containerCount deliveriesIngress deliveriesEgress deliveriesTransit "
    "deliveriesToContainer deliveriesFromContainer deliveriesIngressRouteContainer deliveriesEgressRouteContainer "
    "deliveriesRedirectedToFallback expiredDeliveries trackedDeliveries priority"
)
_VHOST = _words(
    "identity type hostname maxConnections maxMessageSize maxConnectionsPerUser maxConnectionsPerHost allowUnknownUser "
    "groups"
)
_KINDS = (ENDPOINT, ROUTED)
_DENIED = ("sessionDenied", "senderDenied", "receiverDenied", "maxMessageSizeDenied")
_VHOST_STATS = ("identity", "type", "hostname", "connectionsApproved", "connectionsDenied", *_DENIED)
_GROUP_STATS = (
    *("identity", "type", "hostname", "groupName", *_DENIED),
    *("dynamicSourceDenied", "anonymousSenderDenied", "linksDenied", "messagesDenied"),
)


def tenant_adapters(
    view: RouterView, all_adapters: Mapping[str, EntityAdapter], tenant: str
) -> dict[str, EntityAdapter]:
    """Adapters of the types that a tenant may read, restricted to its own rows and the attributes listed above."""
    own = _Own(view, tenant)
    adapters: list[EntityAdapter] = [_connections(own), _links(own), _addresses(own)]
    states: dict[str, Callable[[], Any]] = {
        "connectionsCurrent": lambda: len(own.connections()),
        "perUserState": lambda: dict(Counter(conn.user or ANONYMOUS_USER for conn in own.connections())),
        "perHostState": lambda: dict(Counter(conn.peer.address for conn in own.connections())),
    }
    adapters.append(_OfVhost(all_adapters["vhost"], own, _VHOST, {}))
    adapters.append(_OfVhost(all_adapters["vhostStats"], own, _VHOST_STATS, states))
    adapters.append(_OfVhost(all_adapters["vhostUserGroupStats"], own, _GROUP_STATS, {}))
    return {adapter.entity_type.name: adapter for adapter in adapters}


class _Own:
    """The objects of one tenant."""

    def __init__(self, view: RouterView, tenant: str) -> None:
        self.view = view
        self.tenant = tenant
        self.prefix = f"{tenant}/"

    def connections(self) -> list[RouterConnection]:
        connections = self.view.core.connections.values()
        return [conn for conn in connections if conn.multi_tenant and self.tenant and conn.tenant == self.tenant]

    def links(self) -> list[RouterLink]:
        known = self.view.core.links
        found = (link for conn in self.connections() for one in conn.sessions.values() for link in one.links)
        return [known[link.id] for link in found if link is not None and link.id in known and link.kind in _KINDS]  # type: ignore[attr-defined]

    def addresses(self) -> list[Address]:
        if not self.tenant:
            return []
        return [a for key, a in self.view.core.addresses.items() if key[0] == MOBILE and key.startswith(self.prefix, 2)]

    def as_written(self, key: str) -> str:
        """The key of one of the tenant's addresses, without the prefix of its address space."""
        return key[:2] + key[2 + len(self.prefix) :]

    def owner(self, link: RouterLink) -> str | None:
        """Key of the link's address, without the tenant's prefix. None for a reply address, whose name is secret."""
        key = owner(link)
        if key is None:
            return None
        if key in OWN_MANAGEMENT_KEYS:
            return f"L{MANAGEMENT}"
        start = 2 if key[0] == MOBILE else 1
        return key[:start] + key[start + len(self.prefix) :] if key.startswith(self.prefix, start) else None

    def vhosts(self) -> list[str]:
        """The vhost with the tenant's name; empty if other tenants use it too, as an alias or as the default vhost."""
        return [self.tenant] if has_vhost(self.view.policy.policy, self.tenant) else []


def has_vhost(policy: Policy, tenant: str) -> bool:
    """Whether the vhost with the name of a tenant is of this tenant alone, see `_Own.vhosts`."""
    vhost = policy.vhosts.get(tenant)
    return not (vhost is None or vhost.hostname != tenant or vhost.aliases or policy.default_vhost == tenant)


def _chosen(columns: Mapping[str, Column], names: Iterable[str]) -> dict[str, Column]:
    return {name: columns[name] for name in names}


def _connections(own: _Own) -> EntityAdapter:
    columns = _chosen(connection_columns(own.view), _CONNECTION)
    return TableEntities(entity_type("connection"), own.connections, columns)


def _links(own: _Own) -> EntityAdapter:
    """The identities are not the router's link numbers, which would reveal how many links other tenants attach."""
    links = Links(own.view.core)

    def all_links() -> list[RouterLink]:
        links.forget()
        return own.links()

    columns = _chosen(link_columns(own.view, links.undelivered), _LINK)
    columns["identity"] = lambda link, _now: f"{link.connection.id}/{link.session.channel}/{link.handle}"
    columns["owningAddr"] = lambda link, _now: own.owner(link)
    return TableEntities(entity_type("router.link"), all_links, columns)


def _addresses(own: _Own) -> EntityAdapter:
    columns = _chosen(address_columns(own.view.core), _ADDRESS)
    columns["identity"] = columns["key"] = lambda address, _now: own.as_written(address.key)
    return TableEntities(entity_type("router.address"), own.addresses, columns)


class _OfVhost(EntityAdapter):
    """Rows of another adapter that belong to the tenant's vhost, with only the attributes in `shown` and `live`."""

    def __init__(
        self, all_rows: EntityAdapter, own: _Own, shown: Iterable[str], live: Mapping[str, Callable[[], Any]]
    ) -> None:
        super().__init__(all_rows.entity_type)
        self._all = all_rows
        self._own = own
        self._shown = tuple(shown)
        self._live = live

    def rows(self, now: float) -> Iterable[Attributes]:
        found = (self._all.find("identity", identity, now) for identity in self._identities())
        return [self._row(row) for row in found if row is not None]

    def _identities(self) -> list[str]:
        kind = self.entity_type.name
        if kind != "vhostUserGroupStats":
            return [f"{kind}/{vhost}" for vhost in self._own.vhosts()]
        vhosts = self._own.view.policy.policy.vhosts
        return [f"{kind}/{vhost}/{group}" for vhost in self._own.vhosts() for group in vhosts[vhost].groups]

    def _row(self, row: Attributes) -> Attributes:
        shown = {name: row.get(name) for name in self._shown}
        return {**shown, "name": row["identity"], **{name: value() for name, value in self._live.items()}}
