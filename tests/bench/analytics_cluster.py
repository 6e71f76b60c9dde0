"""What the Spark job costs on two executors in the test cluster: a day, and one of ten times as many records.

    python -m tests.bench.analytics_cluster FOLDER --deliveries 1000000 --links 260000

FOLDER gets the exports, when they are not there yet, and the reports. Needs what `make test-cluster` needs. Counted are
the processes of driver and executors, not those of Kubernetes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.bench.analytics import Cost, family, watch
from tests.cluster import images
from tests.cluster.install import prepare
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.spark_job import claim, complete, executors, install

TIMES = (1, 10)
EXECUTORS = 2
RUN_S = 1200.0
ROOTS = (b"waymesh_analytics", b"KubernetesExecutorBackend")
"""What command lines of drivers and executors contain."""


def export(folder: Path, deliveries: int, links: int) -> None:
    """The day's records, made in the folder unless they are there."""
    if not folder.exists():
        sizes = ["--deliveries", str(deliveries), "--links", str(links)]
        subprocess.run([sys.executable, "-m", "tests.bench.export", str(folder), *sizes], check=True)


def job_processes(cluster: Cluster) -> set[int]:
    """The drivers and executors in the cluster, and their descendants."""
    found: set[int] = set()
    for node in cluster.nodes:
        for pid in family(node.init):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if pid not in found and any(root in line for root in ROOTS):
                found.update(family(pid))
    return found


def measure(cluster: Cluster, folder: Path, times: int) -> Cost:
    """One run of the job in a namespace of its own, from lines to report."""
    with new_namespace(cluster, f"bench-{times}") as namespace, ThreadPoolExecutor(1) as background:
        volume = claim(namespace, folder)
        place = {"input": {"claim": "files", "path": f"export-{times}"}, "arguments": []}
        job = install(namespace, f"out-{times}", executors=EXECUTORS, **place)
        waiting = background.submit(complete, namespace, job, RUN_S)
        cost = watch(lambda: not waiting.done(), lambda: job_processes(cluster))
        waiting.result()
        print(f"executors: {len(executors(namespace))}")
        cluster.api.delete("PersistentVolume", volume)
    return cost


@contextmanager
def new_namespace(cluster: Cluster, name: str) -> Iterator[Namespace]:
    """A namespace until the block ends."""
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    space = Namespace(cluster, name)
    space.wait("ServiceAccount", "default", lambda found: True)
    yield space
    cluster.api.delete("Namespace", name)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Measure the Spark job on two executors in the test cluster.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--deliveries", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=260_000)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    for times in TIMES:
        export(folder / f"export-{times}", asked.deliveries * times, asked.links * times)
    prepare()
    cluster = Cluster("bench")
    cluster.up()
    try:
        cluster.import_images(images.build("analytics"))
        for times in TIMES:
            print(f"{times:3} times: {measure(cluster, folder, times)}", flush=True)
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
