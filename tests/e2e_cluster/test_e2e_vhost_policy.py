"""VhostPolicies of a mesh in a cluster: what the API server refuses, who is let in, and that the operator always is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import Object
from tests.cluster.command import CommandError
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, Traffic, resource, waymesh
from tests.kit.waiting import wait_until

HERE = {"name": "mesh"}
GROUP = {"name": "shop", "users": ["anonymous"], "remoteHosts": ["*"], "sources": ["orders"], "targets": ["orders"]}
TRY = """
from proton import ConnectionException, ProtonException
from proton.utils import BlockingConnection, LinkDetached
try:
    connection = BlockingConnection("mesh:5672", timeout=60)
except (ConnectionException, ProtonException) as error:
    print("connection", error)
else:
    try:
        connection.create_sender("{address}")
    except LinkDetached as error:
        print("link", error)
    else:
        print("allowed")
"""


def policy(name: str, *groups: Object, **fields: Any) -> Object:
    return resource("VhostPolicy", name, routerRef=HERE, **{"hostname": "mesh", "groups": list(groups), **fields})


def attempt(namespace: Namespace, image: str, name: str, address: str) -> str:
    """What a client in a pod gets that wants to send to an address."""
    namespace.run_pod(name, image, ["python", "-c", TRY.replace("{address}", address)])
    return namespace.wait_finished(name, 120).strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"groups": [{**GROUP, "sourcePatterns": ["a"]}]}, "sources and sourcePatterns exclude each other"),
        ({"groups": [{**GROUP, "targetPatterns": ["a"]}]}, "targets and targetPatterns exclude each other"),
        ({"groups": [GROUP, {**GROUP, "name": "other"}]}, "a user may be in one group only"),
        ({"groups": [GROUP], "allowUnknownUser": True}, "allowUnknownUser needs a group $default"),
        ({"groups": [{**GROUP, "sources": ["a*b"]}]}, "* is only allowed at the end"),
        ({"groups": [{**GROUP, "users": ["a,b"]}]}, "must not have a comma"),
        ({"groups": [{**GROUP, "maxFrameSize": 100}]}, "must be at least 512, or 0"),
        ({"groups": [{**GROUP, "maxSessions": 65537}]}, "less than or equal to 65536"),
        ({"hostname": "$management"}, "should match"),
    ],
)
def test_the_api_server_refuses_what_no_router_could_enforce(
    crds: list[str], namespace: Namespace, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommandError) as raised:
        namespace.apply(policy("p", **fields))
    assert message in raised.value.output


def test_policies_act_on_running_routers_and_the_operator_keeps_its_access(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    mesh = Mesh(namespace).apply(2)
    mesh.converged(2)
    before = mesh.lives()
    namespace.apply(policy("shop", GROUP))
    namespace.wait_condition("VhostPolicy", "shop", "Programmed", "True")
    found = namespace.wait_condition("VhostPolicy", "shop", "Ready", "False")
    assert "not enforced" in str(found["status"]["conditions"])
    assert attempt(namespace, operator_image, "before", "invoices") == "allowed"

    namespace.patch("Router", "mesh", {"spec": {"policy": {"enabled": True, "maxConnections": 100}}})
    found = namespace.wait_condition("VhostPolicy", "shop", "Ready", "True")
    assert found["status"]["active"] == "2/2"
    traffic = Traffic(namespace, operator_image)
    traffic.receive("receiver")
    traffic.send(count=2000)
    traffic.end().check(at_least=2000)
    assert attempt(namespace, operator_image, "forbidden", "invoices").startswith("link")

    def counted(found: Object) -> bool:
        groups = found["status"].get("groups", [])
        return bool(groups) and groups[0]["denied"] >= 1 and found["status"]["denied"] >= 1

    namespace.wait("VhostPolicy", "shop", counted, 120, "a refused link is counted")
    assert "shop" in waymesh(namespace, "status", "-n", namespace.name)

    namespace.apply(policy("late", GROUP, hostname="other", aliases=["mesh"]))
    found = namespace.wait_condition("VhostPolicy", "late", "Accepted", "False")
    assert "shop is older and already has one of its host names" in str(found["status"]["conditions"])
    namespace.delete("VhostPolicy", "late")

    mesh.scale(3)  # a router that comes new starts with the policy, and is managed
    mesh.converged(3)
    namespace.wait("VhostPolicy", "shop", lambda item: item["status"].get("active") == "3/3", 120, "on three routers")
    namespace.delete("VhostPolicy", "shop")
    tries = iter(range(100))
    wait_until(
        lambda: attempt(namespace, operator_image, f"nobody-{next(tries)}", "orders").startswith("connection"),
        120,
        "without a policy nobody gets in",
    )
    namespace.patch("Router", "mesh", {"spec": {"policy": None}})
    wait_until(
        lambda: attempt(namespace, operator_image, f"everybody-{next(tries)}", "invoices") == "allowed",
        120,
        "without enforcement everybody gets in",
    )
    mesh.converged(3)
    assert {name: life for name, life in mesh.lives().items() if name in before} == before
