"""From an empty cluster to a report, by the script that `make kind-up` runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import binaries, images
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO

WALK_S = 600


@pytest.fixture
def volume(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    """A volume for the claim of the example, which a storage class provides elsewhere."""
    folder = tmp_path / "files"
    folder.mkdir()
    folder.chmod(0o777)
    spec = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}, "accessModes": ["ReadWriteOnce"]}
    claim = {"namespace": "quickstart", "name": "files"}
    manifest = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "quickstart"}}
    cluster.api.create(manifest | {"spec": spec | {"claimRef": claim}})
    yield
    # By kubectl: the API server has closed the connection of `cluster.api`, unused for minutes.
    space = Namespace(cluster, "quickstart")
    space.kubectl("delete", "--wait=false", "namespace/quickstart", "persistentvolume/quickstart")


@pytest.mark.empty_cluster
def test_the_report_says_what_the_producer_says(
    cluster: Cluster, volume: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.import_images(images.build("router", "operator", "analytics"))
    path = os.pathsep.join(
        [str(binaries.kubernetes()), str(binaries.helm().parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path}
    done = subprocess.run(
        [REPO / "tests/kind/walk.sh", tmp_path],
        env=environment, capture_output=True, text=True, timeout=WALK_S, check=False,
    )  # fmt: skip
    with capfd.disabled():
        print(f"\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    (sent,) = re.findall(r"^sent: (.*)$", done.stdout, re.MULTILINE)
    said = {address: int(count) for count, address in re.findall(r"(\d+) to ([^,]+)", sent)}
    assert set(said.values()) == {1000}
    reported: Counter[str] = Counter()
    for row in json.loads((tmp_path / "traffic.json").read_text()):
        reported[row["address"]] += row["deliveries"]
    assert {address: reported[address] for address in said} == said
    assert "<html" in (tmp_path / "report.html").read_text()


def test_the_readme_has_the_commands_of_the_walk() -> None:
    script = (REPO / "tests/kind/walk.sh").read_text()
    walked = [line.removeprefix("step ") for line in script.splitlines() if re.match("step (helm|kubectl) ", line)]
    readme = (REPO / "README.md").read_text().split("```")[1::2]
    block = next(text for text in readme if "kubectl apply -k" in text)
    lines = [line.partition(" #")[0].rstrip() for line in block.splitlines()]
    commands = [line for line in lines if line.startswith(("helm ", "kubectl "))]
    assert commands
    assert [line for line in commands if line not in walked] == []
