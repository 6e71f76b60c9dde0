"""The routers of one Router resource on this machine: observes them and applies actions of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from waymesh_operator.errors import LiveError
from waymesh_operator.places.place import Observation
from waymesh_operator.planning.actions import (
    Action,
    ApplyObject,
    CreateRouter,
    DeleteObject,
    RestartRouter,
    Scale,
    StopRouter,
    UpdateFiles,
    WriteSeed,
)
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.actions import DrainRouter, MoveClients, RouterAction, UndrainRouter
from waymesh_operator.router_entities.names import CONSOLE, LISTENER, ROUTER, Entity
from waymesh_operator.routers.management import (
    AddressView,
    LiveClient,
    apply_entity,
    read_addresses,
    read_entities,
    read_router,
    set_client_share,
    set_draining,
)
from waymesh_operator.routers.observed import JUST_STARTED, ObservedMesh, ObservedRouter, RouterFacts, RouterState

from .processes import TERMINATE_S, Launcher, LocalRouter, usage
from .state import LOOPBACK, StateFolder, is_free
from .status import BAD, GOOD, NOTE, WARN, Event, Sink

Connect = Callable[[str], LiveClient]
ASK_SOON_S, ASK_SOON_UNTIL_S, ASK_LATER_S = 0.05, 5.0, 2.0
"""Pause before a router that does not respond is queried again: up to this age of the router, and after it."""
ENTITIES_S, VIEW_S = 2.0, 1.0
"""Maximum age of the data read from a router: its entities, and its view of the mesh."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a local mesh; tests replace it."""

    launcher: Launcher
    connect: Connect
    events: Sink
    listening: Callable[[int], bool] = lambda port: not is_free(port)
    """Whether a port is in use: checked first, because a failed attempt to connect is expensive."""
    console: bool = False
    """Whether the first router of each mesh serves the console."""


