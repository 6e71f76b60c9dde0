"""Preconditions of the other tests here: nodes, pods, names, the CRDs, and refusals of the API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.command import CommandError
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.kit.waiting import wait_until

RESOLVE = """
import socket, time
deadline = time.monotonic() + 30
while True:
    try:
        print(socket.gethostbyname("kubernetes.default.svc.cluster.local"))
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.1)
"""

SERVE = """
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
ThreadingHTTPServer(("", 8000), SimpleHTTPRequestHandler).serve_forever()
"""


def resource(kind: str, **spec: Any) -> dict[str, Any]:
    """A resource of ours called `x`."""
    return {"apiVersion": "waymesh.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def test_pod_runs_and_finds_services_by_name(namespace: Namespace, router_image: str) -> None:
    namespace.run_pod("resolve", router_image, ["python", "-c", RESOLVE])
    assert namespace.wait_finished("resolve").strip() == namespace.cluster.network.api_service


def test_pod_of_a_stateful_set_is_reached_by_name(namespace: Namespace, router_image: str) -> None:
    """Headless Service, probe, non-root user and a read-only root file system, as router pods have them."""
    container = {
        "name": "main",
        "image": router_image,
        "imagePullPolicy": "Never",
        "command": ["python", "-c", SERVE],
        "workingDir": "/tmp",
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1},
        "securityContext": {"readOnlyRootFilesystem": True, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    }
    labels = {"app": "peer"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    port = {"port": 8000}
    namespace.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "peers"},
                "spec": {"clusterIP": "None", "selector": labels, "ports": [port]},
            },
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "peer"},
                "spec": {
                    "serviceName": "peers",
                    "replicas": 2,
                    "podManagementPolicy": "Parallel",
                    "selector": {"matchLabels": labels},
                    "template": pod,
                },
            },
        ]
    )
    namespace.wait_pods("app=peer", 2)
    name = f"peer-1.peers.{namespace.name}.svc"

    def page() -> str:
        try:
            return namespace.exec("peer-0", "wget", "-q", "-O", "-", f"http://{name}:8000/")
        except CommandError:
            return ""  # the name is not known everywhere at once

    assert "<html" in wait_until(page, 180, "the page of the other pod")
    assert namespace.exec("peer-0", "id", "-u").strip() == "10001"


def test_second_node_takes_pods_and_goes(namespace: Namespace, second_node: str, router_image: str) -> None:
    namespace.run_pod("away", router_image, ["python", "-c", RESOLVE], nodeName=second_node)
    assert namespace.wait_finished("away").strip() == namespace.cluster.network.api_service


@pytest.mark.whole_cluster
def test_api_server_comes_back(namespace: Namespace) -> None:
    namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}})
    namespace.cluster.restart_component("kube-apiserver")
    kept = namespace.wait("ConfigMap", "kept", lambda found: True)
    assert kept["data"] == {"a": "b"}


def test_every_definition_is_established(cluster: Cluster, crds: list[str]) -> None:
    links = ("autolinks", "brokers", "exchanges", "linkroutes", "routers", "routerlinks")
    assert crds == [f"{plural}.waymesh.io" for plural in ("addresses", *links, "vhostpolicies")]
    for name in crds:
        found = cluster.api.get("CustomResourceDefinition", name)
        assert found is not None
        assert condition_status(found, "NonStructuralSchema") in (None, "False"), found["status"]
        assert condition_status(found, "NamesAccepted") == "True"


def test_kubectl_explains_the_fields(namespace: Namespace, crds: list[str]) -> None:
    def explained() -> bool:
        try:
            return "Number of routers" in namespace.kubectl("explain", "router.spec.size")
        except CommandError:
            return False  # the API server publishes the descriptions of a CRD some time after the CRD

    wait_until(explained, 180, "an explanation")


def test_defaults_are_filled_in(namespace: Namespace, crds: list[str]) -> None:
    namespace.apply(resource("Router"))
    spec = json.loads(namespace.kubectl("get", "rtr", "x", "-o", "json"))["spec"]
    assert (spec["size"], spec["role"], spec["topology"]) == (1, "interior", "Auto")
    assert spec["listeners"][0]["port"] == 5672


def test_scale_subresource(namespace: Namespace, crds: list[str]) -> None:
    namespace.apply(resource("Router", size=3))
    namespace.kubectl("scale", "router/x", "--replicas=5")
    found = namespace.get("Router", "x")
    assert found is not None
    assert found["spec"]["size"] == 5


ROUTER = {"routerRef": {"name": "mesh"}}
REFUSED = {
    "size": (resource("Router", size=65), "spec.size"),
    "same ports": (
        resource("Router", listeners=[{"name": "a", "port": 5672}, {"name": "b", "port": 5672}]),
        "two listeners have the same port",
    ),
    "plain without TLS": (
        resource("Router", listeners=[{"name": "a", "port": 5672, "auth": "plain"}]),
        "would send passwords in clear text",
    ),
    "unknown topology": (resource("Router", topology="Star"), 'supported values: "Auto", "Full", "Chordal"'),
    "unknown field": (resource("Router", sise=3), 'unknown field "spec.sise"'),
    "prefix and pattern": (resource("Address", **ROUTER, prefix="a", pattern="b"), "exactly one of prefix and pattern"),
    "neither prefix nor pattern": (resource("Address", **ROUTER), "exactly one of prefix and pattern"),
    "no mesh named": (resource("Address", prefix="a"), "spec.routerRef: Required value"),
    "broker and container": (
        resource("AutoLink", **ROUTER, address="a", direction="in", brokerRef={"name": "b"}, containerId="c"),
        "brokerRef",
    ),
    "password without TLS": (
        resource(
            "Broker", **ROUTER, endpoints=[{"host": "h"}], auth={"mechanism": "PLAIN", "secretRef": {"name": "s"}}
        ),
        "would send the password in clear text",
    ),
    "link route to nothing": (resource("LinkRoute", **ROUTER, prefix="a", direction="in"), "brokerRef"),
    "port below 1024": (resource("Router", listeners=[{"name": "a", "port": 443}]), "cannot bind a port below 1024"),
    "control characters": (resource("Address", **ROUTER, prefix="a\tb"), "must not have control characters"),
    "a last line end": (resource("AutoLink", **ROUTER, address="a\n", direction="in", containerId="c"), "line ends"),
    "no quantity": (resource("Router", pod={"resources": {"limits": {"memory": "512MB"}}}), "memory"),
    "one delivery of none": (resource("Router", telemetry={"sampleOneIn": 0}), "spec.telemetry.sampleOneIn"),
    "a claim that nothing uses": (
        resource("Router", telemetry={"target": "EmptyDir", "claimRef": {"name": "c"}}),
        "claimRef is required with target: Claim",
    ),
    "users in their former shape": (
        resource("Router", listeners=[{"name": "a", "port": 5672, "auth": "scram", "users": {"name": "u"}}]),
        "write users as {secretRef: {name: ...}}",
    ),
    "a certificate without TLS": (
        resource("Router", listeners=[{"name": "a", "port": 5672, "certificate": {"secretRef": {"name": "s"}}}]),
        "certificate requires TLS; set tls: true",
    ),
    "authorities without client certificates": (
        resource(
            "Router",
            listeners=[{"name": "a", "port": 5672, "tls": True, "clientAuthorities": {"secretRef": {"name": "s"}}}],
        ),
        "set auth: mtls",
    ),
    "a claim in its former shape": (
        resource("Router", telemetry={"target": "Claim", "claimName": "c"}),
        "claimRef: {name: ...}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_manifest_is_refused_in_clear_words(namespace: Namespace, crds: list[str], case: str) -> None:
    manifest, words = REFUSED[case]
    assert words in namespace.refused(manifest)
    assert namespace.get(manifest["kind"], "x") is None


def test_a_patch_of_the_target_keeps_the_claim_only_with_off(namespace: Namespace, crds: list[str]) -> None:
    namespace.apply(resource("Router", telemetry={"target": "Claim", "claimRef": {"name": "files"}}))

    def set_target(target: str | None) -> None:
        patch = json.dumps({"spec": {"telemetry": {"target": target}}})
        namespace.kubectl("patch", "router/x", "--type=merge", "-p", patch)

    for target in ("EmptyDir", None):
        with pytest.raises(CommandError, match="claimRef is required with target: Claim"):
            set_target(target)
    found = namespace.get("Router", "x") or {}
    assert found["spec"]["telemetry"]["target"] == "Claim"
    set_target("Off")
    found = namespace.get("Router", "x") or {}
    assert found["spec"]["telemetry"] | {"target": "Off", "claimRef": {"name": "files"}} == found["spec"]["telemetry"]


def test_role_cannot_change(namespace: Namespace, crds: list[str]) -> None:
    namespace.apply(resource("Router", role="interior"))
    assert "role cannot be changed" in namespace.refused(resource("Router", role="standalone"))
