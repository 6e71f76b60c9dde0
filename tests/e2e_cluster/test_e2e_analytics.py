"""From exporting routers to the report of the Spark job, with the chart: in one pod, and with executor pods."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.cluster import images
from tests.cluster.api import ApiError
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.console_command import console
from tests.e2e_cluster.scene import Mesh, Traffic, waymesh
from tests.e2e_cluster.spark_job import RUN_S, claim, complete, executors, install
from tests.kit.waiting import wait_until
from tests.s3 import ENVIRONMENT, running

ADDRESS, COUNT, RATE = "orders", 1000, 500
SEEN_S = 180.0
EXPORT = {"target": "Claim", "claimRef": {"name": "files"}, "intervalSeconds": 30, "rotateSeconds": 5}
EVERY = {"sampleOneIn": 1, "samplesPerSecond": 10 * COUNT}


@pytest.fixture
def analytics_image(cluster: Cluster) -> str:
    """The name of the image of the job, known to every node."""
    cluster.import_images(images.build("analytics"))
    return images.ANALYTICS


@pytest.fixture
def files(namespace: Namespace, tmp_path: Path) -> Iterator[Path]:
    """A folder of the node that pods have as the claim `files`."""
    folder = tmp_path / "files"
    folder.mkdir()
    volume = claim(namespace, folder)
    yield folder
    namespace.api.delete("PersistentVolume", volume)


def exported(files: Iterable[bytes]) -> Counter[tuple[str, str, str]]:
    """Deliveries of clients in published files, by address, router of entry and router of exit."""
    found: Counter[tuple[str, str, str]] = Counter()
    for file in files:
        for line in gzip.decompress(file).splitlines():
            row = json.loads(line)
            if row["half"] == "out" and row["address"] == ADDRESS:
                found[row["address"], row["ingress"], row["egress"]] += 1
    return found


def published(files: Path) -> Iterator[bytes]:
    """The files of deliveries that are finished."""
    return (path.read_bytes() for path in files.glob("v1/kind=delivery/dt=*/hr=*/[!.]*.gz"))


def traffic(files: Path, out: str) -> dict[tuple[str, str, str], float]:
    """The report's deliveries by address, router of entry, router of exit."""
    rows = json.loads((files / out / "tables" / "traffic.json").read_text())
    return {
        (row["address"], row["ingress"], row["egress"]): row["deliveries"] for row in rows if row["address"] == ADDRESS
    }


def kill_an_executor(namespace: Namespace, job: str) -> str:
    """As soon as the job reads the first files; the name of the pod."""
    namespace.wait("Job", job, lambda found: found.get("status", {}).get("ready"), RUN_S, "running")
    (driver,) = namespace.all("Pod", f"batch.kubernetes.io/job-name={job}")
    wait_until(lambda: " files" in namespace.logs(driver["metadata"]["name"]), RUN_S, "files that are read")

    def at_work() -> str:
        pods = namespace.all("Pod", "spark-role=executor")
        names = (pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running")
        return next(names, "")

    victim = wait_until(at_work, RUN_S, "an executor that runs")
    assert namespace.delete("Pod", victim, grace_s=0)
    return victim


def metrics_of(operator: Namespace) -> str:
    """The metrics of the operator; none while a busy machine lets its readiness probe fail."""
    try:
        path = f"/api/v1/namespaces/{operator.name}/services/waymesh-operator:http/proxy/metrics"
        return str(operator.api.request("GET", path))
    except ApiError as error:
        if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return ""


def test_reports_of_one_pod_and_of_executors_of_which_one_is_killed_say_what_was_sent(
    operator: Namespace, namespace: Namespace, files: Path, router_image: str, analytics_image: str
) -> None:
    mesh = Mesh(namespace).apply(2, telemetry=EXPORT | EVERY)
    mesh.converged(2)
    clients = Traffic(namespace, router_image, ADDRESS, host="mesh-1.mesh-mesh")
    clients.receive("receiver")
    clients.url = "amqp://mesh-0.mesh-mesh:5672"
    clients.send(rate=RATE, count=COUNT)
    clients.end().check(COUNT)
    sent = {(ADDRESS, "mesh-0", "mesh-1"): COUNT}
    wait_until(lambda: exported(published(files)) == sent, 180, lambda: f"exported: {exported(published(files))}")

    complete(namespace, install(namespace, "single", report={"enabled": True}))
    assert traffic(files, "single") == sent
    namespace.wait_pods("app.kubernetes.io/component=report", 1)
    page = waymesh(namespace, "report", "-n", namespace.name, "--out", "-")
    assert page == (files / "single" / "report.html").read_text()
    with console(namespace, "mesh") as shown:
        of_console = shown.report()
        assert of_console["summary"] == json.loads((files / "single" / "summary.json").read_text())
        assert shown.frame(of_console["page"]) == page
    assert not executors(namespace)
    job = install(namespace, "cluster", executors=2)
    victim = kill_an_executor(namespace, job)
    complete(namespace, job)
    assert traffic(files, "cluster") == sent
    assert victim in executors(namespace)
    assert len(executors(namespace)) >= 2
    told = f'waymesh_analytics_last_success_timestamp_seconds{{namespace="{namespace.name}",release="cluster"}}'
    wait_until(lambda: told in metrics_of(operator), SEEN_S, told)
    labels = f'kind="ConsumersStuck",namespace="{namespace.name}",release="cluster",severity="bad"'
    found = f"waymesh_analytics_findings{{{labels}}}"
    wait_until(lambda: found in metrics_of(operator), SEEN_S, found)


def test_files_go_to_s3_until_the_router_has_ended(
    cluster: Cluster, operator: Namespace, namespace: Namespace, router_image: str, tmp_path: Path
) -> None:
    with running(tmp_path, cluster.network.gateway(1)) as store:
        keys = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": dict(ENVIRONMENT)}
        namespace.apply(keys)
        place = {"bucket": store.bucket, "prefix": "team", "endpoint": store.url, "region": "us-east-1"}
        s3 = {"target": "S3", "s3": place | {"secretRef": {"name": "keys"}}}
        # Nothing is published before the router ends.
        mesh = Mesh(namespace).apply(1, telemetry=s3 | {"rotateSeconds": 3600} | EVERY)
        mesh.converged(1)
        clients = Traffic(namespace, router_image, ADDRESS)
        clients.receive("receiver")
        clients.send(rate=RATE, count=COUNT)
        clients.end().check(COUNT)
        mesh.scale(0)
        namespace.wait_gone("Pod", "mesh-0", SEEN_S)
        files = (data for key, data in store.objects().items() if key.startswith("team/v1/kind=delivery/"))
        assert exported(files) == {(ADDRESS, "mesh-0", "mesh-0"): COUNT}
