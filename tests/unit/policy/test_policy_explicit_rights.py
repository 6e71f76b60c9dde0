"""Rights that a group gives only by name: reserved addresses, and link routes."""

from __future__ import annotations

import pytest

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.links import may_create_link_route
from waymesh_router.policy.names import AllowedAddresses
from waymesh_router.policy.settings import Group, parse_vhost
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent


def group(**settings: object) -> Group:
    values = validate_create(ENTITY_TYPES["vhost"], {"hostname": "v", "groups": {"g": settings}})
    return parse_vhost(values, lambda _: ()).groups["g"]


@pytest.mark.parametrize(
    ("rules", "patterns", "expected"),
    [
        (("*",), (), False),
        (("_*",), (), False),
        ((), ("#",), False),
        ((), ("*.0.#",), False),
        (("_topo/0/R/box",), (), True),
        (("_topo/*",), (), True),
        ((), ("_topo.0.#", "#"), True),
        (("other",), (), False),
    ],
)
def test_a_reserved_address_must_be_named(rules: tuple[str, ...], patterns: tuple[str, ...], expected: bool) -> None:
    assert AllowedAddresses(rules, patterns, "u", PatternTree[str]).names_reserved("_topo/0/R/box") == expected


@pytest.mark.parametrize(
    ("settings", "pattern", "expected"),
    [
        ({}, "a.#", True),
        ({"allowDynamicLinkRoutes": False}, "a.#", False),
        ({"linkRoutePattern": "a.#,b"}, "a/b/#", True),
        ({"linkRoutePattern": "a.#,b"}, "b", True),
        ({"linkRoutePattern": "a.#,b"}, "b.#", False),
        ({"linkRoutePattern": "a.#", "allowDynamicLinkRoutes": False}, "a", False),
        ({"linkRoutePattern": "#"}, "#", True),
    ],
)
def test_a_link_route_must_be_within_the_patterns(settings: dict[str, object], pattern: str, expected: bool) -> None:
    assert may_create_link_route(group(**settings), pattern) == expected
