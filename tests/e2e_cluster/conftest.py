"""Fixtures of the tests on a real Kubernetes: one cluster a session, a namespace a test.

`tools/test_cluster.sh` runs them all on one cluster, several at a time: first those marked `empty_cluster`, last those
marked `whole_cluster`, one at a time; the others beside each other.

WAYMESH_CLUSTER_KEEP=1 leaves the cluster up at the end, and uses one that is up: for work on a single test.
WAYMESH_CLUSTER_SHARED=1 uses a cluster that is up, and that others use at the same time.
WAYMESH_CLUSTER=NAME takes another cluster than that of everybody's tests.
Every test in this folder carries the marker `cluster`.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster import images, system
from tests.cluster.command import CommandError
from tests.cluster.install import OPERATOR_NAMESPACE, install_chart, install_crds, prepare
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.cluster.paths import locked
from tests.e2e_cluster.own_operator import chart_stands_by

HERE = Path(__file__).resolve().parent
KEEP = os.environ.get("WAYMESH_CLUSTER_KEEP") == "1"
SHARED = os.environ.get("WAYMESH_CLUSTER_SHARED") == "1"
SESSION = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
"""The same in all workers of a session; empty without workers."""
NAME = os.environ.get("WAYMESH_CLUSTER") or f"e2e{os.environ.get('PYTEST_XDIST_WORKER', '')}"
TIMEOUT_S = 900
"""Of one test that names none, its fixtures included."""
WHOLE = {"alone", "second_node", "other"}
"""Fixtures that change what all tests of a cluster share."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests of this folder, so that none is run by accident without a cluster."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.engine_independent)
            if isinstance(item, pytest.Function) and WHOLE & set(item.fixturenames):
                item.add_marker(pytest.mark.whole_cluster)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))
    items.sort(key=lambda item: item.get_closest_marker("empty_cluster") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what is missing before the first test, so that no test's time-out has to cover it."""
    config = session.config
    if SHARED or config.option.collectonly or not any(HERE in item.path.parents for item in session.items):
        return
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        try:
            prepare()
        except system.Unsuitable as error:
            pytest.exit(f"the tests on a cluster cannot run here: {error}", returncode=3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the test's namespace looked like to the report of its failure."""
    report = yield
    space = getattr(item, "funcargs", {}).get("namespace")
    if report.failed and call.when == "call" and isinstance(space, Namespace):
        report.sections.append((f"namespace {space.name}", describe(space)))
    return report


def describe(space: Namespace) -> str:
    """The resources, the Events and the ends of the pods' logs."""
    if not space.cluster.ready:
        return f"the API server does not answer\n{space.cluster.trouble()}"
    words = [
        ["get", "waymesh,pods,statefulsets,services", "-o", "wide"],
        ["get", "events", "--sort-by=.lastTimestamp"],
        *(["logs", "--tail=40", "--all-containers", pod["metadata"]["name"]] for pod in space.all("Pod")),
    ]
    return "\n".join(f"$ kubectl {' '.join(word)}\n{said(space, word)}" for word in words)


def said(space: Namespace, words: list[str]) -> str:
    """What kubectl says, whether it succeeds or not."""
    try:
        return space.kubectl(*words)
    except CommandError as error:
        return error.output


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A one-node cluster without anything of ours in it."""
    found = Cluster(NAME)
    if SHARED:
        assert found.ready, f"the cluster {NAME} is not up: {found.trouble()}"
    elif not (KEEP and found.ready):
        found.up()
    yield found
    if not (KEEP or SHARED):
        found.down()


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> list[str]:
    """The CRDs of crds/, applied and Established; their names."""
    with locked(f"chart-{NAME}"):  # the chart brings them as well
        return install_crds(cluster)


@pytest.fixture(scope="session")
def router_image(cluster: Cluster) -> str:
    """The name of the router image in the chart, known to every node."""
    cluster.import_images(images.build("router"))
    return images.ROUTER.removeprefix(images.REGISTRY)


@pytest.fixture(scope="session")
def operator_image(cluster: Cluster) -> str:
    """The name of the operator image, known to every node."""
    cluster.import_images(images.build("operator"))
    return images.OPERATOR


@pytest.fixture(scope="session")
def operator(cluster: Cluster, router_image: str, operator_image: str) -> Namespace:
    """The operator, installed by its chart for all namespaces, once for all workers of a session; its namespace."""
    done = cluster.folder / f"chart-{SESSION}"
    with locked(f"chart-{NAME}"):
        if not (SESSION and done.exists()):
            install_chart(cluster)
            done.touch()
    return Namespace(cluster, OPERATOR_NAMESPACE)


@pytest.fixture
def alone(cluster: Cluster, crds: list[str]) -> Iterator[None]:
    """The CRDs, and no operator that acts unless the test starts one."""
    with chart_stands_by(cluster):
        yield


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A new namespace, deleted afterwards (nobody waits for that)."""
    yield from new_namespace(cluster, request.node.name)


@pytest.fixture
def private(cluster: Cluster) -> Iterator[Namespace]:
    """A second namespace."""
    yield from new_namespace(cluster, "private")


def new_namespace(cluster: Cluster, test: str) -> Iterator[Namespace]:
    """A namespace with a name like that of the test, deleted afterwards."""
    name = namespace_name(test)
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    space = Namespace(cluster, name)
    space.wait("ServiceAccount", "default", lambda found: True)
    yield space
    if not KEEP:
        cluster.api.delete("Namespace", name)


def namespace_name(test: str) -> str:
    """A name that is new and recalls the test's."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")[:40]
    return f"{words}-{secrets.token_hex(3)}"


@pytest.fixture
def second_node(cluster: Cluster, router_image: str, operator_image: str) -> Iterator[str]:
    """A second node, gone after the test; its name. Without the image of the Spark job: a gigabyte."""
    name = cluster.add_node("router", "operator")
    yield name
    cluster.remove_node(name)
