"""The reconcile loop of local mode: manifest files → desired; observe → plan → apply; repeated in small steps."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from waymesh_operator.errors import LiveError, LocalError, ManifestError
from waymesh_operator.places.place import Result
from waymesh_operator.places.reconciler import Clocks, Reconciler
from waymesh_operator.planning.actions import Action
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.credentials import SecretData
from waymesh_operator.routers.management import AddressView

from .desired import LocalContext, local_console
from .manifest_files import ManifestFiles
from .mesh import Environment, LocalMesh
from .place import LocalPlace
from .state import PortClaims, PortTable, StateFolder, is_free
from .status import BAD, NOTE, WARN, Event, ResourceView

BUSY_S, STEADY_S = 0.05, 0.1
"""Pauses between steps while changes are in progress, and otherwise."""
REST_S = 1.0
"""At rest, the plan is computed so often; sooner if the manifests or what is observed has changed."""
RETRY_S = 1.0
"""Pause before an action that has failed is repeated."""
_T = TypeVar("_T")


@dataclasses.dataclass(slots=True)
class _Entry:
    """A current or former mesh, and its last accepted resources."""

    place: LocalPlace
    reconciler: Reconciler[LocalContext]
    resources: Resources

    @property
    def mesh(self) -> LocalMesh:
        """Its routers."""
        return self.place.mesh


@dataclasses.dataclass(frozen=True, slots=True)
class MeshPlan:
    """The pending actions of a mesh, and its resources with errors."""

    actions: tuple[Action, ...]
    unresolved: tuple[ResourceView, ...]


class Supervisor:
    """Keeps the routers in the state of a set of manifests. Call `step` repeatedly, and `leave` to stop."""

    def __init__(self, files: ManifestFiles, root: Path, world: Environment, *, any_port: bool = False) -> None:
        self._files = files
        self._root = root
        self._world = world
        self._any_port = any_port
        self._claims = PortClaims()
        self._entries: dict[Ref, _Entry] = {}
        self._wanted: frozenset[Ref] = frozenset()
        self._leaving = False

    @property
    def meshes(self) -> list[LocalMesh]:
        """All meshes, by namespace and name."""
        return [entry.mesh for _, entry in sorted(self._entries.items())]

    @property
    def resources(self) -> dict[Ref, tuple[ResourceView, ...]]:
        """The states of the resources of each Router."""
        return {ref: entry.place.states.views for ref, entry in self._entries.items()}

    def load(self, *, lock: bool = True) -> None:
        """Read the manifests. Raises ManifestError (the routers stay as they are) and LocalError.

        Without `lock`, the state is only read, as by a plan while another process runs the mesh.
        """
        checked = self._files.read()
        self._wanted = frozenset(checked.meshes)
        for ref, given in checked.meshes.items():
            resources = dataclasses.replace(given, router=local_console(given.router, self._world.console))
            former = self._entries[ref].resources.router if ref in self._entries else None
            if ref not in self._entries:
                folder = StateFolder(self._root, ref)
                if lock:
                    folder.lock()
                else:
                    folder.load()
                self._entries[ref] = self._entry(LocalMesh(ref, folder, self._world), resources, claim=lock)
            self._entries[ref].resources = resources
            if lock and resources.router != former:
                self._tell_ignored(resources.router)

    def adopt(self, now: float) -> None:
        """Take over routers that an earlier run left running."""
        for entry in self._entries.values():
            entry.mesh.adopt(now)
            for name in entry.mesh.routers:
                self._tell(NOTE, f"{name} is still running and is taken over")

    def step(self, now: float) -> None:
        """Run one turn: read changed files, then observe, plan and apply for each mesh."""
        if not self._leaving and self._files.changed():
            self._reload()
        for ref, entry in list(self._entries.items()):
            entry.place.now, entry.place.wanted = now, ref in self._wanted
            _ended(entry.reconciler.turn(entry.resources))
            if ref not in self._wanted and not entry.mesh.routers:
                entry.mesh.folder.unlock()
                del self._entries[ref]
        self._claims.keep({port for entry in self._entries.values() for port in entry.place.ports.chosen})

    def plans(self, now: float) -> dict[Ref, MeshPlan]:
        """The actions that a step would apply to each mesh."""
        return {ref: self._plan(entry, now) for ref, entry in self._entries.items()}

    def _plan(self, entry: _Entry, now: float) -> MeshPlan:
        place, reconciler = entry.place, entry.reconciler
        place.now = now
        found = _ended(reconciler.plan(entry.resources))
        place.states.update(entry.resources, reconciler.snapshot(found, Result()), now)
        return MeshPlan(found.actions, tuple(view for view in place.states.views if not view.resolved))

    @property
    def converged(self) -> bool:
        """Return whether nothing is left to do, every router responds, and all routers of a mesh see each other."""
        return all(entry.place.converged for entry in self._entries.values())

    @property
    def settled(self) -> bool:
        """Whether in addition all Brokers and links are active, or their errors were reported."""
        return self.converged and all(entry.place.states.settled for entry in self._entries.values())

    @property
    def unresolved(self) -> list[ResourceView]:
        """Resources that are invalid or refer to something that is missing."""
        return [view for views in self.resources.values() for view in views if not view.resolved]

    @property
    def gone(self) -> bool:
        """Whether no router is left."""
        return not any(entry.mesh.routers for entry in self._entries.values())

    def leave(self) -> None:
        """Drain and stop all routers, highest ordinals first."""
        self._leaving = True
        self._wanted = frozenset()

    def hurry(self) -> None:
        """Do not wait for unsettled deliveries."""
        for entry in self._entries.values():
            entry.mesh.hurry()

    def close(self) -> None:
        """Release all resources; running routers keep running."""
        for entry in self._entries.values():
            entry.mesh.close()
            entry.mesh.folder.unlock()
        self._claims.keep(())

    def addresses(self) -> dict[Ref, tuple[AddressView, ...]]:
        """The addresses in use in each mesh; none for a mesh that does not respond."""
        found = {}
        for ref, entry in self._entries.items():
            try:
                found[ref] = entry.mesh.addresses()
            except LiveError:
                found[ref] = ()
        return found

    def _entry(self, mesh: LocalMesh, resources: Resources, *, claim: bool) -> _Entry:
        def secrets() -> Mapping[str, SecretData]:
            return self._files.checked.secrets_of(mesh.ref.namespace)

        place = LocalPlace(mesh, self._port_table(mesh.folder, claim=claim), self._world.events, secrets)
        clocks = Clocks(lambda: place.now, lambda: datetime.now(UTC))
        return _Entry(place, Reconciler(place, clocks, RETRY_S, REST_S), resources)

    def _reload(self) -> None:
        try:
            self.load()
        except ManifestError as error:
            for problem in error.problems:
                self._tell(BAD, str(problem))
            self._tell(WARN, "the manifests have errors: nothing is changed")
        except LocalError as error:
            self._tell(BAD, str(error))
        else:
            self._tell(NOTE, "the manifests have changed")

    def _port_table(self, folder: StateFolder, *, claim: bool) -> PortTable:
        free = self._claim if claim else self._port_is_free
        return PortTable(folder.ports, any_port=self._any_port, console=self._world.console, free=free)

    def _port_is_free(self, port: int) -> bool:
        """Whether the port is not in use, and not assigned in a mesh of this process."""
        return is_free(port) and not any(port in entry.place.ports.chosen for entry in self._entries.values())

    def _claim(self, port: int) -> bool:
        """Claim the port if it is free. First the claim: another process may be about to start a router there."""
        return self._claims.take(port) and self._port_is_free(port)

    def _tell_ignored(self, router: Router) -> None:
        """Warn about settings of a Router that only have an effect in a cluster but seem to restrict or open access
        here."""
        for listener in router.listeners:
            for name, value in (("expose", listener.expose), ("networkPolicyPeers", listener.network_peers)):
                if value:
                    text = f"{router.ref}: {name} of listener {listener.name} is ignored"
                    self._tell(NOTE, f"{text}: its port is open on this machine")

    def _tell(self, level: str, text: str) -> None:
        self._world.events(Event(level, text))


def _ended(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that waits for nothing, as those of local mode."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(_T, end.value)
    raise AssertionError("local mode waits for nothing")


def keep_up(supervisor: Supervisor, wake: SimpleQueue[None], turn_ended: Callable[[], bool]) -> None:
    """Run steps until `turn_ended`, called after each step, returns true. What is put into `wake` ends a pause early.

    A queue, not an event: a signal's handler may run in a thread that holds the event's lock, and would wait for it.
    """
    while True:
        supervisor.step(time.monotonic())
        if turn_ended():
            return
        with suppress(Empty):
            wake.get(timeout=STEADY_S if supervisor.converged else BUSY_S)
