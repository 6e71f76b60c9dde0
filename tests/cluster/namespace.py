"""One namespace of the test cluster, as a test sees it: resources, waiting with a deadline, kubectl and helm."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import binaries
from tests.cluster.api import Api, ApiError, Object
from tests.cluster.command import CommandError, run
from tests.cluster.lifecycle import Cluster
from tests.kit.waiting import wait_until

Manifest = Object | str | Path | Iterable[Object]


class Namespace:
    """Shortcuts for one namespace. Names are of resources in it; kinds are `Router`, `pods`, `StatefulSet` …"""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    @property
    def api(self) -> Api:
        """The API server, for what has no shortcut here."""
        return self.cluster.api

    def kubectl(self, *words: str, stdin: str = "", timeout_s: float = 120) -> str:
        """kubectl in this namespace; its stdout. CommandError (`.output`) when it fails."""
        client = binaries.kubernetes() / "kubectl"
        return run(
            client, "--kubeconfig", self.cluster.kubeconfig, "-n", self.name, *words, stdin=stdin, timeout_s=timeout_s
        )

    def helm(self, *words: str, timeout_s: float = 300) -> str:
        """helm in this namespace; its stdout."""
        where = ["--kubeconfig", str(self.cluster.kubeconfig), "-n", self.name]
        return run(binaries.helm(), *where, *words, timeout_s=timeout_s)

    def apply(self, manifests: Manifest) -> str:
        """`kubectl apply` of mappings, of YAML text or of a file; what kubectl said."""
        return self.kubectl("apply", "-f", "-", stdin=yaml_text(manifests))

    def refused(self, manifests: Manifest) -> str:
        """What `kubectl apply` says against manifests that must be refused."""
        try:
            said = self.apply(manifests)
        except CommandError as error:
            return error.output
        raise AssertionError(f"accepted, and should not have been: {said}")

    def get(self, kind: str, name: str) -> Object | None:
        """One resource, None when there is none."""
        return self.api.get(kind, name, self.name)

    def all(self, kind: str, selector: str = "") -> list[Object]:
        """All resources of a kind; `selector` as in `a=b,c`."""
        return self.api.all(kind, self.name, selector)

    def patch(self, kind: str, name: str, change: Any, subresource: str = "") -> Object:
        """A merge patch (mapping) or a JSON patch (list)."""
        return self.api.patch(kind, name, change, self.name, subresource)

    def delete(self, kind: str, name: str, grace_s: int | None = None) -> bool:
        """Asks for the deletion and does not wait; False when there was none."""
        return self.api.delete(kind, name, self.name, grace_s)

    def events(self, name: str) -> list[Object]:
        """The Events about a resource of that name."""
        return [event for event in self.all("Event") if event["involvedObject"]["name"] == name]

    def logs(self, pod: str) -> str:
        """The log of a pod with one container. Not by kubectl: tests look at logs again and again."""
        return str(self.api.request("GET", f"{self.api.resource('Pod').path(self.name, pod)}/log"))

    def exec(self, pod: str, *argv: str, timeout_s: float = 120) -> str:
        """Runs a program in a pod; its stdout."""
        return self.kubectl("exec", pod, "--", *argv, timeout_s=timeout_s)

    def wait(
        self, kind: str, name: str, holds: Callable[[Object], object], deadline_s: float = 180, what: str = ""
    ) -> Object:
        """The resource, as soon as it exists and `holds`. An API server that is away counts as not yet."""
        seen: list[Object | None] = [None]

        def check() -> Object | None:
            seen[0] = self._get_patiently(kind, name)
            return seen[0] if seen[0] is not None and holds(seen[0]) else None

        def report() -> str:
            return f"{kind} {self.name}/{name}: {what}\n{_shown(seen[0])}"

        found = wait_until(check, deadline_s, report)
        assert found is not None
        return found

    def wait_gone(self, kind: str, name: str, deadline_s: float = 180) -> None:
        """Returns when there is no such resource any more."""
        wait_until(lambda: self.get(kind, name) is None, deadline_s, f"{kind} {self.name}/{name} gone")

    def wait_condition(
        self, kind: str, name: str, condition: str, status: str = "True", deadline_s: float = 180
    ) -> Object:
        """The resource, when a condition of its status has that status for the generation that is current."""

        def holds(found: Object) -> bool:
            return condition_status(found, condition) == status

        return self.wait(kind, name, holds, deadline_s, f"condition {condition}={status}")

    def wait_pods(self, selector: str, count: int, deadline_s: float = 180) -> list[Object]:
        """The pods of a selector, when there are `count` and all are Ready and none is on its way out."""

        def ready() -> list[Object] | None:
            pods = self.all("Pod", selector)
            good = [pod for pod in pods if _is_ready(pod)]
            return (pods or [{}]) if len(pods) == len(good) == count else None

        def report() -> str:
            return f"{count} Ready pods of {selector}\n" + "\n".join(_shown(pod) for pod in self.all("Pod", selector))

        return [pod for pod in wait_until(ready, deadline_s, report) or [] if pod]

    def run_pod(self, name: str, image: str, command: list[str], **spec: Any) -> Object:
        """Starts a pod of one container `main` that is not started again when it ends; `spec` adds to its spec."""
        container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": command}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1} | spec,
        }
        return self.api.create(pod, self.name)

    def wait_finished(self, pod: str, deadline_s: float = 180) -> str:
        """The log of a pod that ends by itself, with success; AssertionError with its log when it failed."""
        ended = ("Succeeded", "Failed")
        found = self.wait("Pod", pod, lambda p: p["status"].get("phase") in ended, deadline_s, "ended")
        log = self.logs(pod)
        assert found["status"]["phase"] == "Succeeded", f"pod {pod} failed:\n{log}"
        return log

    def _get_patiently(self, kind: str, name: str) -> Object | None:
        try:
            return self.get(kind, name)
        except (OSError, http.client.HTTPException, KeyError):
            return None
        except ApiError as error:
            if error.status in (429, 500, 503):
                return None
            raise


def condition_status(resource: Object, condition: str) -> str | None:
    """The status of a condition, None when there is none or it speaks of an older generation."""
    for entry in (resource.get("status") or {}).get("conditions") or ():
        current = entry.get("observedGeneration", resource["metadata"].get("generation"))
        if entry["type"] == condition and current == resource["metadata"].get("generation"):
            return str(entry["status"])
    return None


def yaml_text(manifests: Manifest) -> str:
    """One YAML text of mappings, of text or of a file."""
    if isinstance(manifests, Path):
        return manifests.read_text()
    if isinstance(manifests, str):
        return manifests
    documents = [manifests] if isinstance(manifests, Mapping) else list(manifests)
    return yaml.safe_dump_all(documents)


def _is_ready(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and condition_status(pod, "Ready") == "True"


def _shown(resource: Object | None) -> str:
    if resource is None:
        return "(not there)"
    return json.dumps({"name": resource["metadata"]["name"], "status": resource.get("status")}, indent=1)[:3000]
