"""Local mode without processes or sockets: routers that have entities, see each other, die and hang."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waymesh_client.errors import ConnectionFailed, ManagementError, RequestTimeout
from waymesh_operator.places.local.manifest_files import ManifestFiles
from waymesh_operator.places.local.mesh import Environment
from waymesh_operator.places.local.status import Event, Sink
from waymesh_operator.places.local.supervisor import Supervisor
from waymesh_schema.config import read_config
from waymesh_schema.loglevels import LOG_MODULES

LINKS = ("router.config.autoLink", "router.config.linkRoute")
SHORT = {"router.config.address", "connector", "listener", "sslProfile", *LINKS}
ROUTER = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: SIZE
  drain: {timeoutSeconds: 5}
"""
ADDRESS = """---
apiVersion: waymesh.io/v1alpha1
kind: Address
metadata: {name: NAME}
spec: {routerRef: {name: mesh}, prefix: NAME, distribution: multicast}
"""


def manifest(size: int = 3, *addresses: str) -> str:
    """A Router `mesh` and Addresses, each with its name as the prefix."""
    return ROUTER.replace("SIZE", str(size)) + "".join(ADDRESS.replace("NAME", name) for name in addresses)


class FakeRouter:
    """A router: boots from its configuration file, answers management requests, ends when asked or killed."""

    def __init__(self, network: FakeNetwork, pid: int, config: Path) -> None:
        self.network = network
        self.pid = pid
        self.config = config
        self.end: str | None = None
        self.hangs = False
        self.ignores_sigterm = False
        self.unsettled = 0
        self.edges_without_group = 0
        self.refuses: set[str] = set()
        self.drain_by: float | None = None
        entries = read_config(str(config))
        self.id = next(e.attributes["id"] for e in entries if e.type.name == "router")
        self.entities: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in SHORT}
        self.levels = dict.fromkeys(LOG_MODULES, "default") | {"DEFAULT": "info+"}
        for entry in entries:
            if entry.type.name in SHORT:
                self.entities[entry.type.name][entry.attributes["name"]] = dict(entry.attributes)
            if entry.type.name == "log":
                self.levels[entry.attributes["module"]] = entry.attributes["enable"]

    # the process

    def ended(self) -> str | None:
        return self.end

    def send(self, number: int) -> None:
        self.network.signals.append((self.id, number))
        if number == signal.SIGKILL or (number == signal.SIGTERM and not self.ignores_sigterm):
            self.end = "exit code 0" if number == signal.SIGTERM else "signal 9 SIGKILL"

    def die(self) -> None:
        """End without being asked to."""
        self.end = "signal 9 SIGKILL"

    def drain_state(self) -> dict[str, Any]:
        """What it reports of its drain: done when nothing is unsettled, or when its time is up."""
        if self.drain_by is None:
            return {"drainStatus": "none"}
        done = not self.unsettled or self.network.now >= self.drain_by
        return {"drainStatus": "drained" if done else "draining"}

    # management

    @property
    def mesh_ports(self) -> set[str]:
        return {str(e["port"]) for e in self.entities["listener"].values() if e["role"] == "inter-router"}

    def neighbours(self) -> set[str]:
        """Routers that a connector joins to this one, in either direction."""
        found = set()
        for other in self.network.alive():
            for one, two in ((self, other), (other, self)):
                if frozenset({self.id, other.id}) in self.network.cut:
                    continue
                if other is not self and any(
                    str(c["port"]) in two.mesh_ports for c in one.entities["connector"].values()
                ):
                    found.add(other.id)
        return found

    def rows(self, kind: str) -> list[dict[str, Any]]:
        if kind == "log":
            return [{"name": f"log/{m}", "module": m, "enable": level} for m, level in self.levels.items()]
        if kind == "router":
            counts = {"unsettledDeliveries": self.unsettled, "edgesWithoutGroup": self.edges_without_group}
            return [{"name": self.id, "id": self.id, **counts, **self.drain_state()}]
        if kind == "router.node":
            known = self.network.reachable(self)
            return [{"id": name, "nextHop": None if name in self.neighbours() else "x"} for name in known]
        if kind == "router.link":
            return [{"linkType": "endpoint", "unsettledCount": self.unsettled, "undeliveredCount": 0}]
        links = self.entities["router.config.autoLink"]
        self.entities["router.config.autoLink"] = {n: e for n, e in links.items() if not e.get("quiescing")}
        return [{**e, **self.network.state_of(kind, e)} for e in self.entities.get(kind, {}).values()]


