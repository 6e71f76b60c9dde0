"""Many Addresses of one mesh on a real API server: what they cost the operator, and what they do to another mesh.

    python -m tests.cluster --name NAME up --chart
    python -m tests.bench.cluster_addresses --name NAME --count 20000

Memory and CPU time are those that the operator's own metrics say of its process; the API server and etcd are apart.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from tests.bench.analytics_cluster import new_namespace
from tests.bench.cluster_trouble import HERE, OPERATOR, change, tell
from tests.bench.cluster_watch import UNREACHABLE
from tests.cluster.install import OPERATOR_NAMESPACE, install_chart
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.scene import Mesh, resource
from tests.e2e_cluster.test_e2e_many import Figures
from tests.kit.waiting import wait_until

THREADS = 4
IDLE_S = 240.0
"""In this time, each router is read again and all Addresses are listed, as they are every few minutes."""
READY_S = 1800.0
TIMES = 5
MIB = 1 << 20


class Operator:
    """The operator's process, as its metrics describe it."""

    def __init__(self, cluster: Cluster) -> None:
        self._space = Namespace(Cluster(cluster.name), OPERATOR_NAMESPACE)  # the connection of one thread
        self.most = 0.0

    def cpu_s(self) -> float:
        """CPU time so far."""
        return self._figures().sum("process_cpu_seconds_total")

    def writes(self) -> float:
        """Statuses of Addresses that were written so far."""
        found = self._figures().requests()
        return sum(count for (verb, kind), count in found.items() if kind == "Address" and verb not in ("get", "list"))

    def mib(self) -> float:
        """Resident memory now; `most` keeps the maximum."""
        now = self._figures().sum("process_resident_memory_bytes") / MIB
        self.most = max(self.most, now)
        return now

    def restart(self) -> None:
        """End the operator; the next one begins with all that there is."""
        self.most = 0.0
        for pod in self._space.all("Pod", OPERATOR):
            self._space.delete("Pod", pod["metadata"]["name"], grace_s=0)

    def answers(self) -> bool:
        """Whether an operator answers."""
        with suppress(*UNREACHABLE, IndexError, KeyError, ValueError):
            return self.mib() > 0
        return False

    def _figures(self) -> Figures:
        return Figures(self._space)


@contextmanager
def watched(cluster: Cluster) -> Iterator[Operator]:
    """An operator whose memory is read every second meanwhile."""
    found, ended = Operator(cluster), threading.Event()

    def look() -> None:
        while not ended.wait(1.0):
            with suppress(*UNREACHABLE):
                found.mib()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    yield found
    ended.set()
    thread.join()


def create(space: Namespace, count: int) -> None:
    """Make that many Addresses, with some requests at a time."""

    def some(first: int) -> None:
        api = Cluster(space.cluster.name).api
        for number in range(first, count, THREADS):
            spec = {"routerRef": HERE, "prefix": f"queue{number}", "distribution": "balanced"}
            api.create(resource("Address", f"address-{number}", **spec), space.name)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(some, range(THREADS)))


def all_ready(space: Namespace, count: int) -> bool:
    """Whether all Addresses are Ready."""
    time.sleep(5.0)  # a list of thousands takes the CPU from what it waits for
    found = space.all("Address")
    return len(found) == count and all(condition_status(one, "Ready") == "True" for one in found)


def seconds(space: Namespace, name: str) -> str:
    """How long a change takes, the median of some and the longest."""
    found = sorted(change(space, f"{name}-{number}") for number in range(TIMES))
    return f"{found[TIMES // 2]:.2f} s (at most {found[-1]:.2f})"


def measure(cluster: Cluster, count: int, routers: int) -> None:
    """Print what that many Addresses cost."""
    with new_namespace(cluster, "many") as space, new_namespace(cluster, "beside") as other, watched(cluster) as it:
        for one, size in ((space, routers), (other, 1)):
            Mesh(one).apply(size).converged(size)
        tell(f"operator with two meshes: {it.mib():.0f} MiB; a change takes {seconds(other, 'first')}")
        cpu, writes, began = it.cpu_s(), it.writes(), time.monotonic()
        create(space, count)
        tell(f"{count} Addresses made in {time.monotonic() - began:.0f} s; in the other mesh {seconds(other, 'amid')}")
        wait_until(lambda: all_ready(space, count), READY_S, f"{count} Addresses Ready")
        tell(
            f"all Ready after {time.monotonic() - began:.0f} s: {it.cpu_s() - cpu:.1f} s of CPU time, "
            f"{(it.writes() - writes) / count:.2f} statuses for each, {it.mib():.0f} MiB (at most {it.most:.0f})"
        )
        cpu = it.cpu_s()
        took = seconds(space, "later")
        each = (it.cpu_s() - cpu) / TIMES
        tell(f"a change takes {took} and {each:.2f} s of CPU time; in the other mesh {seconds(other, 'later')}")
        time.sleep(IDLE_S / 8)
        cpu = it.cpu_s()
        time.sleep(IDLE_S)
        tell(f"idle: {(it.cpu_s() - cpu) / IDLE_S * 100:.1f} % of a core; {it.mib():.0f} MiB (at most {it.most:.0f})")
        it.restart()
        wait_until(lambda: it.answers(), READY_S, "the next operator")
        change(space, "anew")
        tell(f"the operator was restarted: {it.mib():.0f} MiB (at most {it.most:.0f})")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Many Addresses of one mesh on a real API server.")
    parser.add_argument("--name", default="trouble", help="a cluster that is up, with the chart")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--routers", type=int, default=2)
    asked = parser.parse_args()
    cluster = Cluster(asked.name)
    assert cluster.ready, f"python -m tests.cluster --name {asked.name} up --chart"
    install_chart(cluster, "--set", "resyncSeconds=30")  # as users have it
    measure(cluster, asked.count, asked.routers)


if __name__ == "__main__":
    main()
