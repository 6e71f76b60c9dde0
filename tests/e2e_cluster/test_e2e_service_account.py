"""Pods log in with the token of their ServiceAccount: no password anywhere, and each is held to its addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.api import Object
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, resource
from tests.kit.waiting import wait_until

CLIENT = Path(__file__).with_name("token_client.py")
RAW = Path(__file__).parents[1] / "interop" / "raw_client.py"
LISTENER = {"name": "amqps", "port": 5671, "tls": True, "auth": "token", "tokenProfile": "pods"}
PROFILE = {"name": "pods", "serviceAccounts": {"audience": "waymesh"}}


def shop(namespace: str) -> Object:
    """What pods of the ServiceAccount `shop` may do."""
    user = f"system:serviceaccount:{namespace}:shop"
    group = {"name": "shop", "users": [user], "remoteHosts": ["*"], "sources": ["orders"], "targets": ["orders"]}
    return resource("VhostPolicy", "shop", routerRef={"name": "mesh"}, hostname="mesh", groups=[group])


class Clients:
    """Pods with the client and, unless they are to have none, with a token."""

    def __init__(self, namespace: Namespace, image: str) -> None:
        self.namespace = namespace
        self.image = image
        self._count = 0
        data = {"token_client.py": CLIENT.read_text(), "raw_client.py": RAW.read_text()}
        namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "client"}, "data": data})
        namespace.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop"}})

    def run(self, *words: str, account: str = "shop", audience: str = "waymesh") -> str:
        """What the client says at last; no `audience`: without a token."""
        self._count += 1
        name = f"client-{self._count}"
        volumes: list[dict[str, Any]] = [
            {"name": "client", "configMap": {"name": "client"}},
            {"name": "tls", "secret": {"secretName": "mesh-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ]
        if audience:
            token = {"audience": audience, "expirationSeconds": 3600, "path": "token"}
            volumes.append({"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}})
        container = {
            "name": "main",
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": ["python", "/client/token_client.py", *words],
            "env": [{"name": "HOST", "value": f"mesh.{self.namespace.name}.svc"}],
            "volumeMounts": [{"name": item["name"], "mountPath": f"/{item['name']}"} for item in volumes],
        }
        spec = {"serviceAccountName": account, "automountServiceAccountToken": False, "volumes": volumes}
        self.namespace.run_pod(name, self.image, [], containers=[container], **spec)
        return self.namespace.wait_finished(name, 120).strip().splitlines()[-1]

    def until(self, wanted: str, *words: str, **options: str) -> None:
        """Again and again until the client says it: files of Secrets reach a pod's folder after a while."""
        said: list[str] = []

        def same() -> bool:
            said.append(self.run(*words, **options))
            return said[-1] == wanted

        wait_until(same, 180, lambda: f"{wanted}; it was {said}")


def test_pods_log_in_with_their_service_account_and_are_held_to_its_addresses(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    namespace.apply(shop(namespace.name))
    mesh = Mesh(namespace).apply(1, tokenProfiles=[PROFILE], listeners=[LISTENER], policy={"enabled": True})
    mesh.converged(1)
    namespace.wait_condition("VhostPolicy", "shop", "Ready", "True")
    before = mesh.lives()
    clients = Clients(namespace, operator_image)
    assert clients.run("exchange", "orders") == "exchanged"
    assert clients.run("attach", "invoices") == "detached amqp:unauthorized-access"
    assert clients.run("attach", "orders", audience="https://kubernetes.default.svc") == "login 1"
    assert clients.run("attach", "orders", account="default") == "closed amqp:unauthorized-access"
    assert clients.run("anonymous", audience="") == "not let in"
    pod = mesh.pods()["mesh-0"]["spec"]
    sources = [source for volume in pod["volumes"] for source in (volume.get("projected") or {}).get("sources", ())]
    assert not [source for source in sources if "serviceAccountToken" in source], "routers have no token themselves"

    # All of it changes on running routers.
    assert clients.run("hold") == "attached"
    limited = {**LISTENER, "maxConnections": 1}
    namespace.patch("Router", "mesh", {"spec": {"listeners": [limited], "maxMemory": "2Gi"}})
    namespace.wait_condition("Router", "mesh", "Programmed", "True")
    clients.until("closed amqp:resource-limit-exceeded", "hold")
    other = {**PROFILE, "serviceAccounts": {"audience": "other"}}
    namespace.patch("Router", "mesh", {"spec": {"tokenProfiles": [other], "listeners": [LISTENER]}})
    clients.until("exchanged", "exchange", "orders", audience="other")
    assert clients.run("exchange", "orders") == "login 1"
    assert mesh.lives() == before

    policy = namespace.get("NetworkPolicy", "mesh")
    assert policy is not None
    ports = {rule["ports"][0]["port"]: "from" in rule for rule in policy["spec"]["ingress"]}
    assert ports == {55671: True, 55672: True, 9090: False}, "clients reach the listener, nobody else the rest"
    assert {"port": 5671, "protocol": "TCP"} in policy["spec"]["ingress"][-1]["ports"]
    assert namespace.refused(
        resource("Router", "bad", tokenProfiles=[PROFILE], listeners=[{**LISTENER, "tls": False}])
    ).count("tokens are accepted over TLS only")
    assert "must be the name of one of spec.tokenProfiles" in namespace.refused(
        resource("Router", "bad", listeners=[LISTENER])
    )
    assert "needs a unit" in namespace.refused(resource("Router", "bad", maxMemory=400))
