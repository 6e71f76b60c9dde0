"""The test cluster itself: a second one in parallel, recovery after a broken run, complete removal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.command import run
from tests.cluster.lifecycle import Cluster
from tests.cluster.nodes import CGROUPS

NAME = f"traces{os.getpid()}"


def traces() -> dict[str, list[str]]:
    """What on this machine has to do with the cluster."""
    links = [line for line in run("ip", "-o", "link").splitlines() if "waymesh" in line]
    routes = [line for line in run("ip", "route").splitlines() if "waymesh" in line]
    return {
        "links": [line.split(":")[1] for line in links],
        "routes": routes,
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if NAME in line],
        "groups": [str(path) for path in CGROUPS.glob(f"**/*{NAME}*")],
        "processes": [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if mentions(path)],
    }


def mentions(command_line: Path) -> bool:
    """Whether a process was started with a path of the cluster's folder."""
    try:
        return f"clusters/{NAME}/".encode() in command_line.read_bytes()
    except OSError:
        return False


@pytest.fixture
def other(cluster: Cluster) -> Iterator[Cluster]:
    """A name for a cluster beside the session's; what is left of it after a failure goes."""
    found = Cluster(NAME)
    yield found
    found.down()


def test_nothing_stays(other: Cluster) -> None:
    before = traces()
    other.up()
    other.add_node()
    during = traces()
    assert len(during["links"]) == len(before["links"]) + 1
    assert during["processes"]
    assert during["groups"]
    other.up()  # as after a test run that died: the old one goes first
    assert [node.name for node in other.nodes] == ["node1"]
    other.down()
    assert traces() == before
    assert not other.folder.exists()


def test_two_clusters_have_networks_of_their_own(cluster: Cluster, other: Cluster) -> None:
    other.up()
    assert other.network != cluster.network
    assert other.ready
    assert cluster.ready
