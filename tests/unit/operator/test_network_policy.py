"""Peers that may connect to the ports of a router's pod."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_operator.cluster.context import HTTP_PORT, MANAGEMENT_PORT, MESH_PORT, OperatorSettings
from waymesh_operator.cluster.objects import network_policy, operator_namespace
from waymesh_operator.resources.router import Listener, Ref, Router

pytestmark = pytest.mark.engine_independent

ROUTER = Router(Ref("ns", "mesh"), size=2, listeners=(Listener("amqp", 5672),))


def rules(settings: OperatorSettings) -> dict[int, Any]:
    """Who may connect by port; None: everybody."""
    spec = network_policy(ROUTER, settings)["spec"]
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


def test_the_policy_tells_the_operators_namespace() -> None:
    assert operator_namespace(network_policy(ROUTER, OperatorSettings("i", operator_namespace="sys"))) == "sys"
    assert operator_namespace(network_policy(ROUTER, OperatorSettings("i"))) == ""
    assert operator_namespace({}) == ""


ANY_ROUTER = network_policy(ROUTER, OperatorSettings("i"))["spec"]["podSelector"]["matchLabels"]
