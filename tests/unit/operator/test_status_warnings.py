"""Conditions of a Router that warn, and what Converged says by role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator.kit import resource
from tests.unit.operator.test_operator_status import ALL, CONTEXT, ROUTER, conditions, fits, seen
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import parse_router

pytestmark = pytest.mark.engine_independent


def test_listeners_that_anyone_may_use_are_named_and_do_not_change_ready() -> None:
    plain = Listener("plain", 5672)
    expected = {
        plain: "True",
        replace(plain, allow_unprotected=True): "False",
        replace(plain, auth="scram", users="people"): "False",
        replace(plain, tls=True): "False",
    }
    context = replace(CONTEXT, secrets={"people": {"alice": b"secret"}})
    for listener, status in expected.items():
        resources = replace(ALL, router=replace(ROUTER, listeners=(listener,)))
        found = router_status(resources.router, seen(resources, context), {})
        assert conditions(found)["Unprotected"][0] == status
        assert ("plain" in conditions(found)["Unprotected"][2]) is (status == "True")
        assert conditions(found)["Ready"][0] == "True"
        assert fits("Router", found)


def test_routers_whose_memory_is_full_are_named() -> None:
    full = {"mesh-1": {"memory_full": True, "memory_limit": 1 << 20}}
    status = router_status(ROUTER, seen(facts=full), {})
    assert conditions(status)["MemoryFull"][:2] == ("True", "LimitReached")
    assert "mesh-1 (limit 1 MiB)" in conditions(status)["MemoryFull"][2]
    assert conditions(status)["Ready"][0] == "True"


@pytest.mark.parametrize(
    ("limit", "said"), [("1M", "0.954 MiB"), ("40Mi", "40 MiB"), ("48Mi", ""), ("400Mi", ""), (0, ""), (None, "")]
)
def test_a_limit_below_what_a_router_needs_is_told_beside_ready(limit: str | int | None, said: str) -> None:
    given = {} if limit is None else {"maxMemory": limit}
    router = replace(ROUTER, max_memory=parse_router(resource("Router", "mesh", **given)).max_memory)
    status = router_status(router, seen(replace(ALL, router=router)), {})
    found = conditions(status)
    assert ("MemoryTooSmall" in found) is bool(said)
    if said:
        assert found["MemoryTooSmall"][:2] == ("True", "NoneForClients")
        assert f"maxMemory is {said}," in found["MemoryTooSmall"][2]
    assert found["Ready"][0] == "True"
    assert fits("Router", status)


@pytest.mark.parametrize(
    ("role", "said"), [("interior", "paths to each other"), ("standalone", "not connected"), ("edge", "run")]
)
def test_only_interior_routers_are_said_to_have_paths(role: str, said: str) -> None:
    resources = Resources(replace(ROUTER, role=role))
    found = conditions(router_status(resources.router, seen(resources), {}))["Converged"]
    assert found[0] == "True"
    assert said in found[2]
    assert ("paths to each other" in found[2]) is (role == "interior")
