"""Routes of Gateway API and of OpenShift, Ingresses and load balancers: what the API server takes and stores of them.

Nobody is behind these APIs here: the test itself writes what a Gateway, OpenShift or a cloud writes into their status.
The CRDs are the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cluster.api import Object
from tests.cluster.definitions import route_apis
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.own_operator import OwnOperator, own_operator
from tests.e2e_cluster.scene import READY_S, Mesh
from tests.kit.waiting import wait_until
from waymesh_operator.places.kubernetes.context import RouteApis
from waymesh_operator.places.kubernetes.exposure import exposure_objects
from waymesh_operator.resources.router import parse_router

pytestmark = pytest.mark.usefixtures("alone")

HOST = "amqp.example.org"
APIS = RouteApis(
    {
        "TLSRoute": "gateway.networking.k8s.io/v1",
        "TCPRoute": "gateway.networking.k8s.io/v1alpha2",
        "Route": "route.openshift.io/v1",
        "Ingress": "networking.k8s.io/v1",
    }
)
"""The newest versions of the published APIs."""
EDGE = {"name": "edge", "namespace": "infra", "sectionName": "amqps"}
WAYS: dict[str, dict[str, Any]] = {
    "tls": {"type": "Gateway", "gatewayRef": EDGE, "host": HOST, "perRouter": True, "annotations": {"a.org/b": "c"}},
    "tcp": {"type": "Gateway", "gatewayRef": {"name": "edge"}, "allowUnprotected": True},
    "apps": {"type": "Route"},
    "web": {"type": "Ingress", "host": f"web.{HOST}", "ingressClassName": "nowhere"},
    "cloud": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
}
MADE = [
    ("TLSRoute", "mesh-out-tls"),
    ("TLSRoute", "mesh-0-out-tls"),
    ("TCPRoute", "mesh-out-tcp"),
    ("Route", "mesh-out-apps"),
    ("Ingress", "mesh-out-web"),
]
"""The routes to the listeners of WAYS."""


def listeners(**ways: dict[str, Any]) -> list[dict[str, Any]]:
    """A listener for each way, with TLS unless everybody may connect; without an `expose` for an empty one."""
    found = []
    for port, (name, expose) in enumerate(ways.items(), 5671):
        secure = {} if "allowUnprotected" in expose else {"tls": True, "auth": "mtls"}
        found.append({"name": name, "port": port, **secure} | ({"expose": expose} if expose else {}))
    return found


def wait_stalled(space: Namespace) -> None:
    """The Router says which APIs it lacks, and its mesh works all the same."""

    def holds(found: Object) -> bool:
        if not condition_status(found, "Stalled") == condition_status(found, "Converged") == "True":
            return False
        (stalled,) = (item for item in found["status"]["conditions"] if item["type"] == "Stalled")
        lacking = {kind: f"no API for a {kind}" in stalled["message"] for kind in APIS.served}  # they go one by one
        return stalled["reason"] == "ApiMissing" and lacking == missing

    missing = {"TLSRoute": True, "TCPRoute": True, "Route": True, "Ingress": False}
    space.wait("Router", "mesh", holds, READY_S, f"Converged, and Stalled for lack of {missing}")


def wait_row(space: Namespace, listener: str, **expected: Any) -> None:
    """The listener's row of the status has these values."""

    def holds(found: Object) -> bool:
        rows = found.get("status", {}).get("listeners", ())
        return any(item["name"] == listener and expected.items() <= item.items() for item in rows)

    space.wait("Router", "mesh", holds, READY_S, f"{listener}: {expected}")


def check_stored(space: Namespace) -> None:
    """What the operator makes of the Router is stored field by field: the API server has dropped or changed nothing."""
    router = space.get("Router", "mesh")
    assert router is not None
    wanted = exposure_objects(replace(parse_router(router), uid=router["metadata"]["uid"]), 1, APIS)
    assert {(item["kind"], item["metadata"]["name"]) for item in wanted} >= set(MADE)
    for manifest in wanted:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        assert differences(space.get(kind, name), manifest, f"{kind} {name}") == []


