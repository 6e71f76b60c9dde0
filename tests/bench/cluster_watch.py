"""Observers of a mesh in a cluster: the statuses of its Router, who its Service names, and whether clients get in."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.cluster.api import ApiError, Object
from tests.cluster.command import CommandError
from tests.cluster.namespace import Namespace
from waymesh_operator.places.kubernetes.context import HTTP_PORT

TICK_S = 0.1
KINDS = ("Ready", "Converged", "Stalled", "OtherOperator")
UNREACHABLE = (OSError, http.client.HTTPException, ApiError)


class _Observer:
    """Looks again and again in a thread, as long as the block lasts."""

    def __init__(self, space: Namespace) -> None:
        self.space = Namespace(type(space.cluster)(space.cluster.name), space.name)  # the connection of one thread
        self.began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            try:
                self.look()
            except UNREACHABLE:
                continue

    def look(self) -> None:
        """Look once."""
        raise NotImplementedError


class Statuses(_Observer):
    """All that the conditions of the Router `mesh` said. `lines`: when, and what changed."""

    def __init__(self, space: Namespace) -> None:
        super().__init__(space)
        self.lines: list[str] = []
        self._last: dict[str, str] = {}

    def look(self) -> None:
        """See _Observer."""
        found = self.space.get("Router", "mesh") or {}
        for one in found.get("status", {}).get("conditions", ()):
            text = f"{one['type']}={one['status']} {one['reason']}"
            if one["type"] in KINDS and self._last.get(one["type"]) != text:
                self._last[one["type"]] = text
                self.lines.append(f"{time.monotonic() - self.began:6.1f} s: {text}: {one['message'][:120]}")


class Services(_Observer):
    """The pods that the Service `mesh` names. `shown`: for how many seconds it named one that said it was draining."""

    def __init__(self, space: Namespace) -> None:
        super().__init__(space)
        self.shown: dict[str, float] = {}
        self._named: frozenset[str] = frozenset()
        self._ever: frozenset[str] = frozenset()
        self._draining: dict[str, float] = {}

    def names(self, pods: Iterable[str]) -> bool:
        """Whether the Service names one of them."""
        return bool(self._named & set(pods))

    @property
    def draining(self) -> frozenset[str]:
        """The pods that said they were draining, after the Service had named them."""
        return frozenset(self._draining)

    def look(self) -> None:
        """See _Observer."""
        slices = self.space.all("EndpointSlice", "kubernetes.io/service-name=mesh")
        ready = [end for one in slices for end in one.get("endpoints") or () if end["conditions"].get("ready")]
        self._named = frozenset(end["targetRef"]["name"] for end in ready)
        self._ever |= self._named
        for pod in self.space.all("Pod", "waymesh.io/router=mesh"):
            name, now = pod["metadata"]["name"], time.monotonic()
            if name not in self._draining and name in self._ever and _drains(pod):
                self._draining[name] = now
            elif name in self._draining and name in self._named:
                self.shown[name] = round(now - self._draining[name], 1)


def _drains(pod: Object) -> bool:
    """Whether a router says that it is not ready any more."""
    try:
        urllib.request.urlopen(f"http://{pod['status']['podIP']}:{HTTP_PORT}/readyz", timeout=1).close()
    except urllib.error.HTTPError as error:
        return error.code == 503
    except (OSError, KeyError):
        return False
    return False


PROBE = """
import json, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print(json.dumps(found), flush=True), sys.exit(0)))
found, began = [], time.monotonic()
print("connected to", flush=True)
while True:
    at = time.monotonic()
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()
        good = True
    except OSError:
        good = False
    found.append([round(at - began, 2), good, round(time.monotonic() - at, 3)])
    time.sleep(max(0.0, 0.2 - (time.monotonic() - at)))
"""


def probes(space: Namespace, image: str, host: str, port: int) -> Callable[[], str]:
    """Start a pod that connects to a Service five times a second, each time for a second at most. The result ends it,
    and says how many failed, and how long clients that try again went without a connection."""
    space.run_pod("probe", image, ["python", "-c", PROBE, host, str(port)])
    space.wait("Pod", "probe", lambda pod: pod["status"].get("phase") == "Running", 180, "running")

    def end() -> str:
        with suppress(CommandError):  # the container may take this command with it
            space.exec("probe", "python", "-c", "import os; os.kill(1, 15)")
        tries = json.loads(space.wait_finished("probe").splitlines()[-1])
        count, longest, since = Counter(good for _, good, _ in tries), 0.0, None
        for at, good, took in tries:
            since = None if good else at if since is None else since
            longest = max(longest, at + took - since) if since is not None else longest
        return f"{count[False]} of {len(tries)} failed; longest time without one {longest:.1f} s"

    return end
