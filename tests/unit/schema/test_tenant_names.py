"""Vhosts that can have an address space, and listeners that keep clients in it."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.tenant_names import unfit
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    "name", ["a", "my.example.com", "127.0.0.1", "::1", "[::1]:5672", "host:5672", "my_host", "a" * 253, "..", "-"]
)
def test_host_names_are_fit(name: str) -> None:
    assert unfit(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "/", "a/", "../a", "_local", "_topo", "_edge", "$management", "amqp:", "amqp:a", "amqps:a", "*", "#",
     "a.*", "a b", "a\n", "a\0", "ä", "\u2215", "a" * 254],
)  # fmt: skip
def test_names_that_mean_more_than_a_host_are_unfit(name: str) -> None:
    assert unfit(name) is not None


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("role", "route-container"),
        ("role", "inter-router"),
        ("http", True),
        ("management", "write"),
        ("routeAddress", "jobs"),
        ("stripAnnotations", "no"),
        ("stripAnnotations", "out"),
        ("policyVhost", "a/b"),
        ("policyVhost", "$default"),
    ],
)
def test_what_would_let_clients_leave_their_space_is_refused(attribute: str, value: Any) -> None:
    with pytest.raises(SchemaError) as raised:
        validate_create(entity_type("listener"), {"multiTenant": True, attribute: value})
    assert raised.value.attribute == attribute
    assert "multiTenant" in raised.value.reason


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("role", "normal"), ("management", "none"), ("management", "read"), ("stripAnnotations", "in"),
     ("policyVhost", "example.com"), ("authenticatePeer", True), ("linkCapacity", 1)],
)  # fmt: skip
def test_what_does_not_concern_addresses_is_free(attribute: str, value: Any) -> None:
    values = {"multiTenant": True, attribute: value}
    assert validate_create(entity_type("listener"), values)["multiTenant"] is True
