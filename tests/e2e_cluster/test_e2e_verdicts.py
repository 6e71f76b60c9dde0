"""Status of resources that are invalid, or not possible yet."""

from __future__ import annotations

from tests.cluster.api import Object
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, resource

HERE = {"name": "mesh"}


def condition(found: Object, kind: str) -> Object:
    """A condition of a status, empty when there is none."""
    entries = found.get("status", {}).get("conditions", [])
    return next((entry for entry in entries if entry["type"] == kind), {})


def test_broker_without_its_secret_recovers(operator: Namespace, namespace: Namespace) -> None:
    Mesh(namespace).apply(1).converged(1)
    auth = {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "broker-login"}}
    namespace.apply(
        resource("Broker", "b", routerRef=HERE, endpoints=[{"host": "broker.example", "port": 5672}], auth=auth)
    )
    found = namespace.wait_condition("Broker", "b", "ResolvedRefs", "False")
    assert "broker-login" in condition(found, "ResolvedRefs")["message"]
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "broker-login"},
            "stringData": {"username": "u", "password": "p"},
        }
    )
    namespace.wait_condition("Broker", "b", "ResolvedRefs", "True")


def test_of_two_link_routes_with_one_pattern_the_oldest_wins(operator: Namespace, namespace: Namespace) -> None:
    Mesh(namespace).apply(1).converged(1)
    for name in ("first", "second"):
        namespace.apply(
            resource("LinkRoute", name, routerRef=HERE, containerId="broker", pattern="queue.#", direction="in")
        )
        namespace.wait_condition("LinkRoute", name, "Accepted", "True" if name == "first" else "False")
    found = namespace.get("LinkRoute", "second") or {}
    assert condition(found, "Accepted")["reason"] == "Conflicted"
    assert "first" in condition(found, "Accepted")["message"]
    namespace.delete("LinkRoute", "first")
    namespace.wait_condition("LinkRoute", "second", "Accepted", "True")


def test_router_that_wants_cert_manager_where_there_is_none(operator: Namespace, namespace: Namespace) -> None:
    namespace.apply(resource("Router", "mesh", size=1, tls={"issuer": "CertManager"}))
    found = namespace.wait_condition("Router", "mesh", "Ready", "False")
    assert any(entry["reason"] == "Stalled" for entry in found["status"]["conditions"]), found["status"]
    assert "cert-manager" in str(found["status"]["conditions"])
    namespace.patch("Router", "mesh", {"spec": {"tls": {"issuer": "Internal"}}})
    Mesh(namespace).converged(1)


def test_address_without_its_router_waits_for_it(operator: Namespace, namespace: Namespace) -> None:
    namespace.apply(resource("Address", "orders", routerRef=HERE, prefix="orders"))
    found = namespace.wait_condition("Address", "orders", "ResolvedRefs", "False")
    assert "mesh" in condition(found, "ResolvedRefs")["message"]
    Mesh(namespace).apply(1).converged(1)
    namespace.wait_condition("Address", "orders", "Programmed", "True")


def test_a_node_port_that_is_taken_holds_up_no_router(operator: Namespace, namespace: Namespace) -> None:
    taken = {"type": "NodePort", "ports": [{"port": 5672}]}
    namespace.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken"}, "spec": taken})
    (port,) = (namespace.get("Service", "taken") or {})["spec"]["ports"]
    expose = {"type": "NodePort", "nodePort": port["nodePort"], "allowUnprotected": True}
    listener = {"name": "amqp", "port": 5672, "expose": expose}
    namespace.apply(resource("Router", "mesh", size=1, listeners=[listener]))
    found = namespace.wait_condition("Router", "mesh", "Converged")
    (obstacle,) = found["status"]["obstacles"]
    assert (obstacle["part"], obstacle["reason"]) == ("exposure", "RefusedByApiServer")
    assert str(port["nodePort"]) in obstacle["message"]
    assert condition(found, "Stalled")["message"].startswith("exposure: ")
    del expose["nodePort"]
    namespace.apply(resource("Router", "mesh", size=1, listeners=[listener]))
    found = Mesh(namespace).converged(1)
    assert "obstacles" not in found["status"]
