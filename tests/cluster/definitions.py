"""The APIs of routes that are no part of Kubernetes: their CRDs as published in Go modules, fetched once."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.api import ApiError, Object
from tests.cluster.command import run
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import condition_status
from tests.cluster.paths import cache, digest, locked, say
from tests.cluster.system import program
from tests.kit.waiting import wait_until

GATEWAY_API = ("sigs.k8s.io/gateway-api@v1.5.1", "h1:RqVRIlkhLhUO8wOHKTLnTJA6o/1un4po4/6M1nRzdd0=")
OPENSHIFT = (
    "github.com/openshift/api@v0.0.0-20251015095338-264e80a2b6e7",
    "h1:Ot2fbEEPmF3WlPQkyEW/bUCV38GMugH/UmZvxpWceNc=",
)
"""Modules with the checksums of their content, as in a go.sum."""
_OF_GATEWAY = "config/crd/experimental/gateway.networking.k8s.io_"
FILES = {
    # The experimental channel: the standard one of this version has no TCPRoute.
    GATEWAY_API: [f"{_OF_GATEWAY}{kinds}.yaml" for kinds in ("gatewayclasses", "gateways", "tlsroutes", "tcproutes")],
    OPENSHIFT: ["route/v1/zz_generated.crd-manifests/routes.crd.yaml"],
}
DEADLINE_S = 120


def fetched() -> list[Path]:
    """The files with the CRDs; from the Go module proxy when they are not there."""
    folder = cache() / f"definitions-{digest([json.dumps(sorted(FILES.items())).encode()])}"
    if not folder.exists():
        with locked("definitions"):
            if not folder.exists():
                _fetch(folder)
    return sorted(folder.iterdir())


@contextmanager
def route_apis(cluster: Cluster) -> Iterator[None]:
    """Gateway API and the Routes of OpenShift, with nobody behind them, for as long as the context lasts.

    Other tests rely on their absence, so they are gone at the end.
    """
    manifests = [yaml.safe_load(path.read_text()) for path in fetched()]
    try:
        for manifest in manifests:
            cluster.api.apply(manifest)
        wait_until(lambda: all(_served(cluster, manifest) for manifest in manifests), DEADLINE_S, "APIs of routes")
        yield
    finally:
        for manifest in manifests:
            cluster.api.delete("CustomResourceDefinition", manifest["metadata"]["name"])
        wait_until(lambda: not any(_live(cluster, manifest) for manifest in manifests), DEADLINE_S, "no APIs of routes")


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache(), prefix="fetching-") as room:
        made = Path(room, "made")
        made.mkdir()
        for (module, checksum), files in FILES.items():
            say(f"fetching the CRDs of {module}")
            found = json.loads(run(program("go"), "mod", "download", "-json", module, cwd=Path(room), timeout_s=600))
            assert found["Sum"] == checksum, f"{module} has the checksum {found['Sum']}"
            for file in files:
                shutil.copyfile(Path(found["Dir"], file), made / Path(file).name)
        made.rename(folder)


def _live(cluster: Cluster, manifest: Object) -> Object | None:
    return cluster.api.get("CustomResourceDefinition", manifest["metadata"]["name"])


def _served(cluster: Cluster, manifest: Object) -> bool:
    """Whether the API answers. The first list starts its cache. Without that, its removal would fail, which the API
    server tries again at growing intervals, up to minutes."""
    found = _live(cluster, manifest)
    if found is None or condition_status(found, "Established") != "True":
        return False
    spec = manifest["spec"]
    version = next(one["name"] for one in spec["versions"] if one["served"])
    try:
        cluster.api.request("GET", f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
    except ApiError:
        return False
    return True
