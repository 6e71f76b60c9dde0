"""The scripts for images and kind: what they say where a tool is missing, what they call where all are there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.architecture.tree import REPO

pytestmark = pytest.mark.engine_independent

BASIC = ("bash", "sed", "git", "date", "dirname", "mkdir", "grep", "realpath", "rm", "uname")
MISSING = 3


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH with nothing but what every system has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in BASIC:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    return folder


def add(tools: Path, name: str, status: int = 0, info: int = 0) -> Path:
    """A program that notes its arguments; its notes. `info`: its status when it is asked whether its daemon runs."""
    notes = tools.parent / f"{name}.log"
    asked = f'[ "$1" != info ] || exit {info}'
    (tools / name).write_text(f'#!/bin/bash\n{asked}\necho "$*" >> {notes}\nexit {status}\n')
    (tools / name).chmod(0o755)
    return notes


def run(tools: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A script of the repository with that PATH alone."""
    environment = {**os.environ, "PATH": str(tools)}
    argv = [str(REPO / words[0]), *words[1:]]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("what", ["up", "down"])
def test_missing_tools_of_kind_are_named(tools: Path, what: str) -> None:
    done = run(tools, "tests/kind/kind.sh", what)
    assert (done.returncode, done.stderr.partition(".")[0]) == (MISSING, "docker is missing")
    add(tools, "docker", info=1)
    done = run(tools, "tests/kind/kind.sh", what)
    assert (done.returncode, done.stderr.partition(".")[0]) == (MISSING, "docker does not answer")
    add(tools, "docker")
    done = run(tools, "tests/kind/kind.sh", what)
    assert (done.returncode, done.stderr.partition(".")[0]) == (MISSING, "kind is missing")


def test_kind_down_removes_the_cluster(tools: Path) -> None:
    add(tools, "docker")
    notes = add(tools, "kind")
    assert run(tools, "tests/kind/kind.sh", "down").returncode == 0
    assert notes.read_text() == "delete cluster --name waymesh\n"


def test_images_need_one_of_three_builders(tools: Path) -> None:
    done = run(tools, "tools/images.sh")
    assert done.returncode == MISSING
    assert done.stderr.startswith("docker, podman and buildah cannot be used: they are not installed, or do not run.")
    add(tools, "docker", info=1)
    assert run(tools, "tools/images.sh").returncode == MISSING


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
def test_images_are_built_by_the_builder_that_is_there(tools: Path, builder: str) -> None:
    notes = add(tools, builder)
    done = run(tools, "tools/images.sh")
    assert done.returncode == 0, done.stderr
    version = yaml.safe_load((REPO / "helm/waymesh/Chart.yaml").read_text())["appVersion"]
    builds = notes.read_text().splitlines()
    assert [line.split()[2] for line in builds] == [
        f"waymesh-{part}:{version}" for part in ("router", "operator", "analytics")
    ]
    assert all(f"org.opencontainers.image.version={version}" in line for line in builds)
    assert not any("image.source" in line for line in builds)


def test_images_are_labelled_with_the_source_that_is_named(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_URL", "https://git.example.com/waymesh")
    notes = add(tools, "docker")
    assert run(tools, "tools/images.sh").returncode == 0
    builds = notes.read_text().splitlines()
    assert all("org.opencontainers.image.source=https://git.example.com/waymesh" in line for line in builds)


def test_images_of_other_architectures_are_left_out_where_they_cannot_be_built(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHITECTURES", "amd64 arm64")
    notes = add(tools, "podman")
    assert run(tools, "tools/images.sh").returncode == 0
    other = [line for line in notes.read_text().splitlines() if "--platform linux/" in line]
    assert len(other) == 3
    assert len(notes.read_text().splitlines()) == 6
    program = tools / "podman"
    program.write_text(program.read_text().replace("exit 0\n", '[[ "$*" != *--platform* ]]\n'))
    done = run(tools, "tools/images.sh")
    assert done.returncode == 0
    assert "images: left out: linux/" in done.stderr


def test_images_stop_at_the_first_that_fails(tools: Path) -> None:
    notes = add(tools, "podman", status=7)
    assert run(tools, "tools/images.sh").returncode == 7
    assert len(notes.read_text().splitlines()) == 1


def test_kind_has_three_nodes() -> None:
    nodes = yaml.safe_load((REPO / "tests/kind/kind.yaml").read_text())["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker"]
