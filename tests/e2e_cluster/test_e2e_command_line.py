"""`waymesh` and `kubectl waymesh` on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import binaries
from tests.cluster.namespace import Namespace, yaml_text
from tests.e2e_cluster.own_operator import own_operator
from tests.e2e_cluster.scene import COMMAND_S, Mesh, resource, waymesh


def test_command_line_on_a_mesh(namespace: Namespace, alone: None, router_image: str, tmp_path: Path) -> None:
    inside = ("-n", namespace.name)
    mesh = Mesh(namespace)
    with own_operator(namespace, router_image):
        mesh.apply(2, paused=False)
        namespace.apply(resource("Address", "orders", routerRef={"name": "mesh"}, prefix="orders"))
        mesh.converged(2)
        namespace.wait_condition("Address", "orders", "Ready")

        told = waymesh(namespace, "status", *inside)
        assert "mesh-1" in told
        assert "orders" in told
        kinds = [item["kind"] for item in json.loads(waymesh(namespace, "status", *inside, "-o", "json"))]
        assert kinds == ["Router", "Address"]
        assert "1 connections" in waymesh(namespace, "topology", "mesh", *inside)
        assert "mesh-1" in waymesh(namespace, "stat", *inside, "--pod", "mesh-0", "--nodes")
        rows = json.loads(waymesh(namespace, "manage", *inside, "--pod", "mesh-1", "query", "--type", "router"))
        assert [row["id"] for row in rows] == ["mesh-1"]

        assert "nothing to do" in waymesh(namespace, "plan", *inside, "--detailed-exitcode")
        manifests = tmp_path / "more.yaml"
        manifests.write_text(yaml_text(resource("Address", "bills", routerRef={"name": "mesh"}, prefix="bills")))
        told = waymesh(namespace, "plan", *inside, "-f", str(manifests), "--detailed-exitcode", status=2)
        assert "mesh-0: create address bills" in told
        assert namespace.get("Address", "bills") is None

        assert "mesh-1 is drained" in waymesh(namespace, "drain", "mesh-1", *inside)
        assert "mesh-1 serves again" in waymesh(namespace, "drain", "mesh-1", *inside, "--undo")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("status", "nobody"), "there is no Router nobody"),
        (("drain", "nobody-0"), "there is no Router or router pod nobody-0"),
        (("stat", "--pod", "nobody"), "there is no Router or router pod nobody"),
        (("plan", "nobody"), "there is no Router nobody"),
        (("stat",), "choose a router with --pod"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_command_line_says_what_is_not_there(
    namespace: Namespace, crds: list[str], words: tuple[str, ...], says: str
) -> None:
    told = waymesh(namespace, *words, "-n", namespace.name, status=1)
    assert says in told
    assert "Traceback" not in told


def test_command_line_is_found_by_kubectl(namespace: Namespace, crds: list[str], tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-waymesh"
    entry = "import sys; from waymesh_operator.cli.main import main; sys.argv[0] = 'kubectl-waymesh'; main()"
    plugin.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{entry}" "$@"\n')
    plugin.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(namespace.cluster.kubeconfig), "PATH": path}
    argv = [str(binaries.kubernetes() / "kubectl"), "waymesh", "status", "-n", namespace.name]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert f"no Router in namespace {namespace.name}" in done.stdout, done.stderr
