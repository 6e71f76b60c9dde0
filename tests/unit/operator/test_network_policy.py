"""What surrounds the pods of routers: peers that may connect to their ports, and how many may be evicted at a time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.kit import CRDS, resource
from waymesh_operator.places.kubernetes.context import HTTP_PORT, MANAGEMENT_PORT, MESH_PORT, OperatorSettings
from waymesh_operator.places.kubernetes.objects import disruption_budget, network_policy, operator_namespace
from waymesh_operator.resources.crds import rule_findings, with_defaults
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router, parse_router

pytestmark = pytest.mark.engine_independent

ROUTER = Router(Ref("ns", "mesh"), size=2, listeners=(Listener("amqp", 5672),))


def rules(settings: OperatorSettings, router: Router = ROUTER) -> dict[int, Any]:
    """Who may connect by port; None: everybody."""
    spec = network_policy(router, settings)["spec"]
    return {port["port"]: rule.get("from") for rule in spec["ingress"] for port in rule["ports"]}


def test_only_the_operator_in_its_own_namespace_reaches_the_management() -> None:
    labels = {"app.kubernetes.io/name": "waymesh-operator"}
    assert rules(OperatorSettings("i", operator_namespace="waymesh-system"))[MANAGEMENT_PORT] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "waymesh-system"}},
            "podSelector": {"matchLabels": labels},
        }
    ]


def test_no_rule_lets_all_namespaces_in_but_to_what_is_for_everybody() -> None:
    for namespace in ("", "waymesh-system"):
        found = rules(OperatorSettings("i", operator_namespace=namespace))
        assert {port for port, peers in found.items() if peers is None} == {HTTP_PORT, 5672}
        assert not [peer for peers in found.values() for peer in peers or () if peer.get("namespaceSelector") == {}]
        assert found[MESH_PORT] == [{"podSelector": {"matchLabels": ANY_ROUTER}}]


def test_an_operator_without_a_namespace_opens_the_management_to_nobody() -> None:
    assert MANAGEMENT_PORT not in rules(OperatorSettings("i"))


def test_a_port_with_peers_is_open_to_them_alone() -> None:
    shop = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}
    spec = {"listeners": [
        {"name": "amqp", "port": 5672, "networkPolicyPeers": [shop, {"ipBlock": {"cidr": "192.0.2.0/24"}}]},
        {"name": "door", "port": 5671},
    ]}  # fmt: skip
    made = with_defaults(CRDS["Router"].schema, resource("Router", "mesh", **spec))
    assert not list(rule_findings(CRDS["Router"].schema, made))
    router = parse_router(made)
    found = rules(OperatorSettings("i"), router)
    assert found[5672] == [shop, {"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert found[5671] is None
    policy = network_policy(router, OperatorSettings("i"))
    assert operator_namespace(policy) == ""


@pytest.mark.parametrize("peer", [{}, {"ipBlock": {"cidr": "192.0.2.0/24"}, "podSelector": {}}])
def test_a_peer_that_says_nothing_or_too_much_is_refused(peer: dict[str, Any]) -> None:
    spec = {"listeners": [{"name": "amqp", "port": 5672, "networkPolicyPeers": [peer]}]}
    made = with_defaults(CRDS["Router"].schema, resource("Router", "mesh", **spec))
    assert "give ipBlock, or podSelector" in str(list(rule_findings(CRDS["Router"].schema, made)))


def test_the_policy_tells_the_operators_namespace() -> None:
    assert operator_namespace(network_policy(ROUTER, OperatorSettings("i", operator_namespace="sys"))) == "sys"
    assert operator_namespace(network_policy(ROUTER, OperatorSettings("i"))) == ""
    assert operator_namespace({}) == ""


@pytest.mark.parametrize("peers", [[], [{"podSelector": {}}], [{"namespaceSelector": {}}]])
def test_a_policy_that_somebody_has_changed_tells_no_namespace(peers: list[dict[str, Any]]) -> None:
    rule = {"from": peers, "ports": [{"port": MANAGEMENT_PORT, "protocol": "TCP"}]}
    assert operator_namespace({"spec": {"ingress": [{}, rule]}}) == ""


ANY_ROUTER = network_policy(ROUTER, OperatorSettings("i"))["spec"]["podSelector"]["matchLabels"]


def test_one_router_may_be_evicted_at_a_time_and_one_that_is_not_ready_at_any_time() -> None:
    """Else a node with a router that cannot become ready could not be drained."""
    budget = disruption_budget(ROUTER)
    assert (budget["apiVersion"], budget["metadata"]["name"]) == ("policy/v1", "mesh")
    assert budget["spec"] == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": ANY_ROUTER | {"waymesh.io/router": "mesh"}},
    }
