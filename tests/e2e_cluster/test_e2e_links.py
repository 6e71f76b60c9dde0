"""Meshes, joined by tokens, a listener for routers and RouterLinks: two in the cluster, a third outside of it in local
mode, and edge routers that join one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.api import Object
from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.scene import Mesh, resource, waymesh
from tests.kit.clients import exchange
from tests.kit.local_mode import mesh_up

LINK_S = 240.0
HOME = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: home}
spec: {size: 1, listeners: [{name: amqp, port: 5672}]}
---
apiVersion: waymesh.io/v1alpha1
kind: RouterLink
metadata: {name: north}
spec: {routerRef: {name: home}, tokenSecretRef: {name: home-north}}
---
"""
"""A mesh outside of the cluster. It connects to nodes; the certificate of the door gets their addresses by a token."""
DOORS = {"door": ("inter-router", 5671, "NodePort"), "edges": ("edge", 5670, "ClusterIP")}


def doors(space: Namespace) -> list[dict[str, Any]]:
    """The listeners for other routers; clients connect to the first listener."""
    made: list[dict[str, Any]] = [{"name": "amqp", "port": 5672, "tls": False, "auth": "none"}]
    for name, (role, port, exposed) in DOORS.items():
        authorities = {"secretRef": {"name": f"{name}-links"}, "revocation": True}
        secure = {"tls": True, "auth": "mtls", "certificate": {"secretRef": {"name": name}}}
        secure |= {"clientAuthorities": authorities, "expose": {"type": exposed}}
        made.append({"name": name, "port": port, "role": role, **secure})
    return made


def token(space: Namespace, folder: Path, name: str, door: str, *options: str) -> str:
    """The manifest of a new token: the Secret NAME-north."""
    file = folder / f"{name}.yaml"
    words = ("north", "--name", name, "--listener", door, "-n", space.name, *options)
    waymesh(space, "link", "create-token", *words, "--output", str(file))
    assert file.stat().st_mode & 0o077 == 0
    return file.read_text(encoding="utf-8")


def link(name: str, role: str, **spec: Any) -> Object:
    """The RouterLink of the Router `name`, with its token."""
    mesh, secret = {"name": name}, {"name": f"{name}-north"}
    return resource("RouterLink", name, routerRef=mesh, role=role, tokenSecretRef=secret, **spec)


def across(space: Namespace, sender: str, receiver: str, address: str) -> None:
    """One message from a client of one pod to a client of another."""
    one, other = (space.wait("Pod", name, lambda found: "podIP" in found["status"]) for name in (sender, receiver))
    exchange(f"amqp://{one['status']['podIP']}:5672", f"amqp://{other['status']['podIP']}:5672", address)


def test_a_token_joins_two_meshes_until_it_is_revoked(
    operator: Namespace, namespace: Namespace, tmp_path: Path
) -> None:
    Mesh(namespace, "north").apply(1, listeners=doors(namespace))
    open_ = [{"name": "amqp", "port": 5672, "tls": False, "auth": "none"}]
    Mesh(namespace, "south").apply(2, listeners=open_)
    Mesh(namespace, "leaf").apply(1, role="edge", listeners=open_)

    def addresses(found: Object) -> bool:
        rows = found.get("status", {}).get("listeners") or []
        return sum(bool(row.get("addresses")) for row in rows) == len(DOORS)

    namespace.wait("Router", "north", addresses, LINK_S, "the addresses of the doors")
    inside = f"north-out-door.{namespace.name}.svc:5671"
    for name, door, options in (("south", "door", ("--address", inside)), ("leaf", "edges", ())):
        namespace.kubectl("apply", "-f", "-", stdin=token(namespace, tmp_path, name, door, *options))
    Mesh(namespace, "north").converged(1)
    Mesh(namespace, "south").converged(2)
    namespace.apply(link("south", "inter-router", cost=3))
    namespace.apply(link("leaf", "edge"))
    for name, count in (("south", 2), ("leaf", 1)):
        found = namespace.wait_condition("RouterLink", name, "Ready", "True", LINK_S)
        assert (found["status"]["connected"], found["status"]["peers"]) == (f"{count}/{count}", ["north-0"])
    Mesh(namespace, "leaf").converged(1)
    across(namespace, "north-0", "south-1", "from-the-north")
    across(namespace, "leaf-0", "south-0", "from-the-edge")
    south = namespace.get("Pod", "south-1")
    assert south is not None
    manifests = HOME + token(namespace, tmp_path, "home", "door")
    with mesh_up(tmp_path, manifests, "RouterLink/north is active on 1/1") as home:
        exchange(home.url("home-0"), f"amqp://{south['status']['podIP']}:5672", "from-outside-of-the-cluster")
    told = waymesh(namespace, "link", "list", "north", "--listener", "door", "-n", namespace.name)
    assert "south" in told
    assert "valid" in told

    waymesh(namespace, "link", "revoke", "north", "--name", "south", "--listener", "door", "-n", namespace.name)
    namespace.wait_condition("RouterLink", "south", "Ready", "False", LINK_S)
    leaf = namespace.get("RouterLink", "leaf")
    assert leaf is not None
    assert condition_status(leaf, "Ready") == "True"
    Mesh(namespace, "north").converged(1)
