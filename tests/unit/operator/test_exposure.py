"""Listeners with `expose`: what is refused, the objects that are made, and the addresses in the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.operator.kit import CRDS, resource
from tests.unit.operator.test_operator_objects import CONTEXT
from waymesh_operator.places.kubernetes.context import ClusterContext, RouteApis
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.exposure import LONGEST, exposure_name
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.planning.actions import DeleteObject
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.resources.crds import findings, rule_findings
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Router, parse_router
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState

pytestmark = pytest.mark.engine_independent

SAFE = {"tls": True, "auth": "mtls"}
GATEWAY = {"type": "Gateway", "gatewayRef": {"name": "edge", "namespace": "infra", "sectionName": "amqps"}}
ALL_APIS = RouteApis(
    {
        "TLSRoute": "gateway.networking.k8s.io/v1alpha3",
        "TCPRoute": "gateway.networking.k8s.io/v1alpha2",
        "Route": "route.openshift.io/v1",
        "Ingress": "networking.k8s.io/v1",
    }
)


def manifest(expose: Mapping[str, Any], **listener: Any) -> dict[str, Any]:
    one = {"name": "amqps", "port": 5671, **SAFE, **listener, "expose": dict(expose)}
    return resource("Router", "mesh", size=2, listeners=[one])


def wrong(expose: Mapping[str, Any], old: Mapping[str, Any] | None = None, **listener: Any) -> list[str]:
    made = manifest(expose, **listener)
    schema = CRDS["Router"].schema
    assert not list(findings({**schema["properties"]["spec"]}, made["spec"]))
    former = manifest(old, **listener) if old is not None else None
    return [message for _, message in rule_findings(schema, made, former)]


def router(expose: Mapping[str, Any], **listener: Any) -> Router:
    made = manifest(expose, **listener)
    assert not list(rule_findings(CRDS["Router"].schema, made)), "the test's own manifest"
    return replace(parse_router(made), uid="u-1")


def desired(one: Router, context: ClusterContext = CONTEXT, apis: RouteApis = ALL_APIS) -> DesiredState:
    return desired_cluster(Resources(one), replace(context, routes=apis))


def made(one: Router, apis: RouteApis = ALL_APIS) -> dict[str, Any]:
    """The objects of exposed listeners, by kind and name."""
    objects = desired(one, apis=apis).objects
    return {f"{o['kind']} {o['metadata']['name']}": o for o in objects if "-out-" in o["metadata"]["name"]}


@pytest.mark.parametrize(
    ("expose", "listener", "word"),
    [
        ({"type": "NodePort"}, {"tls": False, "auth": "none"}, "allowUnprotected"),
        ({"type": "NodePort"}, {"tls": True, "auth": "none"}, "allowUnprotected"),
        ({"type": "LoadBalancer"}, {"tls": False, "auth": "scram"}, "allowUnprotected"),
        ({"type": "Route", "allowUnprotected": True}, {"tls": False, "auth": "none"}, "server name"),
        ({"type": "Ingress", "host": "a.org", "allowUnprotected": True}, {"tls": False, "auth": "none"}, "server name"),
        (GATEWAY, {}, "expose.host"),
        ({**GATEWAY, "host": "10.0.0.1"}, {}, "set expose.host to a host name"),
        ({"type": "Ingress", "host": "10.0.0.1"}, {}, "set expose.host to a host name"),
        ({**GATEWAY, "allowUnprotected": True, "perRouter": True}, {"tls": False, "auth": "none"}, "perRouter"),
        ({"type": "NodePort", "host": "a.org"}, {}, "host and port"),
        ({"type": "LoadBalancer", "port": 443}, {}, "host and port"),
        ({"type": "Ingress"}, {}, "set host"),
        ({"type": "Route", "perRouter": True}, {}, "set host"),
        ({"type": "ClusterIP", "nodePort": 30000}, {}, "nodePort"),
        ({"type": "ClusterIP", "externalTrafficPolicy": "Local"}, {}, "externalTrafficPolicy"),
        ({"type": "NodePort", "loadBalancerClass": "a.org/b"}, {}, "loadBalancerClass"),
        ({"type": "NodePort", "loadBalancerSourceRanges": ["10.0.0.0/8"]}, {}, "loadBalancerSourceRanges"),
        ({"type": "Gateway", "host": "a.org"}, {}, "gatewayRef"),
        ({"type": "Route", "gatewayRef": {"name": "edge"}}, {}, "gatewayRef"),
        ({"type": "Route", "ingressClassName": "nginx"}, {}, "ingressClassName"),
    ],
)
def test_settings_that_cannot_act_or_open_too_much_are_refused(
    expose: dict[str, Any], listener: dict[str, Any], word: str
) -> None:
    (message,) = wrong(expose, **listener)
    assert word in message


def test_what_is_meant_is_accepted() -> None:
    assert wrong({"type": "NodePort", "allowUnprotected": True}, tls=False, auth="none") == []
    assert wrong({"type": "ClusterIP", "perRouter": True}, tls=False, auth="none") == []
    assert wrong({**GATEWAY, "allowUnprotected": True}, tls=False, auth="none") == []
    assert wrong({**GATEWAY, "host": "10.0.0.1", "allowUnprotected": True}, tls=False, auth="none") == []
    assert wrong({**GATEWAY, "host": "a.example.org", "perRouter": True}) == []
    assert wrong({"type": "LoadBalancer"}, {"type": "LoadBalancer"}) == []


def test_the_class_of_a_load_balancer_stays_as_kubernetes_lets_nobody_change_it() -> None:
    chosen = {"type": "LoadBalancer", "loadBalancerClass": "a.org/b"}
    (message,) = wrong(chosen, {"type": "LoadBalancer"})
    assert "cannot be changed" in message
    assert wrong(chosen, chosen) == wrong(chosen, {"type": "NodePort"}) == []


def test_a_listener_has_a_service_with_what_is_set() -> None:
    found = made(router({"type": "NodePort", "nodePort": 30071, "externalTrafficPolicy": "Local"}))
    assert list(found) == ["Service mesh-out-amqps"]
    spec = found["Service mesh-out-amqps"]["spec"]
    assert (spec["type"], spec["externalTrafficPolicy"]) == ("NodePort", "Local")
    (port,) = spec["ports"]
    assert (port["port"], port["nodePort"], port["appProtocol"]) == (5671, 30071, "amqps")
    balanced = made(
        router(
            {
                "type": "LoadBalancer",
                "loadBalancerClass": "a.org/b",
                "loadBalancerSourceRanges": ["192.0.2.0/24"],
                "annotations": {"cloud.org/internal": "true"},
            }
        )
    )["Service mesh-out-amqps"]
    assert balanced["spec"]["loadBalancerClass"] == "a.org/b"
    assert balanced["spec"]["loadBalancerSourceRanges"] == ["192.0.2.0/24"]
    assert balanced["metadata"]["annotations"]["cloud.org/internal"] == "true"


def test_each_router_has_a_service_with_per_router() -> None:
    found = made(router({"type": "NodePort", "nodePort": 30071, "perRouter": True}))
    assert list(found) == ["Service mesh-out-amqps", "Service mesh-0-out-amqps", "Service mesh-1-out-amqps"]
    one = found["Service mesh-1-out-amqps"]["spec"]
    assert one["selector"]["statefulset.kubernetes.io/pod-name"] == "mesh-1"
    assert "nodePort" not in one["ports"][0]


def test_names_fit_kubernetes_and_stay_different() -> None:
    names = {exposure_name("m" * 50, f"listener-{k:06}") for k in range(9)}
    assert len(names) == 9
    assert all(len(name) <= LONGEST for name in names)


def test_doors_of_two_routers_have_different_names() -> None:
    assert exposure_name("mesh", "amqps") == "mesh-out-amqps"
    assert exposure_name("mesh", "amqps", "mesh-0") == "mesh-0-out-amqps"
    alike = [
        ("mesh", "amqps", "mesh-0"),
        ("mesh-0", "amqps", ""),
        ("mesh-0", "amqps", "mesh-0-1"),
        ("mesh-0-1", "amqps", ""),
        ("a", "b-out-c", ""),
        ("a-out-b", "c", ""),
        ("a", "out-b", ""),
        ("a-out", "b", ""),
        ("m" * 44 + "-out-" + "m" * 5, "n", ""),
        ("m" * 44, "m" * 5 + "-out-n", ""),
    ]
    assert len({exposure_name(*parts) for parts in alike}) == len(alike)
    assert all(len(exposure_name(*parts)) <= LONGEST for parts in alike)


def test_a_gateway_leads_tls_by_name_and_the_rest_by_port() -> None:
    found = made(router({**GATEWAY, "host": "amqp.example.org", "perRouter": True, "annotations": {"a": "b"}}))
    assert [name for name in found if name.startswith("TLSRoute")] == [
        "TLSRoute mesh-out-amqps", "TLSRoute mesh-0-out-amqps", "TLSRoute mesh-1-out-amqps",
    ]  # fmt: skip
    route = found["TLSRoute mesh-1-out-amqps"]
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1alpha3"
    assert route["metadata"]["annotations"]["a"] == "b"
    assert route["spec"] == {
        "parentRefs": [{"name": "edge", "namespace": "infra", "sectionName": "amqps"}],
        "hostnames": ["mesh-1.amqp.example.org"],
        "rules": [{"backendRefs": [{"name": "mesh-1-out-amqps", "port": 5671}]}],
    }
    assert found["Service mesh-1-out-amqps"]["spec"]["type"] == "ClusterIP"
    bare = made(router({**GATEWAY, "allowUnprotected": True}, tls=False, auth="none"))
    assert "hostnames" not in bare["TCPRoute mesh-out-amqps"]["spec"]


def test_openshift_and_ingress_pass_tls_through() -> None:
    route = made(router({"type": "Route"}))["Route mesh-out-amqps"]["spec"]
    assert route["tls"]["termination"] == "passthrough"
    assert "host" not in route
    ingress = made(router({"type": "Ingress", "host": "a.org", "ingressClassName": "nginx"}))["Ingress mesh-out-amqps"]
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/ssl-passthrough"] == "true"
    assert ingress["spec"]["ingressClassName"] == "nginx"
    (rule,) = ingress["spec"]["rules"]
    assert rule["host"] == "a.org"
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "mesh-out-amqps", "port": {"number": 5671}}


def test_without_the_api_the_router_is_stalled_and_says_why_and_the_rest_is_done() -> None:
    one = router({"type": "Route"})
    for apis, word in ((RouteApis(), "no API"), (RouteApis(forbidden=frozenset({"Route"})), "rbac.exposure")):
        state = desired(one, apis=apis)
        assert len(state.objects) > 5
        assert [kind for kind in made(one, apis) if kind.startswith("Route ")] == []
        conditions = {item["type"]: item for item in status(one, state, {})["conditions"]}
        assert (conditions["Stalled"]["status"], conditions["Stalled"]["reason"]) == ("True", "ApiMissing")
        assert word in conditions["Stalled"]["message"]
        assert conditions["Programmed"]["reason"] == "ApiMissing"


def test_what_is_no_longer_exposed_goes_in_the_version_in_which_it_is_there() -> None:
    before = {(o["kind"], o["metadata"]["name"]): o for o in desired(router({**GATEWAY, "host": "a.org"})).objects}
    after = desired(router({"type": "ClusterIP"}))
    removed = [action for action in plan(after, ObservedState(before)) if isinstance(action, DeleteObject)]
    assert removed == [DeleteObject("TLSRoute", "mesh-out-amqps", "gateway.networking.k8s.io/v1alpha3")]


def status(one: Router, state: DesiredState, live: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    routers = {
        name: ObservedRouter(name, ordinal, RouterState.RUNNING) for ordinal, name in enumerate(("mesh-0", "mesh-1"))
    }
    observed = ObservedState(live, ObservedMesh(routers))
    return router_status(one, MeshSnapshot(state, observed, datetime(2026, 1, 1, tzinfo=UTC)), {})


def row(expose: Mapping[str, Any], changes: Mapping[tuple[str, str], Any], **listener: Any) -> dict[str, Any]:
    """The listener's row when the API server has added `changes` to the objects that were made."""
    one = router(expose, **listener)
    state = desired(one)
    live: dict[tuple[str, str], Any] = {(o["kind"], o["metadata"]["name"]): dict(o) for o in state.objects}
    for key, change in changes.items():
        live[key] = {**live.get(key, {}), **change}
    (found,) = status(one, state, live)["listeners"]
    schema = CRDS["Router"].schema["properties"]["status"]["properties"]["listeners"]["items"]
    assert list(findings(schema, found)) == []
    return dict(found)


