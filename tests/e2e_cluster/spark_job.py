"""The Spark job in the test cluster, by the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.cluster import binaries, images
from tests.cluster.api import Object
from tests.cluster.command import run
from tests.cluster.install import CHART
from tests.cluster.namespace import Namespace, condition_status

RUN_S = 400.0
IMAGE = {"repository": images.ANALYTICS.rpartition(":")[0], "tag": images.VERSION, "pullPolicy": "Never"}
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For runs so short that optimizing code costs more than it saves."""
SMALL = {
    "arguments": [f"--conf=spark.{part}.extraJavaOptions={QUICK}" for part in ("driver", "executor")],
    "driverMemory": "1g",
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
    "executor": {"memory": "512m", "cores": 1, "cpu": "100m"},
}


def claim(namespace: Namespace, folder: Path) -> str:
    """Pods get a folder of the node as the claim `files`; the name of its PersistentVolume, to delete at the end."""
    folder.chmod(0o777)
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}, **common}
    name = namespace.name
    namespace.apply(
        [
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "files"},
                "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
            },
        ]
    )
    return name


def install(namespace: Namespace, out: str, **values: Any) -> str:
    """What the chart has for the job, into the namespace; the name of the Job."""
    place = {"input": {"claim": "files"}, "output": {"claim": "files", "path": out}}
    told = {"analytics": {"job": True, "image": IMAGE, **place, **SMALL, **values}}
    file = namespace.cluster.folder / "analytics.yaml"
    file.write_text(yaml.safe_dump(told))
    words = ["--namespace", namespace.name, "--values", str(file), "--show-only", "templates/analytics.yaml"]
    namespace.apply(run(binaries.helm(), "template", out, CHART, *words))
    return f"{out}-waymesh-analytics-1"


def complete(namespace: Namespace, job: str, run_s: float = RUN_S) -> None:
    """Until the Job is Complete; with its log in the message where it fails."""

    def ended(found: Object) -> bool:
        return "True" in (condition_status(found, "Complete"), condition_status(found, "Failed"))

    found = namespace.wait("Job", job, ended, run_s, "ended")
    assert condition_status(found, "Complete") == "True", namespace.kubectl("logs", f"job/{job}")


def executors(namespace: Namespace) -> set[str]:
    """Executor pods that were there."""
    names = {event["involvedObject"]["name"] for event in namespace.all("Event")}
    return {name for name in names if "-exec-" in name}