class LocalMesh:
    """One mesh. No call blocks longer than a management request."""

    def __init__(self, ref: Ref, folder: StateFolder, world: Environment) -> None:
        self.ref = ref
        self.folder = folder
        self._world = world
        self.routers: dict[str, LocalRouter] = {}
        self._entities: dict[str, tuple[Entity, ...]] = {}
        self._leaving: set[str] = set()
        self._hurried = False
        self.watched = True
        """Whether the caller waits for the routers to connect: they are then queried in every step."""

    def adopt(self, now: float) -> None:
        """Take over routers that an earlier run left running."""
        for name, pid in self.folder.pids.items():
            process = self._world.launcher.find(pid, self.folder.config(name))
            if process is not None and name in self.folder.ports:
                self.routers[name] = LocalRouter(name, _ordinal(name), self._client(name), process, now)
                self._leaving.add(name)  # if it drains, the earlier run has requested it

    # --- observe ---

    def observe(self, now: float) -> Observation:
        """The current state. Detects and reports routers that have ended, started or left."""
        for router in list(self.routers.values()):
            self._look(router, now)
        running = [router for router in self.routers.values() if router.state is RouterState.RUNNING]
        return Observation(
            ObservedMesh({router.id: self._observed(router) for router in self.routers.values()}),
            {router.id: "drained" if self._hurried else router.drain for router in running},
            {router.id: str(router.process.pid) for router in running},
            {router.id: JUST_STARTED for router in self.routers.values() if router.just_started(now)},
            leaving=frozenset(self._leaving),
        )

    def _look(self, router: LocalRouter, now: float) -> None:
        ended = router.process.ended() if router.state not in (RouterState.WAITING, RouterState.EXITED) else None
        if ended is not None and router.draining:
            self._tell(NOTE, f"{router.id} stopped")
            self._remove(router)
        elif ended is not None:
            line = self.folder.last_log_line(router.id) if ended.startswith("exit") else ""
            self._tell(BAD, f"{router.id} ended: {ended}" + (f" ({line})" if line else ""))
            router.ended(ended, now)
            self._entities.pop(router.id, None)
        elif router.state is RouterState.DRAINING:
            if router.kill_if_overdue(now):
                self._tell(WARN, f"{router.id} did not end within {TERMINATE_S:g} s and is killed")
        elif router.state is RouterState.WAITING:
            router.state = RouterState.EXITED if now >= router.retry_at else RouterState.WAITING
        elif router.state is not RouterState.EXITED:
            self._ask(router, now)

    def _ask(self, router: LocalRouter, now: float) -> None:
        """Read the entities and the mesh view of the router."""
        if now < router.ask_at:
            return
        unknown = router.state is RouterState.STARTING
        if unknown and not self._world.listening(self.folder.ports[router.id]["management"][1]):
            return
        try:
            if unknown or router.changed or now - router.entities_at >= ENTITIES_S:
                self._entities[router.id] = read_entities(router.client)
                router.changed, router.entities_at = False, now
            elif router.drain != "none":
                kept = [entity for entity in self._entities[router.id] if entity.type != ROUTER]
                self._entities[router.id] = (*kept, *read_entities(router.client, (ROUTER,)))
            self._note_drain(router)
            if unknown or self.watched or now - router.view_at >= VIEW_S:
                router.view, router.view_at = read_router(router.client, router.id), now
        except LiveError as error:
            if router.state is RouterState.RUNNING:
                self._tell(WARN, f"{router.id} does not answer: {error}")
                router.state = RouterState.STARTING
            router.ask_at = now + (ASK_SOON_S if now - router.started_at < ASK_SOON_UNTIL_S else ASK_LATER_S)
            return
        if router.state is RouterState.STARTING:
            router.state, router.answered = RouterState.RUNNING, True
            self._tell(GOOD, f"{router.id} is up (pid {router.process.pid})")
        self._measure(router, now)

    def _measure(self, router: LocalRouter, now: float) -> None:
        used = usage(router.process.pid)
        if used is None or now - router.cpu_at < 1.0:
            return
        seconds, router.rss_bytes = used
        router.cpu = (seconds - router.cpu_seconds) / (now - router.cpu_at) if router.cpu_at else None
        router.cpu_seconds, router.cpu_at = seconds, now

    def _note_drain(self, router: LocalRouter) -> None:
        """Record the progress of a drain. A drained router has closed its clients' connections: the number of unsettled
        deliveries is the last one that it reported before."""
        own = self._own(router).attributes
        router.drain = str(own.get("drainStatus") or "none")
        if router.drain != "drained":
            router.unsettled = int(own.get("unsettledDeliveries") or 0)

    def _edges(self, router: LocalRouter) -> int:
        """Number of edge routers that no user group names, in the last report of the router."""
        own = (entity for entity in self._entities.get(router.id, ()) if entity.type == ROUTER)
        return sum(int(entity.attributes.get("edgesWithoutGroup") or 0) for entity in own)

    def _observed(self, router: LocalRouter) -> ObservedRouter:
        view = router.view
        edges = self._edges(router)
        return ObservedRouter(
            router.id,
            router.ordinal,
            router.state,
            self.folder.seed(router.id),
            self._entities.get(router.id, ()),
            router.reason,
            RouterFacts(view.known, view.neighbours, view.unsettled, view.containers, edges_without_group=edges),
        )

    def addresses(self) -> tuple[AddressView, ...]:
        """The addresses that clients use, over all running routers. Raises LiveError."""
        return read_addresses(r.client for r in self.routers.values() if r.state is RouterState.RUNNING)

    # --- apply ---

    def apply(self, action: Action, now: float) -> str:
        """Apply one action, or start it. Returns the reason of a failure, which is reported, or an empty text."""
        try:
            match action:
                case CreateRouter() | RestartRouter():
                    self._start(action, now)
                case StopRouter():
                    self._tell(NOTE, action.describe())
                    self._stop(self.routers[action.router_id], now)
                case WriteSeed():
                    self.folder.write_seed(action.router_id, action.seed)
                case ApplyObject() | DeleteObject() | Scale() | UpdateFiles():
                    raise AssertionError("local mode has no objects")
                case _:
                    self._apply_to_router(action)
        except (LiveError, OSError) as error:
            self._tell(BAD, str(error) if isinstance(error, LiveError) else f"{action.describe()}: {error}")
            return (error.refused if isinstance(error, LiveError) else "") or str(error)
        return ""

    def _apply_to_router(self, action: RouterAction) -> None:
        router = self.routers[action.router_id]
        router.changed = True
        match action:
            case DrainRouter():
                self._leaving.add(router.id)
                set_draining(router.client, self._own(router).name, action.timeout_s)
            case UndrainRouter():
                set_draining(router.client, self._own(router).name, None)
                self._leaving.discard(router.id)
            case MoveClients():
                set_client_share(router.client, self._own(router).name, action.share, action.older_s)
            case _:
                apply_entity(router.client, action)
        self._tell(NOTE, action.describe())

    def _own(self, router: LocalRouter) -> Entity:
        """The router's `router` entity."""
        return next(entity for entity in self._entities[router.id] if entity.type == ROUTER)

    def _start(self, action: CreateRouter | RestartRouter, now: float) -> None:
        name = action.router_id
        self.folder.write_seed(name, action.seed)
        process = self._world.launcher.start(self.folder.config(name), self.folder.log(name))
        self._tell(NOTE, action.describe())
        if name in self.routers:
            self.routers[name].started(process, self._client(name), now)
        else:
            self.routers[name] = LocalRouter(name, action.router.ordinal, self._client(name), process, now)
        self.folder.pids[name] = process.pid

    def _stop(self, router: LocalRouter, now: float) -> None:
        if router.state in (RouterState.WAITING, RouterState.EXITED):
            self._remove(router)
            return
        if router.unsettled:
            self._tell(WARN, f"{router.id} stops with {router.unsettled} unsettled deliveries")
        router.terminate(now)

    def hurry(self) -> None:
        """Stop the routers that are being removed, without waiting for their drain."""
        self._hurried = True

    def close(self) -> None:
        """Close all management connections; the routers keep running."""
        for router in self.routers.values():
            router.client.close()

    def _remove(self, router: LocalRouter) -> None:
        router.client.close()
        del self.routers[router.id]
        self._leaving.discard(router.id)
        self._entities.pop(router.id, None)
        self.folder.pids.pop(router.id, None)
        self.folder.ports.pop(router.id, None)

    def _client(self, name: str) -> LiveClient:
        return self._world.connect(self.folder.management(name))

    def _tell(self, level: str, text: str) -> None:
        self._world.events(Event(level, text))

    @property
    def urls(self) -> Mapping[str, Mapping[str, str]]:
        """For each router, the URL of each client listener, by the listener's name."""
        return {
            name: {
                purpose.removeprefix("listener/"): f"{self._scheme(name, purpose)}://{LOOPBACK}:{pair[1]}"
                for purpose, pair in ports.items()
                if purpose.startswith("listener/")
            }
            for name, ports in self.folder.ports.items()
        }

    @property
    def console_url(self) -> str:
        """The address of the console; "" if no running router serves it."""
        running = (ports for name, ports in self.folder.ports.items() if name in self.routers)
        return next((f"http://{LOOPBACK}:{ports[CONSOLE][1]}/console/" for ports in running if CONSOLE in ports), "")

    @property
    def shifted_ports(self) -> list[str]:
        """Texts about listeners that do not have the port of the manifest. They keep theirs while the router runs."""
        return [
            f"port {wanted} was in use: until {name} starts again, its {purpose.removeprefix('listener/')}"
            f" listens on {port}"
            for name, purposes in self.folder.ports.items()
            for purpose, (wanted, port) in purposes.items()
            if wanted not in (0, port)
        ]

    def _scheme(self, router: str, purpose: str) -> str:
        """Of the URL of a listener, as the router has it."""
        listeners = (e for e in self._entities.get(router, ()) if e.type == LISTENER and e.owned)
        own = next((e.attributes for e in listeners if e.base_name.endswith(f"/{purpose}")), {})
        return ("ws" if own.get("http") else "amqp") + ("s" if own.get("sslProfile") else "")


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
