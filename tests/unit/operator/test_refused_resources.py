"""A resource whose entity no router accepts gets a verdict, and routers of its mesh start without it. The CRDs refuse
such values, but those in a cluster may be older than the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.operator.test_operator_objects import BROKER, MESH, ROUTER, desire, seeds
from waymesh_operator.planning.actions import ApplyObject
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.resources.dependents import Address, AutoLink, LinkRoute
from waymesh_operator.resources.router import Policy, Ref
from waymesh_operator.resources.router_link import RouterLink
from waymesh_operator.resources.vhost_policy import UserGroup, VhostPolicy
from waymesh_operator.router_entities.names import VHOST

pytestmark = pytest.mark.engine_independent

X, GOOD = Ref("ns", "x"), Ref("ns", "good")
BAD: dict[str, tuple[str, Any, str]] = {
    "Address": ("addresses", Address(X, MESH, prefix="p", distribution="random"), "distribution"),
    "Broker": ("brokers", replace(BROKER, ref=X, endpoints=(("h", 70000),)), "port"),
    "AutoLink": ("autolinks", AutoLink(X, MESH, "a", "both", container_id="c"), "direction"),
    "LinkRoute": ("linkroutes", LinkRoute(X, MESH, "both", container_id="c"), "prefix"),
    "RouterLink": ("router_links", RouterLink(X, MESH, endpoints=(("h", 70000),)), "port"),
    "VhostPolicy": ("vhost_policies", VhostPolicy(X, MESH, "h", max_connections=-1), "maxConnections"),
}


def read_seeds(desired: DesiredState) -> None:
    """Read what each router boots with as a router does; raises ConfigError."""
    (config_map,) = (one for one in desired.objects if one["kind"] == "ConfigMap")
    for router in desired.mesh.routers:
        seeds(config_map, router.id)


def vhosts(desired: DesiredState) -> list[Mapping[str, Any]]:
    return [entity.attributes for entity in desired.mesh.routers[0].shared if entity.type == VHOST]


@pytest.mark.parametrize("kind", BAD)
def test_what_routers_refuse_is_not_accepted_and_left_out(kind: str) -> None:
    field, bad, attribute = BAD[kind]
    others: dict[str, Any] = {"addresses": (Address(GOOD, MESH, "g"),)}
    desired = desire(**{**others, field: (bad,)})
    verdict = desired.verdicts[kind, X]
    assert (verdict.accepted, verdict.reason) == (False, "RefusedByRouters")
    assert attribute in verdict.message
    assert verdict.held is (kind != "VhostPolicy")
    assert desired.verdicts["Router", MESH].good
    read_seeds(desired)


def test_links_of_a_refused_broker_wait_for_it() -> None:
    links = (AutoLink(GOOD, MESH, "a", "in", broker=X),)
    verdict = desire(brokers=(BAD["Broker"][1],), autolinks=links).verdicts["AutoLink", GOOD]
    assert (verdict.resolved_refs, verdict.reason) == (False, "BrokerUnusable")


def test_clients_of_a_refused_vhost_are_denied() -> None:
    """Otherwise the default vhost could apply to them and allow more."""
    group = (UserGroup("g", (("users", "u"),)),)
    bad = VhostPolicy(X, MESH, "h", aliases=("i", "${", "j"), groups=group, connection_rate="often")
    desired = desire(replace(ROUTER, policy=Policy(enabled=True)), vhost_policies=(bad,))
    (closed,) = (item for item in vhosts(desired) if item["hostname"] == "h")
    assert (closed["groups"], closed["allowUnknownUser"]) == ({}, False)
    assert "host names allow no client" in desired.verdicts["VhostPolicy", X].message


def test_names_that_no_router_accepts_are_left_out_of_closed_vhosts() -> None:
    for conflict in ((), (VhostPolicy(GOOD, MESH, "h", created="2026-01-01"),)):
        bad = VhostPolicy(X, MESH, "\0", aliases=("h", "i"), created="2026-01-02")
        desired = desire(replace(ROUTER, policy=Policy(enabled=True)), vhost_policies=(*conflict, bad))
        (closed,) = (item for item in vhosts(desired) if "i" in (item["hostname"], item.get("aliases")))
        assert (closed["hostname"], closed["aliases"]) == (("i", None) if conflict else ("h", "i"))
        read_seeds(desired)


def test_a_router_with_a_setting_that_its_routers_refuse_is_stalled() -> None:
    desired = desire(replace(ROUTER, log_level="loud"))
    applied = {step.manifest["kind"] for step in plan(desired, ObservedState()) if isinstance(step, ApplyObject)}
    assert not applied & {"ConfigMap", "StatefulSet"}
    verdict = desired.verdicts["Router", MESH]
    assert verdict.reason == "Stalled"
    assert verdict.message.startswith("routers would not start with the configuration: log enable: ")
