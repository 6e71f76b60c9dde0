"""Address texts and the keys by which the core knows them."""

from __future__ import annotations

import pytest

from waymesh_router.core.addresses import keys

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("x", "x"),
        ("/x", "x"),
        ("amqp:x", "x"),
        ("amqp:/x", "x"),
        ("amqps:/x", "x"),
        ("amqp://host:5672/x/y", "x/y"),
        ("amqp://host", ""),
        ("", ""),
        ("x/amqp:/y", "x/amqp:/y"),
    ],
)
def test_scheme_and_host_are_not_part_of_an_address(text: str, bare: str) -> None:
    assert keys.bare_address(text) == bare


@pytest.mark.parametrize(
    ("text", "phase", "key"),
    [
        ("orders", "0", "M0orders"),
        ("orders", "1", "M1orders"),
        ("_local/$management", "0", "L$management"),
        ("_topo/0/A/$management", "0", "L$management"),
        ("_topo/0/B/$management", "0", "RB"),
        ("_topo/all/B/x", "0", "RB"),
        ("_topo/0/all/qdrouter", "0", "Tqdrouter"),
        ("_topo/1/B/x", "0", "M0_topo/1/B/x"),
        ("_topo/0/B", "0", "M0_topo/0/B"),
    ],
)
def test_the_class_of_a_key_says_where_the_address_is(text: str, phase: str, key: str) -> None:
    assert keys.address_key(text, "A", phase) == key


@pytest.mark.parametrize(
    ("text", "management"),
    [
        ("$management", True),
        ("/$management", True),
        ("_topo/0/B/$management", True),
        ("_local/$management", True),
        ("$management2", False),
        ("orders/$management", False),
        ("//$management", True),
        ("amqp:/amqp:/$management", True),
        ("/amqp://host//_topo/0/B/$management", True),
        ("//orders/$management", False),
        ("/" * 100 + "$management", True),
        ("/" * 100 + "orders", False),
    ],
)
def test_management_of_this_router_and_of_others_is_recognised(text: str, management: bool) -> None:
    assert keys.names_management(text) == management


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("$management", True),
        ("_local/$management", True),
        ("amqp:/_topo/0/A/$management", True),
        ("_topo/0/B/$management", False),
        ("_topo/0/all/$management", False),
        ("//$management", False),
    ],
)
def test_management_of_this_router_alone_is_recognised(text: str, own: bool) -> None:
    assert keys.own_management(text, "A") == own


@pytest.mark.parametrize(
    ("direction", "prefix", "pattern", "key", "outgoing"),
    [
        ("in", "b", None, "Cb", False),
        ("out", "b", None, "Db", True),
        ("in", None, "b.*", "Eb.*", False),
        ("out", None, "b.*", "Fb.*", True),
        ("in", "/b.", None, "Cb", False),
        ("out", None, "/b/*/", "Fb/*", True),
    ],
)
def test_keys_of_link_routes(direction: str, prefix: str | None, pattern: str | None, key: str, outgoing: bool) -> None:
    assert keys.link_route_key(direction, prefix, pattern) == key
    assert keys.outgoing_route(key) == outgoing
    assert keys.key_name(key) == key[1:]


def test_the_name_of_a_mobile_key_has_no_phase() -> None:
    assert keys.key_name("M1orders") == "orders"
