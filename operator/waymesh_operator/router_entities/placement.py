"""Places the entities of a mesh's resources on routers."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.dependents import Broker, Dependent, Resources, by_container, unclaimed_names
from waymesh_operator.resources.exchange import Exchange
from waymesh_operator.resources.router import Router, router_id
from waymesh_operator.resources.router_link import RouterLink
from waymesh_operator.resources.vhost_policy import VhostPolicy

from .builders import autolink_entities, linkroute_entities
from .credentials import Secrets, broker_files, link_files
from .entities import entities_of, refusal
from .names import CREDENTIALS, Entity
from .policies import closed_vhost
from .verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class EntityPlacement:
    """The entities of all resources, by the routers on which they are placed."""

    # On all routers.
    shared: tuple[Entity, ...] = ()
    # Only on the routers with these ordinals.
    placed: tuple[tuple[Entity, frozenset[int]], ...] = ()
    # Also in `shared`, but only the routers with these ordinals have the connection that the entity refers to.
    known: tuple[tuple[Entity, frozenset[int]], ...] = ()
    # Entities of links to containers that may connect to some routers only, by name: the container-id.
    containers: Mapping[str, str] = field(default_factory=dict)

    def only_on(self, ordinal: int) -> tuple[Entity, ...]:
        """Return entities of this router that are not on all routers."""
        return tuple(entity for entity, ordinals in self.placed if ordinal in ordinals)

    def placements(self, router: Router) -> dict[str, tuple[str, ...]]:
        """Return the ids of the routers of each entity by its name; only for entities that are not on all routers."""
        return {
            entity.name: tuple(router_id(router.ref, k) for k in sorted(ordinals))
            for entity, ordinals in (*self.placed, *self.known)
        }


def place_entities(
    resources: Resources, secrets: Secrets, verdicts: Verdicts, credentials: str = CREDENTIALS
) -> EntityPlacement:
    """Place the entities of all valid resources, and deny-all vhosts for the other VhostPolicies.

    `credentials` is the folder with the `credential_files`.
    """
    router = resources.router
    shared: list[Entity] = []
    placed: list[tuple[Entity, frozenset[int]]] = []
    known: list[tuple[Entity, frozenset[int]]] = []

    def place(resource: Dependent, ordinals: frozenset[int] | None = None) -> None:
        entities = entities_of(resource, secrets, credentials)
        if ordinals is None:
            shared.extend(entities)
        else:
            placed.extend((entity, ordinals) for entity in entities)

    for address in _good("Address", resources.addresses, verdicts):
        place(address)
    for policy in _good("VhostPolicy", resources.vhost_policies, verdicts):
        place(policy)
    shared += _closed_vhosts(resources.vhost_policies, verdicts)
    brokers = {broker.ref: broker for broker in _good("Broker", resources.brokers, verdicts)}
    for broker in brokers.values():
        place(broker, _ordinals(broker, router))
    for autolink in by_container(_good("AutoLink", resources.autolinks, verdicts), brokers.values()):
        place(autolink, _ordinals(brokers[autolink.broker], router) if autolink.broker else None)
    for route in by_container(_good("LinkRoute", resources.linkroutes, verdicts), brokers.values()):
        # Every router has to know that these addresses belong to a broker, even while it is not connected: otherwise a
        # router would treat them as ordinary addresses, and links attached meanwhile would never reach the broker.
        made = linkroute_entities(route)
        shared.extend(made)
        ordinals = _ordinals(brokers[route.broker], router) if route.broker else None
        known += [(entity, ordinals) for entity in made if ordinals is not None]
    for link in _good("RouterLink", resources.router_links, verdicts):
        place(link, _ordinals(link, router))
    for exchange in _good("Exchange", resources.exchanges, verdicts):
        place(exchange, _ordinals(exchange, router))
    return EntityPlacement(tuple(shared), tuple(placed), tuple(known), _containers(resources))


def _closed_vhosts(policies: Iterable[VhostPolicy], verdicts: Verdicts) -> list[Entity]:
    """Return deny-all vhosts for VhostPolicies that routers would refuse, and for the names of those in conflict that
    no other VhostPolicy has; without names that no router accepts."""
    made = []
    unclaimed = unclaimed_names(policies)
    for policy in sorted(policies, key=lambda policy: policy.ref):
        verdict = verdicts["VhostPolicy", policy.ref]
        wanted = unclaimed.get(policy.ref, ()) if verdict.conflicted else () if verdict.good else policy.names
        if names := [name for name in wanted if not refusal(closed_vhost(policy, [name]))]:
            made.append(closed_vhost(policy, names))
    return made


def _containers(resources: Resources) -> dict[str, str]:
    """Return the container-id by the name of each link entity that names one, directly or by a Broker that connects to
    the routers."""
    autolinks = by_container(resources.autolinks, resources.brokers)
    routes = by_container(resources.linkroutes, resources.brokers)
    links = [(link.container_id, autolink_entities(link)) for link in autolinks]
    links += [(route.container_id, linkroute_entities(route)) for route in routes]
    return {entity.name: container for container, made in links if container for entity in made}


def credential_files(resources: Resources, secrets: Secrets, verdicts: Verdicts) -> dict[str, bytes]:
    """Return the files that connectors of Brokers and RouterLinks read: contents by name."""
    files: dict[str, bytes] = {}
    for broker in _good("Broker", resources.brokers, verdicts):
        authorities = broker.tls.ca_secret if broker.tls else ""
        files |= broker_files(broker, secrets.get(broker.secret) or {}, secrets.get(authorities) or {})
    for link in _good("RouterLink", resources.router_links, verdicts):
        files |= link_files(link, secrets.get(link.secret) or {})
    return files


def _good(kind: str, resources: Iterable[Any], verdicts: Verdicts) -> list[Any]:
    """Return resources with a good verdict, in an order that does not depend on their arrival."""
    ordered = sorted(resources, key=operator.attrgetter("ref"))
    return [item for item in ordered if verdicts[kind, item.ref].good]


def _ordinals(peer: Broker | RouterLink | Exchange, router: Router) -> frozenset[int] | None:
    """Return the routers with the connector or exchange, None for all. For One, rendezvous hashing chooses the router,
    so that few of them move when the size changes."""
    if peer.placement == "All":
        return None
    if peer.placement == "List":
        return frozenset(k for k in peer.ordinals if k < router.size)
    weights = {k: hashlib.sha256(f"{peer.ref.name}/{k}".encode()).digest() for k in range(router.size)}
    return frozenset([max(weights, key=lambda k: weights[k])] if weights else [])
