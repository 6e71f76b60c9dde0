"""The product in the test cluster: the CRDs alone, or the whole chart as a user installs it."""

from __future__ import annotations

import time

import yaml

from tests.cluster import binaries, definitions, images, system
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.cluster.paths import REPO, say
from tests.kit.waiting import wait_until

CHART = REPO / "helm" / "waymesh"
RELEASE = "waymesh"
OPERATOR_NAMESPACE = "waymesh-system"


def prepare() -> None:
    """System packages, binaries, CRDs, images; starts nothing. Unsuitable where there can be no cluster."""
    system.ensure()
    binaries.kubernetes()
    binaries.helm()
    definitions.fetched()
    images.pause()
    images.build()


def install_crds(cluster: Cluster) -> list[str]:
    """Applies crds/*.yaml and waits until all are served; their names."""
    names = []
    for path in sorted((REPO / "crds").glob("*.yaml")):
        manifest = yaml.safe_load(path.read_text())
        cluster.api.apply(manifest)
        names.append(manifest["metadata"]["name"])
    wait_until(lambda: all(_established(cluster, name) for name in names), 120, f"Established: {' '.join(names)}")
    return names


def install_chart(cluster: Cluster, *settings: str, deadline_s: int = 300) -> Namespace:
    """`helm upgrade --install --wait` of the chart, whose images have the names of ours; the operator's namespace.

    `settings` are words of helm: `--set`, `watch.namespaces={a,b}` …
    """
    began = time.monotonic()
    space = Namespace(cluster, OPERATOR_NAMESPACE)
    # --reset-values: without values of its own, an upgrade keeps those of the release before.
    words = ["upgrade", "--install", RELEASE, str(CHART), "--create-namespace", "--reset-values", "--wait"]
    # Tests wait for several resyncs.
    words += ["--set", "resyncSeconds=5"]
    space.helm(*words, "--timeout", f"{deadline_s}s", *settings, timeout_s=deadline_s + 30)
    say(f"chart installed in {time.monotonic() - began:.1f} s")
    return space


def _established(cluster: Cluster, name: str) -> bool:
    found = cluster.api.get("CustomResourceDefinition", name)
    return found is not None and condition_status(found, "Established") == "True"
