"""Link rules of one client from the permissions that a SASL service sent, which replace those of its user group."""

from __future__ import annotations

from dataclasses import replace

from waymesh_router.policy.links import LinkRules
from waymesh_router.policy.names import AllowedAddresses, NewPatterns
from waymesh_router.policy.settings import Group, parse_vhost
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.validate import validate_create

NAME = "of the SASL service"


def given_rules(
    group: Group | None, targets: tuple[str, ...], sources: tuple[str, ...], tree: NewPatterns
) -> LinkRules:
    """Rules that allow links with these addresses, dynamic sources and anonymous senders, and nothing else.

    `group`: its limits still apply; None: the defaults apply. A `*` at the end of an address matches any rest;
    `${user}` is not replaced.
    """
    own = replace(
        group or _defaults(),
        name=NAME,
        allow_dynamic_source=True,
        allow_anonymous_sender=True,
        allow_user_id_proxy=False,
        allow_waypoint_links=False,
        allow_fallback_links=False,
        allow_dynamic_link_routes=False,
        allow_admin_status_update=False,
        sources=sources,
        targets=targets,
        source_patterns=(),
        target_patterns=(),
        link_route_patterns=(),
    )
    return LinkRules(own, _allowed(sources, tree), _allowed(targets, tree))


def _allowed(addresses: tuple[str, ...], tree: NewPatterns) -> AllowedAddresses:
    literal = tuple(address for address in addresses if "{user}" not in address)
    return AllowedAddresses(literal, (), "", tree)


def _defaults() -> Group:
    values = validate_create(ENTITY_TYPES["vhost"], {"hostname": "any", "groups": {"any": {}}})
    return parse_vhost(values, lambda _: ()).groups["any"]
