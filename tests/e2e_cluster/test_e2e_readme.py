"""The commands for a cluster in the README and in docs/broker.md, run literally."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import binaries, images
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO

COMMAND_S = 240


def blocks(page: str) -> list[str]:
    """The fenced blocks of a page."""
    return (REPO / page).read_text(encoding="utf-8").split("```")[1::2]


def lines_of(fenced: list[str]) -> list[str]:
    """Their lines without comments."""
    return [line.partition(" #")[0].rstrip() for block in fenced for line in block.splitlines()]


def readme_commands(program: str) -> list[list[str]]:
    """The README's lines that run a program, without their comments, but those of the quickstart."""
    fenced = [block for block in blocks("README.md") if "apply -k" not in block]
    return [shlex.split(line) for line in lines_of(fenced) if line.startswith(f"{program} ")]


@pytest.fixture
def run(namespace: Namespace, tmp_path: Path) -> Callable[[list[str]], str]:
    """Runs a command with a kubeconfig of its own; returns what it prints."""
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

    return run


def test_kubectl_commands(operator: Namespace, namespace: Namespace, run: Callable[[list[str]], str]) -> None:
    run(["kubectl", "config", "set-context", "--current", f"--namespace={namespace.name}"])
    commands = readme_commands("kubectl")
    assert [words[1] for words in commands] == ["apply", "wait", "waymesh", "scale", "get"]
    said = [run(words) for words in commands]
    assert "mesh-2" in said[2]
    assert "router.waymesh.io/mesh" in said[4]


def test_a_broker_by_its_page(
    operator: Namespace, namespace: Namespace, router_image: str, run: Callable[[list[str]], str]
) -> None:
    namespace.cluster.import_images([images.broker()])
    (commands,) = (block for block in blocks("docs/broker.md") if "apply -n shop -k" in block)
    lines = [line for line in lines_of([commands]) if line.startswith("kubectl ") and " create namespace " not in line]
    said = [run(["bash", "-c", line.replace("-n shop", f"-n {namespace.name}")]) for line in lines]
    first, *orders = said[2].splitlines()
    assert (first, sorted(orders)) == ("ten orders are in the queue", [f"order {number}" for number in range(10)])
    assert "broker.waymesh.io/store" in said[3]
