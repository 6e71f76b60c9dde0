"""The entities of an Exchange: the exchange, and one for each of its bindings."""

from __future__ import annotations

import hashlib
from typing import Any

from waymesh_operator.resources.exchange import Exchange

from .builders import digest
from .names import BINDING, EXCHANGE, Entity, entity_name


def exchange_entities(exchange: Exchange) -> tuple[Entity, ...]:
    """The exchange, then its bindings.

    Routers cannot change their attributes, so the names follow from these: a changed binding is a new entity and the
    others stay; a changed exchange is a new entity, and so are all its bindings.
    """
    attributes: dict[str, Any] = {
        "address": exchange.address,
        "phase": exchange.phase,
        "alternateAddress": exchange.alternate_address,
        "alternatePhase": exchange.alternate_phase,
        "matchMethod": exchange.match_method,
    }
    made = Entity(EXCHANGE, entity_name(exchange.ref, "Exchange", digest(attributes)), attributes)
    return (made, *_bindings(exchange, made.name))


def _bindings(exchange: Exchange, name: str) -> list[Entity]:
    found = []
    for binding in exchange.bindings:
        attributes = {
            "exchangeName": name,
            "bindingKey": binding.key,
            "nextHopAddress": binding.address,
            "nextHopPhase": binding.phase,
        }
        # Long: a router with two entities of the same name in its configuration does not start.
        part = hashlib.sha256(repr(sorted(attributes.items())).encode()).hexdigest()[:32]
        found.append(Entity(BINDING, entity_name(exchange.ref, "Exchange", part), attributes))
    return found