def pods(*nodes: str) -> dict[tuple[str, str], Any]:
    return {("Pod", f"mesh-{k}"): {"status": {"hostIP": node}} for k, node in enumerate(nodes)}


def service(node_port: int) -> dict[str, Any]:
    return {"spec": {"ports": [{"name": "amqps", "port": 5671, "nodePort": node_port}]}}


def test_the_status_tells_nodes_and_their_ports() -> None:
    changes = {
        ("Service", "mesh-out-amqps"): service(30001),
        ("Service", "mesh-0-out-amqps"): service(30002),
        ("Service", "mesh-1-out-amqps"): service(30003),
        **pods("192.0.2.1", "2001:db8::2"),
    }
    found = row({"type": "NodePort", "perRouter": True}, changes)
    assert found == {
        "name": "amqps",
        "exposure": "NodePort",
        "addresses": ["192.0.2.1:30001", "[2001:db8::2]:30001"],
        "routers": [
            {"id": "mesh-0", "addresses": ["192.0.2.1:30002"]},
            {"id": "mesh-1", "addresses": ["[2001:db8::2]:30003"]},
        ],
    }
    assert row({"type": "NodePort"}, {})["message"] == "no router runs yet"


def test_the_status_tells_addresses_of_load_balancers() -> None:
    given = {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "lb.example.org", "ip": "192.0.2.8"}]}}
    found = row({"type": "LoadBalancer"}, {("Service", "mesh-out-amqps"): {"status": given}})
    assert found["addresses"] == ["192.0.2.9:5671", "lb.example.org:5671"]
    assert "message" not in found
    waiting = row({"type": "LoadBalancer"}, {})
    assert (waiting["addresses"], waiting["message"]) == ([], "the load balancer has no address yet")


def test_the_status_tells_host_names_and_refusals() -> None:
    assert row({**GATEWAY, "host": "a.org", "port": 5671}, {})["addresses"] == ["a.org:5671"]
    assert row({"type": "Ingress", "host": "a.org"}, {})["addresses"] == ["a.org:443"]
    admitted = {"status": {"ingress": [{"host": "x.apps.org", "conditions": [{"type": "Admitted", "status": "True"}]}]}}
    assert row({"type": "Route"}, {("Route", "mesh-out-amqps"): admitted})["addresses"] == ["x.apps.org:443"]
    refusal = {"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "message": "not from here"}
    found = row(
        {**GATEWAY, "host": "a.org"},
        {("TLSRoute", "mesh-out-amqps"): {"status": {"parents": [{"conditions": [refusal]}]}}},
    )
    assert found["addresses"] == []
    assert found["message"] == "TLSRoute mesh-out-amqps is refused: NotAllowedByListeners: not from here"
    assert row({"type": "ClusterIP"}, {})["addresses"] == ["mesh-out-amqps.ns.svc:5671"]
