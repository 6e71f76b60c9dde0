"""Where a run takes place in the simulation: the same routers, clients and faults, in virtual time and one process."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.chaos.client import Group
from tests.chaos.mesh import ADDRESSES, EDGE, INTERIORS, RING, UPLINKS, features
from tests.chaos.schedule import TLS_KINDS, Planned
from tests.chaos.virtual_clients import TENANTS_PORT, VirtualClients
from tests.chaos.workload import PLANS, Plan
from tests.simulation.full.disk import Disk
from tests.simulation.full.disk_check import faults
from tests.simulation.full.network import Cable, Network, SimRouter
from tests.simulation.full.world import Terms, Ways, Wire

CONVERGE_S = 30.0
STEP_S = 0.05
CRASH_WRITES, CRASH_S = 100, 0.5
"""A router that is killed dies in the middle of one of its next writes, but not later than that."""
WITHOUT_COUNTERPART = frozenset({"loss", "rate", *TLS_KINDS})
"""Faults of real processes that the simulation leaves out: it has neither packets nor TLS."""
SLOW_S = (0.0, 0.0, 0.002, 0.05)
"""How long each call of a disk takes at most, in different runs."""
CLOSE_S = 0.2
"""What a router that stops gives its peers to answer."""


class Virtual:
    """Simulated routers and clients. `idle_s`: the idle time-out of all connections; `disks`: routers write telemetry
    and logs."""

    def __init__(self, seed: int, idle_s: int, plans: Mapping[str, Plan] = PLANS, *, disks: bool = True) -> None:
        self._seed, self._idle_s, self._plans = seed, idle_s, plans
        self._rng = random.Random(f"{seed}/virtual")
        self._network = Network(seed)
        self._network.chunked = self._rng.choice((0.0, 0.1, 0.5))
        self._jitter_s = self._rng.choice((0.0, 0.0005, 0.005))
        self._clients: VirtualClients | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="chaos-")
        self.disk_faults: list[str] = []
        """What is wrong with the files that routers left, at the end."""
        for name in INTERIORS:
            self._network.router(name)
        self._cables = {f"{name}-{other}": self._network.cable(name, other) for name, other in RING}
        edge = self._network.edge(EDGE, [other for _, other in UPLINKS])
        self._cables |= {f"{EDGE}-{cable.other.name}": cable for cable in edge.cables.values()}
        self._routers: dict[str, SimRouter] = {**self._network.routers, EDGE: edge}
        for router in self._routers.values():
            router.door_settings = f"idleTimeoutSeconds: {idle_s}\n"
            router.disk = self._disk(router) if disks else None
            router.extra = ADDRESSES + self._telemetry(router)
            if plans is not PLANS:
                router.extra += features(router.name) + self._door_of_tenants(router)

    @property
    def group(self) -> Group:
        """The clients."""
        assert self._clients is not None
        return self._clients.group

    def start(self) -> None:
        """Start the routers, then the clients."""
        self._network.start()
        self.until(lambda: all(map(_has_all_neighbours, self._routers.values())), CONVERGE_S, "all neighbours")
        self._states = {name: _state(router) for name, router in self._routers.items()}
        self._clients = VirtualClients(self._network, self._plans, self._seed, self._idle_s)
        for name in (*self._cables, *self._plans):
            for terms in (self._ways(name).there, self._ways(name).back):
                terms.jitter_s = self._jitter_s

    def _door_of_tenants(self, router: SimRouter) -> str:
        if not any(plan.tenant and plan.router == router.name for plan in self._plans.values()):
            return ""
        access = f"saslMechanisms: ANONYMOUS\n{router.door_settings}"
        port = TENANTS_PORT + router.number
        return f"listener {{\nname: tenants\nhost: 0.0.0.0\nport: {port}\nmultiTenant: yes\n{access}}}\n"

    def _disk(self, router: SimRouter) -> Disk:
        rng = random.Random(f"{self._seed}/{router.name}/disk")
        folder = Path(self._folder.name, router.name)
        return Disk(router, folder, f"{self._seed}/{router.name}", rng.choice(SLOW_S), rng.choice((0.0, 0.2)))

    @staticmethod
    def _telemetry(router: SimRouter) -> str:
        if router.disk is None:
            return ""
        often = "sampleOneIn: 1\nintervalSeconds: 5\nrotateSeconds: 5\n"
        return f"telemetry {{\nmesh: m\npath: {router.disk.folder}\n{often}}}\n"

    @property
    def injected(self) -> Counter[str]:
        """How often what went wrong."""
        return self._network.injected

    def close(self) -> None:
        """End the routers, and look at what is on their disks."""
        for name, router in self._routers.items():
            if router.disk is not None:
                router.disk.finish()
                self.disk_faults += [f"{name}: {text}" for text in faults(router.disk)]
        self._folder.cleanup()

    def finish(self) -> None:
        """Let clients send nothing new."""
        self.group.finish()

    # ---- time
    def now(self) -> float:
        """Virtual seconds."""
        return self._network.now

    def rest(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._network.run(max(0.0, seconds))

    def until(self, condition: Callable[[], object], limit_s: float, what: str | Callable[[], str]) -> None:
        """Let time pass until a condition holds; AssertionError when it does not in time."""
        end = self.now() + limit_s
        while not condition():
            assert self.now() < end, f"not within {limit_s} s: {what() if callable(what) else what}"
            self._network.run(STEP_S)

    # ---- faults
    def begin(self, fault: Planned) -> None:
        """Bring it about, unless its target is not here."""
        if not self._has(fault.target):
            return
        match fault.kind:
            case "kill":
                self._routers[fault.target].crash_within(self._rng.randrange(1, CRASH_WRITES), CRASH_S)
            case "restart":
                self._routers[fault.target].stop()
                self._network.after(CLOSE_S, self._routers[fault.target].crash)
            case "pause":
                self._routers[fault.target].pause()
            case "clock":
                self._routers[fault.target].clock_off_s = fault.amount
                self.injected["clock jump"] += 1
            case "full":
                self._disk_of(fault).full = True
            case "cut":
                self._wire(fault.target).cut()
            case "half-open":
                wire = self._wire(fault.target)
                for end in wire.ends[:1] if fault.way == "there" else wire.ends[1:]:
                    wire.halve(end)
            case "partition":
                for name, way in self._mesh_ways(fault):
                    for terms in self._terms(replace(fault, target=name, way=way)):
                        terms.held = True
            case kind if kind not in WITHOUT_COUNTERPART:
                for terms in self._terms(fault):
                    self._set(terms, fault)

    def end(self, fault: Planned) -> None:
        """Take it back."""
        if not self._has(fault.target):
            return
        match fault.kind:
            case "kill" | "restart":
                self._routers[fault.target].start()
            case "pause":
                self._routers[fault.target].go_on()
            case "clock":
                self._routers[fault.target].clock_off_s = 0.0
            case "full":
                self._disk_of(fault).full = False
            case "partition":
                for name, _ in self._mesh_ways(fault):
                    self._undo(name)
            case kind if kind not in WITHOUT_COUNTERPART:
                self._undo(fault.target)

    def _disk_of(self, fault: Planned) -> Disk:
        disk = self._routers[fault.target].disk
        assert disk is not None
        return disk

    def _has(self, target: str) -> bool:
        """Whether there is such a router, wire or client: brokers and their clients are not here."""
        return target in self._routers or target in self._cables or target in self._plans

    def heal(self) -> None:
        """Take back all that is left of faults of wires."""
        for name in (*self._cables, *self._plans):
            self._undo(name)

    def are_wires_whole(self) -> bool:
        """Whether each connector and client has a connection that works."""
        names = (*self._cables, *self._plans)
        return all(_is_whole(self._wire_or_none(name)) and not self._ways(name).half_open for name in names)

    def are_routes_restored(self) -> bool:
        """Whether routers know what they knew at the start."""
        return all(_state(router) == self._states[name] for name, router in self._routers.items())

    def losses(self) -> Counter[str]:
        """What was lost so far: connections, by their wires, and routes between neighbours."""
        changes = sum(
            module == "ROUTER_LS" and level == "info" and text.startswith("Neighbour")
            for router in self._routers.values()
            for _, module, level, text in router.lines
        )
        ended = {name: self._ways(name).ended for name in (*self._cables, *self._plans)}
        return Counter({"route": changes}) + Counter(ended)

    # ---- wires by their names
    def _ways(self, name: str) -> Ways:
        cable = self._cables.get(name)
        if cable is not None:
            return cable.ways
        assert self._clients is not None
        return self._clients.ways[name]

    def _wire_or_none(self, name: str) -> Wire | None:
        cable: Cable | None = self._cables.get(name)
        if cable is not None:
            return cable.wire
        assert self._clients is not None
        return self._clients.wires.get(name)

    def _wire(self, name: str) -> Wire:
        """The wire that is there, or the last one that was."""
        wire = self._wire_or_none(name)
        assert wire is not None
        return wire

    def _terms(self, fault: Planned) -> list[Terms]:
        ways = self._ways(fault.target)
        return {"there": [ways.there], "back": [ways.back]}.get(fault.way, [ways.there, ways.back])

    def _mesh_ways(self, fault: Planned) -> list[tuple[str, str]]:
        """The wires of a router to others; with `there`, the way of each one on which it sends."""
        turned = {"there": "back", "back": "there", "both": "both"}
        found = []
        for name in self._cables:
            caller, _, callee = name.partition("-")
            if fault.target in (caller, callee):
                found.append((name, fault.way if fault.target == caller else turned[fault.way]))
        return found

    @staticmethod
    def _set(terms: Terms, fault: Planned) -> None:
        match fault.kind:
            case "hold":
                terms.held = True
            case "delay" | "far":
                terms.delay_s = fault.amount
            case "reorder":
                terms.jitter_s = fault.amount
            case _:
                terms.rate = fault.amount

    def _undo(self, name: str) -> None:
        ways = self._ways(name)
        for terms in (ways.there, ways.back):
            terms.held, terms.delay_s, terms.rate = False, 0.0, Terms().rate
            terms.jitter_s = self._jitter_s
        wire = self._wire_or_none(name)
        if wire is not None:
            wire.look()


def _is_whole(wire: Wire | None) -> bool:
    return wire is not None and not (wire.over or wire.silent) and len(wire.ends) == 2


def _has_all_neighbours(router: SimRouter) -> bool:
    """Whether a router is connected directly with all others, as they are in a ring of three."""
    state = _state(router)
    return state is True or (state is not None and all(cost == 1 for _, cost in state.values()))


def _state(router: SimRouter) -> Any:
    """Next hop and cost of each interior router that it knows; None while it does not know all of them, or an edge
    router has no active uplink."""
    if not router.alive:
        return None
    if router.name == EDGE:
        return router.core.uplink.active is not None or None
    nodes = {
        name: (node.next_hop.id if node.next_hop else "", node.cost) for name, node in router.core.nodes.items()
    }
    return nodes if len(nodes) == len(INTERIORS) - 1 else None
