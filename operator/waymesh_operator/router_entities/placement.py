"""Entities of what refers to a Router: those that all its routers have, and those that only some have. Pure."""

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
from .verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class Spread:
    """`shared` are on all routers, `placed` on those with the ordinals that stand beside them.

    Those of `known` are shared too, but only routers with these ordinals have the connection that they are about.
    """

    shared: tuple[Entity, ...] = ()
    placed: tuple[tuple[Entity, frozenset[int]], ...] = ()
    known: tuple[tuple[Entity, frozenset[int]], ...] = ()

    def only_on(self, ordinal: int) -> tuple[Entity, ...]:
        """What this router has and not all have."""
        return tuple(entity for entity, ordinals in self.placed if ordinal in ordinals)

    def placements(self, router: Router) -> dict[str, tuple[str, ...]]:
        """For each entity that does its work on some routers only, by name, the ids of these."""
        return {
            entity.name: tuple(router_id(router.ref, k) for k in sorted(ordinals))
            for entity, ordinals in (*self.placed, *self.known)
        }


def spread(
    resources: Resources,
    secrets: Mapping[str, SecretData | None],
    verdicts: Verdicts,
    credentials: str = CREDENTIALS,
) -> Spread:
    """The entities of all resources that are to be carried out. `credentials` is the folder of `credential_files`."""
    router = resources.router
    shared = [address_entity(address) for address in _good("Address", resources.addresses, verdicts)]
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
    return Spread(tuple(shared), tuple(placed), tuple(known))


def credential_files(
    resources: Resources, secrets: Mapping[str, SecretData | None], verdicts: Verdicts
) -> dict[str, bytes]:
    """What the connectors of Brokers read from files: contents by name."""
    files: dict[str, bytes] = {}
    for broker in _good("Broker", resources.brokers, verdicts):
        authorities = broker.tls.ca_secret if broker.tls else ""
        files |= broker_files(broker, secrets.get(broker.secret) or {}, secrets.get(authorities) or {})
    return files


def _good(kind: str, resources: Iterable[Any], verdicts: Verdicts) -> list[Any]:
    """Those that are to be carried out, in an order that does not depend on how they came."""
    return [item for item in sorted(resources, key=lambda r: r.ref) if verdicts[kind, item.ref].good]


def _username(broker: Broker, secrets: Mapping[str, SecretData | None]) -> str:
    if not broker.secret or broker.mechanism in ("", "ANONYMOUS", "EXTERNAL"):
        return ""
    return (secrets.get(broker.secret) or {}).get("username", b"").decode().strip()


def _ordinals(broker: Broker, router: Router) -> frozenset[int] | None:
    """Where a Broker's connector is. One router is chosen so that few Brokers move when the size changes."""
    if broker.placement == "All":
        return None
    if broker.placement == "List":
        return frozenset(k for k in broker.ordinals if k < router.size)
    weights = {k: hashlib.sha256(f"{broker.ref.name}/{k}".encode()).digest() for k in range(router.size)}
    return frozenset([max(weights, key=lambda k: weights[k])] if weights else [])
