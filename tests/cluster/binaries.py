"""Kubernetes as one binary, and helm: built from Go modules once, then found in the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.paths import HERE, cache, digest, locked, say
from tests.cluster.system import program

SOURCES = HERE / "one"
INPUTS = ("main.go", "firewall.go", "go.mod", "go.sum")
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kube-router",
    "metrics-server",
    "coredns",
    "kubectl",
)
BINARY = "kube"
HELM_VERSION = "v3.19.5"
VERSION_PACKAGE = "k8s.io/component-base/version"
PROGRESS_EVERY_S = 15


class BuildError(Exception):
    """The Go compiler refused; the text is its output's end."""


def kubernetes_version() -> str:
    """The release in go.mod, with its `v`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v[\w.-]+)", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod names no k8s.io/kubernetes"
    return found[1]


def kubernetes() -> Path:
    """A folder with every component by its name (links to one binary); built first when it is not there."""
    name = f"kube-{digest((SOURCES / part).read_bytes() for part in INPUTS)}"
    folder = cache() / name
    if not (folder / BINARY).exists():
        with locked("kube-build"):
            if not (folder / BINARY).exists():
                version = kubernetes_version()
                _build(folder, f"Kubernetes {version}", ["build", *_kubernetes_flags(version), "-o", BINARY, "."])
    return folder


def helm() -> Path:
    """The helm binary; built first when it is not there."""
    folder = cache() / f"helm-{HELM_VERSION}-for-{kubernetes_version()}"
    if not (folder / "helm").exists():
        with locked("kube-build"):
            if not (folder / "helm").exists():
                package = f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}"
                _build(folder, f"helm {HELM_VERSION}", ["install", *_helm_flags(kubernetes_version()), package])
    return folder / "helm"


def _lean(linker: str) -> list[str]:
    """No paths of this machine, no debug information; the tag keeps the linker able to drop unused methods."""
    return ["-v", "-trimpath", "-tags", "grpcnotrace", "-ldflags", linker]


def _kubernetes_flags(version: str) -> list[str]:
    major, minor = version.lstrip("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return _stamped({f"{VERSION_PACKAGE}.{name}": value for name, value in stamps.items()})


def _helm_flags(version: str) -> list[str]:
    """helm takes the Kubernetes that it renders for, where it asks none, from its own build."""
    major, minor = version.lstrip("v").split(".")[:2]
    stamps = {"internal/version.version": HELM_VERSION}
    for package in ("pkg/chartutil", "pkg/lint/rules"):
        stamps |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    return _stamped({f"helm.sh/helm/v3/{name}": value for name, value in stamps.items()})


def _stamped(values: Mapping[str, str]) -> list[str]:
    return _lean(" ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())]))


def _build(folder: Path, what: str, words: Sequence[str]) -> None:
    """Runs the Go command and puts what it made in place in one step, links of the components included."""
    say(f"building {what} from Go modules (some minutes, the first time only)")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=cache(), prefix="building-") as room:
        made = Path(room, "made")
        made.mkdir()
        arguments = [str(made / word) if word == BINARY else word for word in words]
        _compile(arguments, made, began)
        if (made / BINARY).exists():
            for component in COMPONENTS:
                (made / component).symlink_to(BINARY)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    say(f"{what}: built in {time.monotonic() - began:.0f} s")


def _compile(words: Sequence[str], made: Path, began: float) -> None:
    """The Go command beside the sources at low priority; a line now and then says how far it is."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(made), "GOFLAGS": "-buildvcs=false"}
    tail: list[str] = []
    packages, spoken = 0, began
    argv = ["nice", "-n", "10", str(program("go")), *words]
    with subprocess.Popen(argv, cwd=SOURCES, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            packages += 1
            tail = [*tail[-30:], line]
            now = time.monotonic()
            if now - spoken >= PROGRESS_EVERY_S:
                spoken = now
                say(f"{packages} packages compiled in {now - began:.0f} s")
    if process.returncode:
        raise BuildError("go " + " ".join(words) + "\n" + "".join(tail))
