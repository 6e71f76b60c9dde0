"""A mesh on this machine as the place of its reconciler: its processes, files and ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from waymesh_operator.places.place import Observation, Pass, Refused, Result, State
from waymesh_operator.planning.actions import Action, CreateRouter
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.mesh import DesiredMesh
from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.router_entities.credentials import SecretData
from waymesh_operator.routers.observed import JUST_STARTED, RouterState

from .desired import LocalContext, desired_local
from .mesh import LocalMesh
from .state import PortTable
from .status import BAD, GOOD, WARN, Event, ResourceStates, Sink

_T = TypeVar("_T")
_ALIVE = (RouterState.RUNNING, RouterState.STARTING)


class LocalPlace:
    """The processes of one mesh (see `Place`). Nothing here waits: its coroutines end when they are first resumed."""

    passes = 1  # the routers of other meshes, and the terminal, wait meanwhile
    was_converged = True  # those that an earlier run left have the seeds that it wrote

    def __init__(
        self, mesh: LocalMesh, ports: PortTable, events: Sink, secrets: Callable[[], Mapping[str, SecretData]]
    ) -> None:
        """`secrets`: those of the mesh's namespace."""
        self.mesh = mesh
        self.ports = ports
        self.states = ResourceStates(events)
        self.converged = False
        self.wanted = True
        """False: the mesh is to end."""
        self.now = 0.0
        """The time of the present step, by the monotonic clock."""
        self._events = events
        self._secrets = secrets
        self._resources: Resources | None = None
        # Why the state folder could not be written in the last step.
        self._problem = ""
        # The last texts about ports that differ from those of the manifest.
        self._moved: Sequence[str] = ()

    async def observe(self, resources: Resources) -> Observation:
        """See Place."""
        self._resources = resources
        return self.mesh.observe(self.now)

    async def facts(self, resources: Resources) -> LocalContext:
        """See Place."""
        if not self.wanted:
            return LocalContext(())
        folder = self.mesh.folder
        alive = {name: router for name, router in self.mesh.routers.items() if router.state in _ALIVE}
        places = self.ports.places(resources.router, alive)
        return LocalContext(places, self._secrets(), str(folder.credentials), str(folder.telemetry), folder.users())

    def desired(self, resources: Resources, facts: LocalContext) -> DesiredState:
        """See Place."""
        if self.wanted:
            return desired_local(resources, facts)
        return DesiredState(DesiredMesh(self.mesh.ref, (), resources.router.drain_timeout_s), (), {})

    def objects(self) -> dict[tuple[str, str], Mapping[str, object]]:
        """See Place. There are none."""
        return {}

    def versions(self) -> object:
        """See Place."""
        return self._resources, self.wanted

    async def compute(self, work: Callable[[], _T]) -> _T:
        """See Place."""
        return work()

    async def apply(self, this_pass: Pass, steps: Sequence[Action]) -> Result:
        """See Place. The steps of one router depend on each other; those of other routers continue."""
        result, due = Result(), {id(step) for step in steps}
        # Without their files, routers get no new configuration, but they can always be stopped.
        stored = self._store(this_pass.desired.files)
        waiting: set[str] = set()
        for action in this_pass.actions if stored or not self.wanted else ():
            if action.router_id in waiting:
                continue
            if id(action) not in due:
                waiting.add(action.router_id)
            elif problem := self.mesh.apply(action, self.now):
                result.refused.append(Refused(action, problem))
                waiting.add(action.router_id)
            else:
                result.taken.append(action)
            with suppress(OSError):  # the next step repeats and reports it
                self.mesh.folder.save()
        return result

    async def write_status(self, this_pass: Pass, result: Result, seen: MeshSnapshot) -> State:
        """See Place: reports what has changed."""
        if self.wanted:
            self.states.update(this_pass.resources, _with_started(seen, result), self.now)
        was, desired = self.converged, this_pass.desired.mesh
        self.converged = not this_pass.actions and _all_connected(desired, self.mesh)
        self.mesh.watched = not self.converged
        if self.converged and self.wanted:
            self._report(desired, was_converged=was)
        return "done" if self.converged and self.states.settled and not self._problem else "busy"

    def _report(self, desired: DesiredMesh, *, was_converged: bool) -> None:
        if not was_converged:
            count = len(self.mesh.routers)
            connected = ", all connected" if count > 1 and desired.routers[1].connectors else ""
            self._tell(GOOD, f"{desired.ref} is ready: {count} router{'' if count == 1 else 's'}{connected}")
        moved, self._moved = self._moved, self.mesh.shifted_ports
        for text in self._moved:
            if text not in moved:
                self._tell(WARN, text)

    def _store(self, files: Mapping[str, bytes]) -> bool:
        """Write the state of the mesh. An error, such as a full disk, is reported once and each step tries again."""
        problem = ""
        try:
            self.mesh.folder.write_credentials(files)
            self.mesh.folder.save()
        except OSError as error:
            problem = f"cannot write to {self.mesh.folder.path}: {error.strerror}"
            if problem != self._problem:
                self._tell(BAD, problem)
        self._problem = problem
        return not problem

    def _tell(self, level: str, text: str) -> None:
        self._events(Event(level, text))


def _with_started(seen: MeshSnapshot, result: Result) -> MeshSnapshot:
    """The observation, with the routers that were started after it."""
    started = {action.router_id: JUST_STARTED for action in result.taken if isinstance(action, CreateRouter)}
    if not started:
        return seen
    return replace(seen, observed=replace(seen.observed, troubles={**seen.observed.troubles, **started}))


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
