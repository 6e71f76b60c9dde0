"""On which routers the entities of the resources of a mesh are placed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.resources.dependents import Broker, Resources
from waymesh_operator.resources.router import Router, router_id

from .builders import address_entity, autolink_entities, broker_entities, linkroute_entities
from .credentials import SecretData, broker_files
from .names import CREDENTIALS, Entity
from .policies import vhost_entity
from .verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class EntityPlacement:
    """The entities of all resources, by the routers that have them."""

    # On all routers.
    shared: tuple[Entity, ...] = ()
    # Only on the routers with these ordinals.
    placed: tuple[tuple[Entity, frozenset[int]], ...] = ()
    # Also in `shared`, but only the routers with these ordinals have the connection that the entity refers to.
    known: tuple[tuple[Entity, frozenset[int]], ...] = ()

    def only_on(self, ordinal: int) -> tuple[Entity, ...]:
        """Entities that this router has and not all routers have."""
        return tuple(entity for entity, ordinals in self.placed if ordinal in ordinals)

    def placements(self, router: Router) -> dict[str, tuple[str, ...]]:
        """The ids of the routers on which an entity works, by its name; only for those that do not work on all."""
        return {
            entity.name: tuple(router_id(router.ref, k) for k in sorted(ordinals))
            for entity, ordinals in (*self.placed, *self.known)
        }


def place_entities(
    resources: Resources,
    secrets: Mapping[str, SecretData | None],
    verdicts: Verdicts,
    credentials: str = CREDENTIALS,
) -> EntityPlacement:
    """Place the entities of all good resources. `credentials` is the folder with the `credential_files`."""
    router = resources.router
    shared = [address_entity(address) for address in _good("Address", resources.addresses, verdicts)]
    shared += [vhost_entity(policy) for policy in _good("VhostPolicy", resources.vhost_policies, verdicts)]
    placed: list[tuple[Entity, frozenset[int]]] = []
    known: list[tuple[Entity, frozenset[int]]] = []

    def place(entities: Iterable[Entity], ordinals: frozenset[int] | None) -> None:
        if ordinals is None:
            shared.extend(entities)
        else:
            placed.extend((entity, ordinals) for entity in entities)

    brokers = {broker.ref: broker for broker in _good("Broker", resources.brokers, verdicts)}
    for broker in brokers.values():
        place(broker_entities(broker, _username(broker, secrets), credentials), _ordinals(broker, router))
    for autolink in _good("AutoLink", resources.autolinks, verdicts):
        place(autolink_entities(autolink), _ordinals(brokers[autolink.broker], router) if autolink.broker else None)
    for route in _good("LinkRoute", resources.linkroutes, verdicts):
        # Every router has to know that these addresses are a broker's, also while it is away: one that did not would
        # take them for ordinary ones, and the links attached meanwhile would never reach the broker.
        made = linkroute_entities(route)
        shared.extend(made)
        ordinals = _ordinals(brokers[route.broker], router) if route.broker else None
        known += [(entity, ordinals) for entity in made if ordinals is not None]
    return EntityPlacement(tuple(shared), tuple(placed), tuple(known))


def credential_files(
    resources: Resources, secrets: Mapping[str, SecretData | None], verdicts: Verdicts
) -> dict[str, bytes]:
    """The files that connectors of Brokers read: contents by name."""
    files: dict[str, bytes] = {}
    for broker in _good("Broker", resources.brokers, verdicts):
        authorities = broker.tls.ca_secret if broker.tls else ""
        files |= broker_files(broker, secrets.get(broker.secret) or {}, secrets.get(authorities) or {})
    return files


def _good(kind: str, resources: Iterable[Any], verdicts: Verdicts) -> list[Any]:
    """Those with a good verdict, in an order that does not depend on their arrival."""
    return [item for item in sorted(resources, key=lambda r: r.ref) if verdicts[kind, item.ref].good]


def _username(broker: Broker, secrets: Mapping[str, SecretData | None]) -> str:
    if not broker.secret or broker.mechanism in ("", "ANONYMOUS", "EXTERNAL"):
        return ""
    return (secrets.get(broker.secret) or {}).get("username", b"").decode().strip()


def _ordinals(broker: Broker, router: Router) -> frozenset[int] | None:
    """The routers with a Broker's connector, None for all. For One the router is chosen by rendezvous hashing, so that
    few Brokers move when the size changes."""
    if broker.placement == "All":
        return None
    if broker.placement == "List":
        return frozenset(k for k in broker.ordinals if k < router.size)
    weights = {k: hashlib.sha256(f"{broker.ref.name}/{k}".encode()).digest() for k in range(router.size)}
    return frozenset([max(weights, key=lambda k: weights[k])] if weights else [])