def differences(live: Any, wanted: Any, where: str) -> list[str]:
    """The fields of what is wanted that are otherwise in what is there, which may have more."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        return [line for key in wanted for line in differences(live.get(key), wanted[key], f"{where}.{key}")]
    if isinstance(live, list) and isinstance(wanted, list | tuple) and len(live) == len(wanted):
        return [line for k, item in enumerate(wanted) for line in differences(live[k], item, f"{where}[{k}]")]
    return [] if live == wanted else [f"{where}: {live!r} instead of {wanted!r}"]


def write_status(space: Namespace, kind: str, name: str, status: Object) -> None:
    """What whoever serves objects of a kind says of one."""
    space.patch(kind, name, {"status": status}, "status")


def of_gateway(accepted: bool) -> Object:
    """The status of a TLSRoute."""
    condition = {
        "type": "Accepted",
        "status": "True" if accepted else "False",
        "reason": "Accepted" if accepted else "NotAllowedByListeners",
        "message": "",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"parents": [{"parentRef": EDGE, "controllerName": "example.org/gateway", "conditions": [condition]}]}


def check_at_rest(operator: OwnOperator) -> None:
    """The operator leaves routes and Services as they are: what the API server has added to them is no difference."""
    wait_turns(operator, 1)  # what was done last is counted as soon as its turn ends
    before = writes(operator)
    wait_turns(operator, 3)
    assert writes(operator) == before


def wait_turns(operator: OwnOperator, count: int) -> None:
    """Returns after so many turns of the operator have ended."""
    before = operator.turns()
    wait_until(lambda: operator.turns() >= before + count, READY_S, f"{count} turns")


def writes(operator: OwnOperator) -> dict[tuple[str, str], float]:
    """How often it has written routes and Services."""
    kinds = {"Service", *APIS.served}
    asked = operator.requests().items()
    return {(verb, kind): count for (verb, kind), count in asked if verb in ("apply", "delete") and kind in kinds}


def wait_routes(space: Namespace, names: list[tuple[str, str]]) -> list[Object]:
    """The routes, when they are there."""
    return [space.wait(kind, name, lambda found: True, READY_S) for kind, name in names]


def wait_no_routes(space: Namespace, names: list[tuple[str, str]]) -> None:
    for kind, name in names:
        space.wait_gone(kind, name)


def test_routes_come_and_go_with_their_apis_and_follow_the_router(
    cluster: Cluster, namespace: Namespace, router_image: str
) -> None:
    with own_operator(namespace, router_image) as operator:
        mesh = Mesh(namespace).apply(1, listeners=listeners(**WAYS))
        wait_stalled(namespace)
        with route_apis(cluster):
            mesh.converged(1)
            check_stored(namespace)
            check_addresses(namespace)
            check_put_back(namespace)
            check_at_rest(operator)
        wait_stalled(namespace)
        with route_apis(cluster):
            wait_routes(namespace, MADE)
            check_changes(namespace, mesh)
            namespace.delete("Router", "mesh")
            wait_no_routes(namespace, MADE)


def check_addresses(space: Namespace) -> None:
    """The status names the addresses when routes have some, and otherwise the reason."""
    only = [{"id": "mesh-0", "addresses": [f"mesh-0.{HOST}:443"]}]
    wait_row(space, "tls", exposure="Gateway", addresses=[f"{HOST}:443"], routers=only)
    wait_row(space, "tcp", addresses=[], message="the address is that of the Gateway; expose.host shows it here")
    wait_row(space, "apps", exposure="Route", addresses=[], message="the Route has no host yet")
    wait_row(space, "web", exposure="Ingress", addresses=[f"web.{HOST}:443"])
    wait_row(space, "cloud", exposure="LoadBalancer", addresses=[], message="the load balancer has no address yet")
    write_status(space, "Service", "mesh-out-cloud", {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}})
    wait_row(space, "cloud", addresses=["192.0.2.7:5675"])
    write_status(space, "TLSRoute", "mesh-out-tls", of_gateway(accepted=False))
    refused = "TLSRoute mesh-out-tls is refused: NotAllowedByListeners"
    wait_row(space, "tls", addresses=[], message=refused, routers=only)
    write_status(space, "TLSRoute", "mesh-out-tls", of_gateway(accepted=True))
    wait_row(space, "tls", addresses=[f"{HOST}:443"])
    admitted = {"type": "Admitted", "status": "True"}
    row = {"host": "mesh.apps.example.org", "routerName": "default", "conditions": [admitted]}
    write_status(space, "Route", "mesh-out-apps", {"ingress": [row]})
    wait_row(space, "apps", addresses=["mesh.apps.example.org:443"])


def check_put_back(space: Namespace) -> None:
    """A route that somebody changes or deletes is restored."""
    space.patch("TLSRoute", "mesh-out-tls", {"spec": {"hostnames": ["other.example.org"]}})
    space.wait("TLSRoute", "mesh-out-tls", lambda found: found["spec"]["hostnames"] == [HOST])
    (before,) = wait_routes(space, [("Route", "mesh-out-apps")])
    space.delete("Route", "mesh-out-apps")
    is_new: Callable[[Object], bool] = lambda found: found["metadata"]["uid"] != before["metadata"]["uid"]  # noqa: E731
    space.wait("Route", "mesh-out-apps", is_new)


def check_changes(space: Namespace, mesh: Mesh) -> None:
    """Another type replaces the route, none leaves neither route nor Service; in the end all are there again."""
    mesh.apply(1, listeners=listeners(**WAYS | {"tls": {"type": "Route", "host": HOST}}))
    wait_no_routes(space, [("TLSRoute", "mesh-out-tls"), ("TLSRoute", "mesh-0-out-tls")])
    (route,) = wait_routes(space, [("Route", "mesh-out-tls")])
    assert route["spec"]["host"] == HOST
    mesh.apply(1, listeners=listeners(**WAYS | {"tls": {"type": "Ingress", "host": HOST}}))
    wait_no_routes(space, [("Route", "mesh-out-tls")])
    wait_routes(space, [("Ingress", "mesh-out-tls")])
    mesh.apply(1, listeners=listeners(tls={}, apps={}))
    wait_no_routes(space, [*MADE, ("Ingress", "mesh-out-tls")])
    wait_until(lambda: not space.all("Service", "waymesh.io/listener"), READY_S, "no Services of listeners")
    mesh.apply(1, listeners=listeners(**WAYS))
    wait_routes(space, MADE)


@pytest.fixture
def default_class(cluster: Cluster) -> Iterator[str]:
    """The class of Ingresses that name none."""
    annotations = {"ingressclass.kubernetes.io/is-default-class": "true"}
    made = {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass"}
    cluster.api.create(
        made | {"metadata": {"name": "edge", "annotations": annotations}, "spec": {"controller": "example.org/ingress"}}
    )
    yield "edge"
    cluster.api.delete("IngressClass", "edge")


def test_an_ingress_has_the_class_that_is_set_or_the_default_of_the_cluster(
    namespace: Namespace, router_image: str, default_class: str
) -> None:
    named = {"type": "Ingress", "host": f"a.{HOST}", "ingressClassName": "nowhere"}
    with own_operator(namespace, router_image) as operator:
        Mesh(namespace).apply(1, listeners=listeners(named=named, unnamed={"type": "Ingress", "host": f"b.{HOST}"}))
        wait_row(namespace, "named", addresses=[f"a.{HOST}:443"])
        wait_row(namespace, "unnamed", addresses=[f"b.{HOST}:443"])
        first, second = wait_routes(namespace, [("Ingress", "mesh-out-named"), ("Ingress", "mesh-out-unnamed")])
        assert (first["spec"]["ingressClassName"], second["spec"]["ingressClassName"]) == ("nowhere", default_class)
        Mesh(namespace).converged(1)
        check_at_rest(operator)
