"""The entities of each resource, and why routers would refuse them."""

from __future__ import annotations

from waymesh_operator.resources.dependents import Address, AutoLink, Broker, Dependent, LinkRoute
from waymesh_operator.resources.exchange import Exchange
from waymesh_operator.resources.router_link import RouterLink, read_token
from waymesh_operator.resources.vhost_policy import VhostPolicy
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.host_rules import check_remote_hosts
from waymesh_schema.validate import validate_create

from .builders import address_entity, autolink_entities, broker_entities, linkroute_entities, router_link_entities
from .credentials import Secrets
from .exchanges import exchange_entities
from .names import CREDENTIALS, STANDING_TYPES, VHOST, Entity
from .policies import vhost_entity


def entities_of(resource: Dependent, secrets: Secrets, credentials: str = CREDENTIALS) -> tuple[Entity, ...]:
    """The entities of a resource whose Secrets are complete; none for a Broker that connects to the routers.

    `credentials` is the folder with the `credential_files`.
    """
    match resource:
        case Address():
            return (address_entity(resource),)
        case VhostPolicy():
            return (vhost_entity(resource),)
        case AutoLink():
            return autolink_entities(resource)
        case LinkRoute():
            return linkroute_entities(resource)
        case Exchange():
            return exchange_entities(resource)
        case RouterLink():
            return router_link_entities(resource, _endpoints(resource, secrets), credentials)
        case Broker():
            return () if resource.incoming_id else broker_entities(resource, _username(resource, secrets), credentials)


def refusal(entity: Entity) -> str:
    """Why a router would refuse the entity, empty if it would not. A router whose seed has such an entity does not
    start. The CRDs refuse such values too, but those in a cluster may be older than the operator."""
    if entity.known.refusal is None:
        entity.known.refusal = _refusal(entity)
    return entity.known.refusal


def _refusal(entity: Entity) -> str:
    given = {name: value for name, value in entity.attributes.items() if value is not None}
    named = given if entity.type in STANDING_TYPES else {**given, "name": entity.name}
    try:
        values = validate_create(entity_type(entity.type), named)
        if entity.type == VHOST:
            check_remote_hosts(values["groups"])
    except SchemaError as error:
        return str(error)
    return ""


def _username(broker: Broker, secrets: Secrets) -> str:
    if not broker.secret or broker.mechanism in ("", "ANONYMOUS", "EXTERNAL"):
        return ""
    return (secrets.get(broker.secret) or {}).get("username", b"").decode().strip()


def _endpoints(link: RouterLink, secrets: Secrets) -> tuple[tuple[str, int], ...]:
    return read_token(secrets[link.token] or {}).endpoints if link.token else link.endpoints
