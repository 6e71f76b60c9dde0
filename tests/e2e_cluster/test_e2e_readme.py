"""The README's commands for a cluster, run literally."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cluster import binaries
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO

COMMAND_S = 180


def readme_commands(program: str) -> list[list[str]]:
    """The README's lines that run a program, without their comments, but those of the quickstart."""
    fenced = (REPO / "README.md").read_text(encoding="utf-8").split("```")[1::2]
    fenced = [block for block in fenced if "apply -k" not in block]
    lines = [line.partition(" #")[0] for block in fenced for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(f"{program} ")]


def test_kubectl_commands(operator: Namespace, namespace: Namespace, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(namespace.cluster.kubeconfig.read_text())
    path = os.pathsep.join([str(binaries.kubernetes()), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "KUBECONFIG": str(config), "PATH": path}

    def run(words: list[str]) -> str:
        done = subprocess.run(
            words, cwd=REPO, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run(["kubectl", "config", "set-context", "--current", f"--namespace={namespace.name}"])
    commands = readme_commands("kubectl")
    assert [words[1] for words in commands] == ["apply", "wait", "waymesh", "scale", "get"]
    said = [run(words) for words in commands]
    assert "mesh-2" in said[2]
    assert "router.waymesh.io/mesh" in said[4]
