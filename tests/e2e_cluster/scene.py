"""A mesh with clients in pods that send and receive continuously, for tests on a real Kubernetes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.api import Object
from tests.cluster.command import CommandError
from tests.cluster.namespace import Namespace, condition_status
from tests.kit.waiting import wait_until
from waymesh_operator.tls.certificates import issue, new_ca

TRAFFIC = Path(__file__).with_name("traffic.py")
READY_S = 240.0
AT_LEAST = 1000
"""Messages that a sender sends however soon the test is over."""
END_S = 180.0
COMMAND_S = 180
KILLED = 137
"""Exit status of a command that was killed."""


def resource(kind: str, name: str, **spec: Any) -> Object:
    """A resource of ours."""
    return {"apiVersion": "waymesh.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def secret(name: str, **data: str) -> Object:
    """A Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def certificate(name: str, hosts: list[str]) -> Object:
    """The Secret of a listener with a certificate for these hosts, of an authority of its own."""
    now = datetime.now(UTC)
    authority = new_ca(name, now)
    leaf = issue(authority, name, hosts, now)
    files = {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": authority.certificate}
    return secret(name, **{file: content.decode() for file, content in files.items()})


def waymesh(space: Namespace, *words: str, status: int = 0) -> str:
    """What a command of ours prints; it must end with this exit status."""
    environment = {**os.environ, "KUBECONFIG": str(space.cluster.kubeconfig), "COLUMNS": "160"}
    argv = [sys.executable, "-m", "waymesh_operator", *words]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == status, f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def known_addresses(space: Namespace, pod: str) -> dict[str, dict[str, Any]]:
    """The addresses that the router of a pod knows, by their keys. Others are told of a new one by messages, which take
    a moment."""
    rows = json.loads(waymesh(space, "manage", "-n", space.name, "--pod", pod, "query", "--type", "router.address"))
    return {row["name"]: row for row in rows}


class Mesh:
    """The Router `name` of a namespace and its pods."""

    def __init__(self, namespace: Namespace, name: str = "mesh") -> None:
        self.namespace = namespace
        self.name = name

    def apply(self, size: int, **spec: Any) -> Mesh:
        """kubectl apply of the Router."""
        self.namespace.apply(resource("Router", self.name, size=size, **spec))
        return self

    def scale(self, size: int) -> None:
        """kubectl scale."""
        self.namespace.kubectl("scale", f"router/{self.name}", f"--replicas={size}")

    def converged(self, size: int, deadline_s: float = READY_S) -> Object:
        """The Router, when it has that many routers, all ready and all seeing each other."""

        def holds(found: Object) -> bool:
            status = found.get("status", {})
            counts = (status.get("size"), status.get("ready"))
            true = all(condition_status(found, c) == "True" for c in ("Ready", "Converged"))
            return counts == (size, size) and true

        return self.namespace.wait("Router", self.name, holds, deadline_s, f"{size} routers, Ready and Converged")

    def pods(self) -> dict[str, Object]:
        """The router pods by name."""
        found = self.namespace.all("Pod", f"waymesh.io/router={self.name}")
        return {pod["metadata"]["name"]: pod for pod in found}

    def lives(self) -> dict[str, tuple[str, int]]:
        """Pod → (uid, restarts): what stays as it is while a pod is left alone."""
        return {name: (pod["metadata"]["uid"], restarts(pod)) for name, pod in self.pods().items()}

    def status(self) -> Mapping[str, Any]:
        """The Router's status."""
        found = self.namespace.get("Router", self.name)
        assert found is not None
        status: Mapping[str, Any] = found.get("status", {})
        return status


def restarts(pod: Object) -> int:
    """How often the containers of a pod were started again."""
    return sum(c["restartCount"] for c in pod["status"].get("containerStatuses", []))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What senders and receivers report when all have ended."""

    senders: dict[str, dict[str, Any]]
    receivers: dict[str, dict[str, Any]]

    @property
    def received(self) -> set[int]:
        """Numbers that arrived at any receiver."""
        found: set[int] = set()
        for report in self.receivers.values():
            for first, last in report["ranges"]:
                found.update(range(first, last + 1))
        return found

    @property
    def duplicates(self) -> int:
        """Messages that arrived more than once, at one receiver or at several."""
        arrived: int = sum(report["received"] + report["duplicates"] for report in self.receivers.values())
        return arrived - len(self.received)

    @property
    def resent(self) -> int:
        """Messages that a sender sent again as it never learned what became of them."""
        return sum(report["resent"] for report in self.senders.values())

    def check(self, at_least: int = 1) -> None:
        """Nothing lost: what was accepted was received. What came twice was sent twice."""
        (report,) = self.senders.values()
        assert report["left"] == 0, report
        assert report["accepted"] >= at_least, report
        missing = set(range(report["accepted"])) - self.received
        assert not missing, f"{len(missing)} of {report['accepted']} lost: {sorted(missing)[:20]}; {self}"
        assert self.duplicates <= self.resent, str(self)


class Traffic:
    """One sender and some receivers of one address, in pods; they reconnect by themselves."""

    def __init__(
        self, namespace: Namespace, image: str, address: str = "orders", host: str = "mesh", heartbeat_s: float = 0.0
    ) -> None:
        """`heartbeat_s`: without heartbeats, a client does not notice that its router's node is lost."""
        self.namespace = namespace
        self.image = image
        self.address = address
        self.url = f"amqp://{host}:5672"
        self.heartbeat = ("--heartbeat", str(heartbeat_s)) if heartbeat_s else ()
        self.pods: dict[str, str] = {}
        self.bounded: set[str] = set()
        namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "traffic"},
                "data": {"traffic.py": TRAFFIC.read_text()},
            }
        )

    def receive(self, *names: str, delay_s: float = 0.0) -> None:
        """Start receivers; returns when each has a connection."""
        for name in names:
            self._start(name, "receive", "--delay", str(delay_s))
        for name in names:
            self._wait_connected(name)

    def send(self, name: str = "sender", rate: int = 200, count: int = 0) -> None:
        """Start a sender, which ends by itself after `count` messages if given; returns when it has a connection."""
        self._start(name, "send", "--rate", str(rate), "--count", str(count), "--at-least", str(AT_LEAST))
        if count:
            self.bounded.add(name)
        self._wait_connected(name)

    def _start(self, name: str, what: str, *words: str) -> None:
        command = ["python", "/traffic/traffic.py", what, "--url", self.url, "--address", self.address, *words]
        command += self.heartbeat
        mounts = [{"name": "traffic", "mountPath": "/traffic"}]
        container = {
            "name": "main",
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": command,
            "volumeMounts": mounts,
        }
        volumes = [{"name": "traffic", "configMap": {"name": "traffic"}}]
        self.namespace.run_pod(name, self.image, command, containers=[container], volumes=volumes)
        self.pods[name] = what

    def _wait_connected(self, name: str) -> None:
        self.namespace.wait("Pod", name, lambda pod: pod["status"].get("phase") != "Pending", READY_S, "started")
        wait_until(lambda: "connected to" in self.namespace.logs(name), READY_S, f"{name} connected")

    def progress(self, name: str = "sender") -> int:
        """How many times a client has connected."""
        return self.namespace.logs(name).count("connected to")

    def end(self, emptied: Callable[[], bool] = lambda: True) -> Outcome:
        """Senders finish first and wait for their outcomes, then the receivers as soon as what lies between is
        `emptied`; their reports."""
        sent = self._end([name for name, what in self.pods.items() if what == "send"])
        wait_until(emptied, END_S, "what was sent has reached the receivers")
        return Outcome(sent, self._end([name for name, what in self.pods.items() if what == "receive"]))

    def _end(self, names: list[str]) -> dict[str, dict[str, Any]]:
        for name in names:
            pod = self.namespace.get("Pod", name) or {}
            if pod.get("status", {}).get("phase") == "Running" and name not in self.bounded:
                self._terminate(name)
        return {name: json.loads(self.namespace.wait_finished(name, END_S).splitlines()[-1]) for name in names}

    def _terminate(self, name: str) -> None:
        """SIGTERM to the client of a pod. If it ends at once, the container takes this command with it."""
        try:
            self.namespace.exec(name, "python", "-c", "import os; os.kill(1, 15)")
        except CommandError as error:
            if error.status != KILLED:
                raise
