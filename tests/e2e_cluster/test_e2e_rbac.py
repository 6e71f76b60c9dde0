"""The rights that the chart gives the operator are those that it uses, as the API server's audit log tells."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.api import Object
from tests.cluster.definitions import route_apis
from tests.cluster.install import RELEASE, install_chart
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, resource
from tests.kit.waiting import wait_until
from waymesh_operator.places.kubernetes.watches import HEARTBEAT

HERE = {"name": "mesh"}
Right = tuple[str, str, str]
"""API group, resource (with subresource), verb."""
UNUSED: dict[Right, str] = {
    ("route.openshift.io", "routes/custom-host", "create"): "OpenShift asks for it where a Route names its host",
}
"""Rights that this test does not see used, and why the operator needs them."""
SEEN_S = 180
GATEWAY = {"type": "Gateway", "gatewayRef": {"name": "edge"}}
WAYS: dict[str, dict[str, Any]] = {
    "TLSRoute": {**GATEWAY, "host": "a.example.org"},
    "TCPRoute": {**GATEWAY, "allowUnprotected": True},
    "Route": {"type": "Route"},
    "Ingress": {"type": "Ingress", "host": "a.example.org"},
}
"""What exposes a listener by each kind of route."""


def exposed(k: int, expose: dict[str, Any]) -> dict[str, Any]:
    """Listener number k."""
    secure = {} if "allowUnprotected" in expose else {"tls": True, "auth": "mtls"}
    return {"name": f"l{k}", "port": 5671 + k, **secure, "expose": expose}


@contextmanager
def definitions(cluster: Cluster, api_version: str, *kinds: str) -> Iterator[None]:
    """Definitions of kinds that take any fields."""
    group, _, version = api_version.partition("/")
    for kind in kinds:
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
        definition = {"kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"}, "spec": spec}
        cluster.api.apply({"apiVersion": "apiextensions.k8s.io/v1", **definition})
    yield
    for kind in kinds:
        cluster.api.delete("CustomResourceDefinition", f"{kind.lower()}s.{group}")


@pytest.fixture
def cert_manager(cluster: Cluster) -> Iterator[None]:
    """The API of cert-manager, with nobody behind it."""
    with definitions(cluster, "cert-manager.io/v1", "Certificate", "Issuer"):
        yield


@pytest.mark.whole_cluster
def test_operator_has_the_rights_that_it_uses_and_no_others(
    cluster: Cluster, operator: Namespace, namespace: Namespace, cert_manager: None
) -> None:
    live_through(namespace)
    with_cert_manager(namespace)
    with route_apis(cluster):
        with_routes(namespace)
    account = f"system:serviceaccount:{operator.name}:{RELEASE}"

    def left() -> set[Right]:
        return granted(cluster, operator) - used(cluster, account)

    wait_until(lambda: left() <= UNUSED.keys(), SEEN_S, lambda: f"granted and never used: {sorted(left())}")
    assert left() == UNUSED.keys(), "used after all: remove it from the list"
    assert forbidden(cluster, operator) == []


@pytest.mark.whole_cluster
def test_rights_are_enough_for_an_operator_of_one_namespace(
    cluster: Cluster, operator: Namespace, namespace: Namespace
) -> None:
    try:
        install_chart(cluster, "--set", f"watch.namespaces={{{namespace.name}}}")
        assert cluster.api.get("ClusterRole", RELEASE) is None
        wait_until(lambda: beats(cluster, namespace.name), SEEN_S, "a heartbeat in the namespace")
        mesh = Mesh(namespace).apply(1)
        mesh.converged(1)
        mesh.scale(2)
        mesh.converged(2)
        assert forbidden(cluster, operator) == []
    finally:
        install_chart(cluster)


def beats(cluster: Cluster, namespace: str) -> bool:
    """Whether the operator has written its heartbeat there."""
    return cluster.api.get("ConfigMap", HEARTBEAT, namespace) is not None


def live_through(space: Namespace) -> None:
    """A mesh with everything that can refer to it comes, changes and goes."""
    mesh = Mesh(space).apply(2)
    login = {"username": "router", "password": "secret"}
    space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": login})
    place, auth = {"host": "127.0.0.1", "port": 5999}, {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}}
    group = {"name": "all", "users": ["anonymous"], "remoteHosts": ["*"], "sources": ["*"], "targets": ["*"]}
    dependents = [
        resource("Broker", "store", routerRef=HERE, endpoints=[place], auth=auth),
        resource("AutoLink", "in", routerRef=HERE, brokerRef={"name": "store"}, address="orders", direction="in"),
        resource("LinkRoute", "archive", routerRef=HERE, containerId="archive", prefix="archive", direction="both"),
        resource("Address", "orders", routerRef=HERE, prefix="orders"),
        resource("VhostPolicy", "shop", routerRef=HERE, hostname="mesh", groups=[group]),
        resource("Exchange", "news", routerRef=HERE, address="news", bindings=[{"nextHopAddress": "orders"}]),
    ]
    link = resource("RouterLink", "north", routerRef=HERE, role="inter-router", tokenSecretRef={"name": "none"})
    space.apply([*dependents, link])
    for manifest in dependents:
        space.wait_condition(manifest["kind"], manifest["metadata"]["name"], "Programmed")
    space.wait_condition("RouterLink", "north", "ResolvedRefs", "False")  # there is no mesh to link to
    mesh.converged(2)
    mesh.scale(1)
    mesh.converged(1)
    space.patch("Router", "mesh", {"spec": {"listeners": []}})
    space.wait_gone("Service", "mesh")
    for manifest in (*dependents, link):
        space.delete(manifest["kind"], manifest["metadata"]["name"])
    space.delete("Router", "mesh")
    space.wait_gone("StatefulSet", "mesh")


def with_cert_manager(space: Namespace) -> None:
    """A mesh whose certificates come from elsewhere, and whose pods cannot start meanwhile; then it has its own."""
    telemetry = {"target": "Claim", "claimRef": {"name": "none"}}
    mesh = Mesh(space, "certs").apply(1, tls={"issuer": "CertManager"}, telemetry=telemetry)
    space.wait("Certificate", "certs-tls", lambda found: True)
    space.wait_condition("Router", "certs", "Converged", "False")
    metadata = {
        "name": "certs-issued",
        "labels": {"waymesh.io/router": "certs"},
        "annotations": {"cert-manager.io/certificate-name": "certs-tls"},
    }
    issued: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    space.apply({**issued, "data": {"tls.crt": base64.b64encode(b"-").decode()}})
    mesh.apply(1)
    mesh.converged(1)
    space.wait_gone("Certificate", "certs-tls")
    space.wait_gone("Issuer", "certs-ca")


def with_routes(space: Namespace) -> None:
    """A mesh whose listeners are reached by each kind of route, and then by none."""
    Mesh(space, "routes").apply(1, listeners=[exposed(k, way) for k, way in enumerate(WAYS.values())])
    for kind, k in zip(WAYS, range(len(WAYS)), strict=True):
        space.wait(kind, f"routes-out-l{k}", lambda found: True)
    Mesh(space, "routes").apply(1, listeners=[exposed(k, {"type": "ClusterIP"}) for k in range(len(WAYS))])
    for k, kind in enumerate(WAYS):
        space.wait_gone(kind, f"routes-out-l{k}")
    space.delete("Router", "routes")
    space.wait_gone("StatefulSet", "routes")


def granted(cluster: Cluster, operator: Namespace) -> set[Right]:
    """What the chart's roles allow."""
    roles = [cluster.api.get("ClusterRole", RELEASE), operator.get("Role", f"{RELEASE}-home")]
    return {
        (group, name, verb)
        for role in roles
        for rule in (role or {})["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }


def used(cluster: Cluster, account: str) -> set[Right]:
    """What the operator has asked for since the cluster began. An apply that makes an object needs `create` as well."""
    found = set()
    for entry in cluster.audit_log():
        target = entry.get("objectRef", {})
        if entry["user"]["username"] == account and "resource" in target:
            verbs = [entry["verb"]]
            if entry["verb"] == "patch" and entry.get("responseStatus", {}).get("code") == 201:
                verbs.append("create")
            name = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            found |= {(target.get("apiGroup", ""), name, verb) for verb in verbs}
    return found


def forbidden(cluster: Cluster, operator: Namespace) -> list[str]:
    """Requests of the present operator that no role allowed.

    One that is replaced as its rights change may ask for what it is about to lose. (A namespace that is being deleted
    refuses with status 403 as well, but not because of a role.)
    """
    pods = {
        pod["metadata"]["name"]
        for pod in operator.all("Pod", "app.kubernetes.io/name=waymesh-operator")
        if "deletionTimestamp" not in pod["metadata"]
    }
    asked = [entry for entry in cluster.audit_log() if pod_of(entry) in pods]
    assert asked, "requests of the present operator are in the audit log"
    return [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in asked
        if entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


def pod_of(entry: Object) -> str:
    """The pod whose token a request had."""
    (name,) = entry["user"].get("extra", {}).get("authentication.kubernetes.io/pod-name", [""])
    return str(name)