class FakeClient:
    """A management client; it finds the router by the port in its URL."""

    def __init__(self, network: FakeNetwork, url: str) -> None:
        self.network = network
        self.port = url.rpartition(":")[2]

    def _router(self) -> FakeRouter:
        for router in self.network.alive():
            listeners = router.entities["listener"].values()
            if any(str(e["port"]) == self.port and e["name"].endswith("/management") for e in listeners):
                if router.hangs:
                    raise RequestTimeout("no answer")
                return router
        raise ConnectionFailed("127.0.0.1", int(self.port), "Connection refused")

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[dict[str, Any]]:
        return self._router().rows(entity_type or "")

    def pages(self, entity_type: str | None = None) -> Iterator[list[dict[str, Any]]]:
        yield self.query(entity_type)

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        router = self._router()
        assert name is not None
        if name in router.refuses or name in router.entities[entity_type]:
            raise ManagementError(400, f"{name} is refused")
        self.network.changes.append((router.id, "create", name))
        router.entities[entity_type][name] = {**attributes, "name": name}
        return {}

    def update(
        self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        router = self._router()
        assert name is not None
        self.network.changes.append((router.id, "update", name))
        if entity_type == "router.config.autoLink":
            router.entities[entity_type][name].update(attributes)
            return dict(router.entities[entity_type][name])
        if entity_type == "router":
            assert name == router.id
            router.drain_by = self.network.now + attributes["drainTimeoutSeconds"] if attributes["draining"] else None
            return {"id": router.id, "name": router.id, **router.drain_state()}
        assert entity_type == "log"
        router.levels[name.removeprefix("log/")] = attributes["enable"]
        return {}

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        router = self._router()
        assert entity_type is not None
        assert name is not None
        self.network.changes.append((router.id, "delete", name))
        if router.entities[entity_type].pop(name, None) is None:
            raise ManagementError(404, "Not Found")

    def close(self) -> None:
        """Nothing to close."""


class FakeNetwork:
    """All fake routers; the launcher of the world, and what happened in it."""

    def __init__(self) -> None:
        self.routers: list[FakeRouter] = []
        self.events: list[Event] = []
        self.changes: list[tuple[str, str, str]] = []
        self.signals: list[tuple[str, int]] = []
        self.cut: set[frozenset[str]] = set()
        self.now = 0.0
        self.no_starts = ""
        """Why no process can be started."""
        self.trouble: dict[str, str] = {}
        """What is wrong with links, and with connections to brokers, by the name of the entity."""

    def state_of(self, kind: str, entity: Mapping[str, Any]) -> dict[str, str]:
        """How a link, or a connection to a broker, stands."""
        error = self.trouble.get(entity["name"], "")
        if kind in LINKS:
            return {"operStatus": "failed", "lastError": error} if error else {"operStatus": "active"}
        if entity.get("role") == "route-container":
            return {"connectionStatus": "FAILED" if error else "SUCCESS", "connectionMsg": error}
        return {}

    def world(self, events: Sink) -> Environment:
        """A world with this network in it."""
        return Environment(self, lambda url: FakeClient(self, url), events, listening=lambda port: True)

    def start(self, config: Path, log: Path) -> FakeRouter:
        if self.no_starts:
            raise OSError(self.no_starts)
        log.touch()
        self.routers.append(FakeRouter(self, 1000 + len(self.routers), config))
        return self.routers[-1]

    def find(self, pid: int, config: Path) -> FakeRouter | None:
        return next((r for r in self.alive() if r.pid == pid and r.config == config), None)

    def alive(self) -> list[FakeRouter]:
        return [router for router in self.routers if router.end is None]

    def router(self, name: str) -> FakeRouter:
        """The running router of that id."""
        return next(router for router in self.alive() if router.id == name)

    def reachable(self, start: FakeRouter) -> set[str]:
        seen, todo = {start.id}, [start]
        while todo:
            for name in todo.pop().neighbours() - seen:
                seen.add(name)
                todo.append(self.router(name))
        return seen

    @property
    def said(self) -> list[str]:
        """The text of all events."""
        return [event.text for event in self.events]


class Stage:
    """A supervisor over manifests in a folder, in a fake network, with a clock of its own."""

    def __init__(self, folder: Path, text: str) -> None:
        self.network = FakeNetwork()
        self.file = folder / "mesh.yaml"
        self.folder = folder
        self.now = 100.0
        self.edits = 0
        self.write(text)
        self.supervisor = self.open()

    def open(self) -> Supervisor:
        """A new run of `waymesh up`."""
        world = self.network.world(self.network.events.append)
        supervisor = Supervisor(ManifestFiles([self.file]), self.folder / "state", world, any_port=True)
        supervisor.load()
        supervisor.adopt(self.now)
        return supervisor

    def write(self, text: str) -> None:
        """Edit the manifests; the size of the file changes every time, as its time stamp may not."""
        self.edits += 1
        self.file.write_text(text + "\n" * self.edits)

    def step(self, count: int = 1, seconds: float = 0.1) -> None:
        for _ in range(count):
            self.network.now = self.now
            self.supervisor.step(self.now)
            self.now += seconds

    def settle(self, limit: int = 50) -> None:
        """Step until all is converged."""
        for _ in range(limit):
            self.step()
            if self.supervisor.converged:
                return
        raise AssertionError(f"not converged: {self.network.said}")

    def ids(self) -> list[str]:
        return [router.id for router in self.network.alive()]

    def pids(self) -> dict[str, int]:
        return {router.id: router.pid for router in self.network.alive()}

    def seed(self, name: str) -> list[list[Any]]:
        """What the router would boot with."""
        return json.loads((self.folder / "state" / "mesh" / f"{name}.json").read_text())  # type: ignore[no-any-return]
