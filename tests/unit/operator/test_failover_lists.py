"""What routers tell their clients of each other: `failover` of a listener, in a cluster and in local mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.operator.kit import resource
from tests.unit.operator.test_operator_objects import CONTEXT
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.local.desired import LocalContext, RouterAddresses, desired_local
from waymesh_operator.planning.actions import ApplyObject
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Router, parse_router
from waymesh_operator.router_entities.actions import UpdateEntity
from waymesh_operator.router_entities.failover import LISTED
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState
from waymesh_router.peers.failover import server_list

pytestmark = pytest.mark.engine_independent

AMQP = {"name": "amqp", "port": 5672, "failover": "Auto"}
OUT = {**AMQP, "name": "out", "port": 5671, "tls": True, "auth": "mtls"}
IN_CLUSTER = "ns.svc.cluster.local:5672"
Addresses = Mapping[str, Sequence[str]]


def router(size: int, *listeners: Mapping[str, Any]) -> Router:
    made = resource("Router", "mesh", size=size, listeners=[dict(item) for item in listeners])
    return replace(parse_router(made), uid="u-1")


def desired(one: Router, addresses: Addresses | None = None, size_now: int | None = None) -> DesiredState:
    return desired_cluster(Resources(one), replace(CONTEXT, addresses=addresses or {}, size_now=size_now))


def told(state: DesiredState, listener: str = "amqp") -> list[list[str]]:
    """The list of each router."""
    found = []
    for one in state.mesh.routers:
        (entity,) = (e for e in one.entities if e.name == f"k8s/ns/Router/mesh/listener/{listener}")
        urls = entity.attributes["failoverUrls"]
        server_list(urls or "")  # the router takes it
        found.append(urls.split(",") if urls else [])
    return found


def doors(size: int) -> dict[str, list[str]]:
    """Load balancers of the mesh and of each router."""
    return {"mesh-out-out": ["lb:5671"]} | {f"mesh-{k}-out-out": [f"lb-{k}:5671"] for k in range(size)}


def exposed(**expose: Any) -> dict[str, Any]:
    return {**OUT, "expose": {"type": "LoadBalancer", **expose}}


def test_nobody_is_told_anything_unless_it_is_asked_for() -> None:
    state = desired(router(2, {"name": "amqp", "port": 5672}))
    assert told(state) == [[], []]
    assert [e.name for one in state.mesh.routers for e in one.own if "/listener/" in e.name] == []


def test_in_the_cluster_a_list_has_the_other_routers_in_turn_and_then_the_service() -> None:
    service = f"amqp://mesh.{IN_CLUSTER}"
    names = [f"amqp://mesh-{k}.mesh-mesh.{IN_CLUSTER}" for k in range(3)]
    assert told(desired(router(3, AMQP))) == [
        [names[1], names[2], service],
        [names[2], names[0], service],
        [names[0], names[1], service],
    ]
    assert told(desired(router(1, AMQP))) == [[service]]
    inside = {**AMQP, "expose": {"type": "ClusterIP", "perRouter": True}}
    assert told(desired(router(3, inside)))[0] == [names[1], names[2], service]


@pytest.mark.parametrize(
    ("listener", "scheme"),
    [
        ({}, "amqp"),
        ({"tls": True}, "amqps"),
        ({"http": {"healthz": False}}, "ws"),
        ({"http": {"healthz": False}, "tls": True}, "wss"),
    ],
)
def test_the_scheme_is_that_of_the_listener(listener: dict[str, Any], scheme: str) -> None:
    assert told(desired(router(1, {**AMQP, **listener}))) == [[f"{scheme}://mesh.{IN_CLUSTER}"]]


def test_outside_a_list_has_the_addresses_of_the_other_routers_and_then_those_of_all() -> None:
    one = router(3, exposed(perRouter=True))
    assert told(desired(one, doors(3)), "out") == [
        ["amqps://lb-1:5671", "amqps://lb-2:5671", "amqps://lb:5671"],
        ["amqps://lb-2:5671", "amqps://lb-0:5671", "amqps://lb:5671"],
        ["amqps://lb-0:5671", "amqps://lb-1:5671", "amqps://lb:5671"],
    ]
    without = {name: found for name, found in doors(3).items() if name != "mesh-1-out-out"}
    assert told(desired(one, without), "out")[0] == ["amqps://lb-2:5671", "amqps://lb:5671"]


def test_with_one_address_for_all_the_list_is_that_one_and_without_any_there_is_none() -> None:
    assert told(desired(router(2, exposed()), {"mesh-out-out": ["lb:5671", "[2001:db8::1]:5671"]}), "out") == [
        ["amqps://lb:5671", "amqps://[2001:db8::1]:5671"],
    ] * 2
    assert told(desired(router(2, exposed())), "out") == [[], []]  # names of the cluster mean nothing there


def test_long_lists_end_and_keep_what_leads_to_any_router() -> None:
    for one in (told(desired(router(64, AMQP))), told(desired(router(64, exposed(perRouter=True)), doors(64)), "out")):
        assert {len(urls) for urls in one} == {LISTED}
        assert len({tuple(urls) for urls in one}) == 64
        assert len({urls[-1] for urls in one}) == 1
    many = {"mesh-out-out": [f"192.0.2.{k}:30000" for k in range(20)]}
    assert {len(urls) for urls in told(desired(router(9, exposed()), many), "out")} == {LISTED}


def test_routers_that_leave_are_in_no_list_and_know_those_that_stay() -> None:
    state = desired(router(2, AMQP), size_now=4)
    assert len(state.mesh.routers) == 2
    assert not any("mesh-2" in url or "mesh-3" in url for urls in told(state) for url in urls)
    (seeds,) = (o["data"] for o in state.objects if o["kind"] == "ConfigMap")
    assert f"amqp://mesh-0.mesh-mesh.{IN_CLUSTER}" in seeds["mesh-3.json"]
    assert f"amqp://mesh-2.mesh-mesh.{IN_CLUSTER}" not in seeds["mesh-3.json"]
    assert desired(router(0, AMQP), size_now=2).mesh.routers == ()


def running(state: DesiredState) -> ObservedState:
    """Everything as it is desired."""
    routers = {
        one.id: ObservedRouter(one.id, one.ordinal, RouterState.RUNNING, entities=one.entities)
        for one in state.mesh.routers
    }
    return ObservedState({(o["kind"], o["metadata"]["name"]): o for o in state.objects}, ObservedMesh(routers))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (desired(router(3, exposed(perRouter=True)), doors(2)), desired(router(3, exposed(perRouter=True)), doors(3))),
        (desired(router(2, exposed()), {}), desired(router(2, exposed()), {"mesh-out-out": ["lb:5671"]})),
        (desired(router(2, AMQP)), desired(router(2, {**AMQP, "failover": "Off"}))),
        (desired(router(2, {**AMQP, "failover": "Off"})), desired(router(2, AMQP))),
    ],
    ids=["address", "first address", "off", "on"],
)
def test_lists_change_on_running_routers_and_in_what_they_boot_with(before: DesiredState, after: DesiredState) -> None:
    assert plan(before, running(before)) == ()
    actions = plan(after, running(before))
    updates = [action for action in actions if isinstance(action, UpdateEntity)]
    assert updates
    assert {name for action in updates for name in action.changes} == {"failoverUrls"}
    (seed,) = (action for action in actions if action not in updates)
    assert isinstance(seed, ApplyObject)
    assert seed.manifest["kind"] == "ConfigMap"


def test_in_local_mode_a_list_has_the_ports_of_the_other_routers_and_then_its_own() -> None:
    places = [RouterAddresses("127.0.0.1", "127.0.0.1", 1, 2, {"amqp": 5672 + k}) for k in range(3)]
    state = desired_local(Resources(router(3, AMQP)), LocalContext(places))
    urls = [f"amqp://127.0.0.1:{5672 + k}" for k in range(3)]
    assert told(state) == [[*urls[1:], urls[0]], [urls[2], urls[0], urls[1]], urls]
    alone = desired_local(Resources(router(1, AMQP)), LocalContext(places[:1]))
    assert told(alone) == [[urls[0]]]
