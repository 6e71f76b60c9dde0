"""Writes go.mod and go.sum of the cluster binary anew, for another version of Kubernetes.

Kubernetes' own module names its parts (`k8s.io/api` …) by folders of its repository; outside of it each must be
replaced by the published module of the same release.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.cluster.command import run
from tests.cluster.paths import HERE, say

SOURCES = HERE / "one"
STAGED = re.compile(r"^\s*(k8s\.io/[a-z-]+) => \./staging/", re.MULTILINE)

OTLP = "go.opentelemetry.io/otel/exporters/otlp/otlptrace"
HELD = ("github.com/go-openapi/jsonreference", OTLP, f"{OTLP}/otlptracegrpc")
SPLIT = "cloud.google.com/go@v0.26.0"
"""Packages of it are modules of their own by now, and would be found twice."""


def regenerate(kubernetes: str, etcd: str, coredns: str, kube_router: str, metrics_server: str) -> None:
    """New go.mod and go.sum. Versions without `v`, e.g. 1.34.4; etcd is the one that this Kubernetes is tested with."""
    say(f"resolving the modules of Kubernetes {kubernetes}")
    for name in ("go.mod", "go.sum"):
        (SOURCES / name).unlink(missing_ok=True)
    go("mod", "init", "waymesh/kube")
    found = json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@v{kubernetes}"))
    staged = STAGED.findall(Path(found["GoMod"]).read_text())
    parts = f"v0.{kubernetes.partition('.')[2]}"
    edits = [f"-replace={module}={module}@{parts}" for module in staged]
    go("mod", "edit", f"-require=k8s.io/kubernetes@v{kubernetes}", *edits)
    go("get", f"github.com/coredns/coredns@v{coredns}", f"go.etcd.io/etcd/server/v3@v{etcd}")
    go("get", f"github.com/cloudnativelabs/kube-router/v2@v{kube_router}")
    # What Kubernetes is compiled with stays as its release has it; metrics-server can do without the newer ones.
    released = [go("list", "-m", "-f", "{{.Path}}={{.Path}}@{{.Version}}", module).strip() for module in HELD]
    go("mod", "edit", *(f"-replace={module}" for module in released), f"-exclude={SPLIT}")
    go("get", f"sigs.k8s.io/metrics-server@v{metrics_server}")
    go("mod", "tidy")


def go(*words: str) -> str:
    """The go command's stdout, run beside the sources."""
    return run(shutil.which("go") or "go", *words, cwd=SOURCES, timeout_s=1200)
