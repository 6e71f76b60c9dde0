"""The reconcile loop of local mode: manifest files → desired; observe → plan → apply; repeated in small steps."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from waymesh_operator.errors import LiveError, LocalError, ManifestError
from waymesh_operator.planning.actions import Action
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.mesh import DesiredMesh
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.resources.validation import Checked
from waymesh_operator.routers.management import AddressView
from waymesh_operator.routers.observed import RouterState

from .desired import DesiredLocal, LocalContext, desired_local, local_console
from .manifest_files import ManifestFiles
from .mesh import Environment, LocalMesh
from .state import PortClaims, PortTable, StateFolder, is_free
from .status import BAD, GOOD, NOTE, WARN, Event, ResourceStates, ResourceView

BUSY_S, STEADY_S = 0.05, 0.1
"""Pauses between steps while changes are in progress, and otherwise."""
REST_S = 1.0
"""At rest, the plan is computed so often; sooner if the manifests or what is observed has changed."""


@dataclasses.dataclass
class _Entry:
    """A current or former mesh, and its last accepted resources."""

    mesh: LocalMesh
    ports: PortTable
    resources: Resources
    states: ResourceStates
    converged: bool = False
    # Why the state folder could not be written in the last step.
    problem: str = ""
    # The last texts about ports that differ from those of the manifest.
    moved: Sequence[str] = ()
    # What the last plan was computed from, and when.
    planned: tuple[Checked, ObservedState] | None = None
    planned_at: float = 0.0

    def rests(self, checked: Checked, observed: ObservedState, now: float) -> bool:
        """Return whether the last plan, which was empty, still holds."""
        known, self.planned = self.planned, (checked, observed)
        calm = self.converged and self.states.settled and not self.problem and now - self.planned_at < REST_S
        return calm and known is not None and known[0] is checked and known[1] == observed


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
        return {ref: entry.states.views for ref, entry in self._entries.items()}

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
                mesh, states = LocalMesh(ref, folder, self._world), ResourceStates(self._world.events)
                self._entries[ref] = _Entry(mesh, self._port_table(folder, claim=lock), resources, states)
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
            self._reconcile(ref, entry, now)
            if ref not in self._wanted and not entry.mesh.routers:
                entry.mesh.folder.unlock()
                del self._entries[ref]
        self._claims.keep({port for entry in self._entries.values() for port in entry.ports.chosen})

    def plans(self, now: float) -> dict[Ref, MeshPlan]:
        """The actions that a step would apply to each mesh."""
        return {ref: self._plan(ref, entry, now) for ref, entry in self._entries.items()}

    def _plan(self, ref: Ref, entry: _Entry, now: float) -> MeshPlan:
        desired, observed = self._desired(ref, entry).state, entry.mesh.observe(now)
        entry.states.update(entry.resources, desired, observed, now)
        return MeshPlan(plan(desired, observed), tuple(view for view in entry.states.views if not view.resolved))

    @property
    def converged(self) -> bool:
        """Return whether nothing is left to do, every router responds, and all routers of a mesh see each other."""
        return all(entry.converged for entry in self._entries.values())

    @property
    def settled(self) -> bool:
        """Whether in addition all Brokers and links are active, or their errors were reported."""
        return self.converged and all(entry.states.settled for entry in self._entries.values())

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

    def _reconcile(self, ref: Ref, entry: _Entry, now: float) -> None:
        observed = entry.mesh.observe(now)
        if ref in self._wanted and entry.rests(self._files.checked, observed, now):
            return
        entry.planned_at = now
        local = self._desired(ref, entry)
        desired = local.state.mesh
        stored = self._store(entry, local.files)
        if ref in self._wanted:
            entry.states.update(entry.resources, local.state, observed, now)
        actions = plan(local.state, observed)
        waiting: set[str] = set()
        # Without their files, routers get no new configuration, but they can always be stopped.
        for action in actions if stored or ref not in self._wanted else ():
            # The steps of one router depend on each other; those of other routers continue.
            if action.router_id in waiting or not entry.mesh.apply(action, now):
                waiting.add(action.router_id)
            with suppress(OSError):  # the next step repeats and reports it
                entry.mesh.folder.save()
        was, entry.converged = entry.converged, not actions and _all_connected(desired, entry.mesh)
        entry.mesh.watched = not entry.converged
        if entry.converged and not was and ref in self._wanted:
            connected = ", all connected" if len(entry.mesh.routers) > 1 and desired.routers[1].connectors else ""
            self._tell(GOOD, f"{ref} is ready: {_count(len(entry.mesh.routers), 'router')}{connected}")
        if entry.converged and ref in self._wanted:
            moved, entry.moved = entry.moved, entry.mesh.shifted_ports
            for text in entry.moved:
                if text not in moved:
                    self._tell(WARN, text)

    def _store(self, entry: _Entry, files: Mapping[str, bytes]) -> bool:
        """Write the state of the mesh. An error, such as a full disk, is reported once and each step tries again."""
        problem = ""
        try:
            entry.mesh.folder.write_credentials(files)
            entry.mesh.folder.save()
        except OSError as error:
            problem = f"cannot write to {entry.mesh.folder.path}: {error.strerror}"
            if problem != entry.problem:
                self._tell(BAD, problem)
        entry.problem = problem
        return not problem

    def _desired(self, ref: Ref, entry: _Entry) -> DesiredLocal:
        router = entry.resources.router
        if ref not in self._wanted:
            return DesiredLocal(DesiredState(DesiredMesh(ref, (), router.drain_timeout_s), (), {}), {})
        alive = {
            name: r for name, r in entry.mesh.routers.items() if r.state in (RouterState.RUNNING, RouterState.STARTING)
        }
        secrets = self._files.checked.secrets_of(ref.namespace)
        folder = entry.mesh.folder
        places = entry.ports.places(router, alive)
        context = LocalContext(places, secrets, str(folder.credentials), str(folder.telemetry), folder.users())
        return desired_local(entry.resources, context)

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
        return is_free(port) and not any(port in entry.ports.chosen for entry in self._entries.values())

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


def _all_connected(desired: DesiredMesh, mesh: LocalMesh) -> bool:
    """Whether all desired routers respond, see all others (and no former ones) and have their neighbours."""
    neighbours = desired.neighbours
    if neighbours.keys() != mesh.routers.keys():
        return False
    for live in mesh.routers.values():
        others = neighbours.keys() - {live.id} if neighbours[live.id] else set()
        own = {name for name in live.view.known if name.rpartition("-")[0] == desired.ref.name}
        if live.state is not RouterState.RUNNING or own != others:
            return False
        if not neighbours[live.id] <= set(live.view.neighbours):
            return False
    return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


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
