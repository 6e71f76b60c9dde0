"""Whole routers joined in memory under virtual time.

`SimRouter` is the host of one `Router`. A `Cable` is a connector's way to another router: it can be cut, mended and
made a black hole. Configurations are texts in the format of qdrouterd.conf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from tests.simulation.full.absent import NoServices, NoTokens, NoUsers
from tests.simulation.full.disk import VirtualExporter
from tests.simulation.full.mortal import Mortal
from tests.simulation.full.records import Records
from tests.simulation.full.world import Ways, Wire, World
from waymesh_amqp.connection import Connection
from waymesh_router.connections.retries import Retries
from waymesh_router.events.event import Event
from waymesh_router.peers.certificate import Validity
from waymesh_router.peers.peer import Peer
from waymesh_router.policy.hosts import Addresses
from waymesh_router.router import Router
from waymesh_schema.config import parse_conf

CLIENT_PORT = 10000
MESH_PORT = 20000
EDGE_PORT = 40000
EDGE = "edge"
OPEN_ACCESS = "saslMechanisms: ANONYMOUS\nauthenticatePeer: no\nmanagement: write\n"


class Network(World):
    """Routers and the cables between them. `edges`: edge routers, by name; `routers`: all others."""

    def __init__(self, seed: int = 1) -> None:
        World.__init__(self, seed)
        self.routers: dict[str, SimRouter] = {}
        self.edges: dict[str, SimRouter] = {}
        self.cables: list[Cable] = []
        self.ports: dict[int, tuple[SimRouter, str]] = {}

    def router(self, name: str, extra: str = "") -> SimRouter:
        """A router that is not started yet. `extra`: further sections of its configuration."""
        router = self.routers[name] = SimRouter(self, name, extra)
        return router

    def cable(self, one: str, other: str, latency: float = 0.001, cost: int = 1) -> Cable:
        """Give `one` a connector to `other`; before they start."""
        cable = Cable(self.routers[one], self.routers[other], latency, cost)
        self.cables.append(cable)
        self.routers[one].cables[cable.name] = cable
        return cable

    def edge(self, name: str, interiors: Sequence[str], latency: float = 0.001) -> SimRouter:
        """An edge router that is not started yet, with a connector to each of the interior routers, in this order."""
        edge = self.edges[name] = SimRouter(self, name, "", EDGE)
        for interior in interiors:
            cable = Cable(edge, self.routers[interior], latency, 1, EDGE)
            edge.cables[cable.name] = cable
            self.routers[interior].takes_edges = True
        return edge

    def start(self) -> None:
        for router in (*self.routers.values(), *self.edges.values()):
            router.start()

    def dial(self, port: int, latency: float, ways: Ways | None = None) -> tuple[Wire, SimRouter, str] | None:
        """A wire to who listens on the port, with the listener's name; None where nobody does."""
        place = self.ports.get(port)
        if place is None:
            return None
        return Wire(self, latency, ways=ways), *place


class Cable:
    """The way of the connector `name` of `one` to `other`. `up`: it can be dialled; `silent`: it swallows all bytes.

    `rate`: bytes a second; `limit`: bytes that may be on their way.
    """

    extra = ""

    def __init__(
        self, one: SimRouter, other: SimRouter, latency: float, cost: int, role: str = "inter-router"
    ) -> None:
        self.one = one
        self.other = other
        self.role = role
        self.port = (EDGE_PORT if role == EDGE else MESH_PORT) + other.number
        self.latency = latency
        self.cost = cost
        self.name = f"to-{other.name}-{len(one.cables)}"
        self.rate = math.inf
        self.limit = 1 << 18
        self.up = True
        self.silent = False
        self.wire: Wire | None = None
        self.ways = Ways()

    def cut(self) -> None:
        """Break the connection and let no new one through; what is on its way is lost."""
        self.up = False
        self.drop()

    def drop(self) -> None:
        """Break the connection; the connector may dial again at once."""
        if self.wire is not None:
            self.wire.cut()

    def silence(self) -> None:
        """From now on nothing arrives, and nobody is told."""
        self.silent = True
        if self.wire is not None:
            self.wire.silent = True

    def mend(self) -> None:
        """Let it be dialled again. A wire that lost bytes cannot go on."""
        if self.silent:
            self.drop()
        self.up = True
        self.silent = False

    def works(self) -> bool:
        """Whether the two routers can talk over it, once it is dialled."""
        return self.up and not self.silent and self.one.alive and self.other.alive


class SimRouter(Mortal):
    """A `Router` and its host. After `crash` a `start` makes a new instance of the same configuration."""

    def __init__(self, network: Network, name: str, extra: str, mode: str = "interior") -> None:
        Mortal.__init__(self, network)
        self.network = network
        self.name = name
        self.mode = mode
        self.takes_edges = False
        self.number = len(network.routers) + len(network.edges)
        self.extra = extra
        self.settings = ""
        """Further lines of the section `router` of the configuration."""
        self.door_settings = ""
        """Further lines of each listener and connector."""
        self.cables: dict[str, Cable] = {}
        self.errors = 0
        self.tokens = NoTokens(self)
        self.users = NoUsers()
        self.auth_services = NoServices()
        self.host_name = f"machine-of-{name}"
        self.verbose = False
        self.lines: list[tuple[float, str, str, str]] = []
        """Log: time, module, level, text."""
        self.records: Records
        """Telemetry, where the configuration asks for it."""
        self.router: Any = None
        self._retries: dict[str, Retries] = {}
        self._waiting: dict[str, int] = {}
        """Connectors that wait to dial again: the number of the wait, by name."""
        self._waits = 0
        self.segments: Callable[[float], float] = lambda _now: 0
        """Segments that each peer has sent until then."""

    @property
    def core(self) -> Any:
        return self.router.core

    def configuration(self) -> str:
        doors = [("clients", "normal", CLIENT_PORT)]
        if self.mode != EDGE:
            doors.append(("mesh", "inter-router", MESH_PORT))
        if self.takes_edges:
            doors.append(("edges", EDGE, EDGE_PORT))
        parts = [f"router {{\nmode: {self.mode}\nid: {self.name}\n{self.settings}}}\n"]
        for name, role, port in doors:
            where = f"host: 0.0.0.0\nport: {port + self.number}"
            parts.append(f"listener {{\nname: {name}\nrole: {role}\n{where}\n{OPEN_ACCESS}{self.door_settings}}}\n")
        for cable in self.cables.values():
            where = f"host: {cable.other.name}\nport: {cable.port}\ncost: {cable.cost}"
            how = f"role: {cable.role}\nsaslMechanisms: ANONYMOUS\n{self.door_settings}{cable.extra}"
            parts.append(f"connector {{\nname: {cable.name}\n{where}\n{how}\n}}\n")
        return "".join(parts) + self.extra

    def start(self) -> None:
        config = parse_conf(self.configuration(), f"{self.name}.conf")
        self.lives()
        self._life += 1
        self._retries.clear()
        self._waiting.clear()
        self._alarm = math.inf
        now = self.world.now
        host: Any = self  # has the methods of Host that are called without sockets, files and threads
        self.router = Router(config, host, now, self.world.rng, "test", int(now))
        self.router.start()
        self.wake()

    def crash(self) -> None:
        """Gone at once: nothing is said to anybody; peers see their transports end."""
        self.died()
        self._life += 1
        self.when_on.clear()
        self.unlisten()
        for end in list(self.ends.values()):
            end.open = False
            end.wire.lose()
        self.ends.clear()

    def stop(self) -> None:
        """In order: all connections are closed. A `crash` has to follow."""
        self.unlisten()
        for name in list(self._retries):
            self.disconnect(name)
        for conn in list(self.ends):
            conn.close("amqp:connection:forced", "the router stops")
        self.wake()

    # ---- a station
    def woken(self, now: float) -> None:
        self.router.core.now = now

    def tick(self, now: float) -> float:
        return float(self.router.tick(now))

    def dirty_connections(self) -> list[Connection]:
        dirty: list[Connection] = self.router.dirty
        return dirty

    def lost(self, end: Any, reason: str) -> None:
        self.router.lost(end.conn, reason)
        if end.endpoint in self._retries:
            self._retries[end.endpoint].lost(self.world.now)
            self._again(end.endpoint)

    # ---- connectors
    def _again(self, name: str) -> None:
        """Dial later."""
        self._waits += 1
        self._waiting[name] = self._waits
        self.world.after(self._retries[name].delay(self.world.now), self._waited, self._life, name, self._waits)

    def _waited(self, life: int, name: str, wait: int) -> None:
        if self.paused:
            self.when_on.append(partial(self._waited, life, name, wait))
        elif life == self._life and self._waiting.get(name) == wait:
            self._dial(life, name)

    def _dial(self, life: int, name: str) -> None:
        if self.paused:
            self.when_on.append(partial(self._dial, life, name))
            return
        if life != self._life or name not in self._retries:
            return
        self._waiting.pop(name, None)
        cable = self.cables[name]
        found = self.network.dial(cable.port, cable.latency, cable.ways) if cable.up else None
        if found is None:
            self.router.connect_failed(name, "refused")
            self.wake()
            self._again(name)
            return
        wire, other, listener = found
        wire.silent, wire.rate, wire.limit = cable.silent, cable.rate, cable.limit
        cable.wire = wire
        self.world.after(cable.latency, other.accept, wire, listener, f"{self.name}:{name}")
        self.world.after(2 * cable.latency, self._connected, life, name, wire)

    def _connected(self, life: int, name: str, wire: Wire) -> None:
        if self.paused:
            self.when_on.append(partial(self._connected, life, name, wire))
        elif life != self._life:
            wire.cut()
        elif wire.dead or not wire.ends:
            self._again(name)
        else:
            self._retries[name].connected(self.world.now)
            wire.join(self, self.router.connected(name, Peer(self.cables[name].other.name)), name)

    def accept(self, wire: Wire, listener: str, peer: str) -> None:
        if self.alive and not wire.dead:
            wire.join(self, self.router.accepted(listener, Peer(peer)), listener)

    # ---- Host
    def listen(self, attrs: Mapping[str, Any]) -> None:
        port = int(attrs["port"])
        if port in self.network.ports:
            raise OSError(f"port {port} is in use")
        self.network.ports[port] = (self, attrs["name"])

    def update_listener(self, attrs: Mapping[str, Any]) -> None:
        """Nothing of it is kept here."""

    def unlisten(self, name: str = "") -> None:
        for port in self.ports(name):
            del self.network.ports[port]

    def connect(self, attrs: Mapping[str, Any]) -> None:
        self._retries[attrs["name"]] = Retries(self.world.rng.random, self.world.now)
        self.world.after(0.0, self._dial, self._life, attrs["name"])

    def opened(self, conn: Connection) -> None:
        """Nothing limits how many are opening."""

    def segments_in(self, conn: Connection) -> int:
        return int(self.segments(self.world.now))

    def retry(self) -> None:
        for name in list(self._waiting):
            self.world.after(0.0, self._waited, self._life, name, self._waiting[name])

    def disconnect(self, name: str) -> None:
        self._retries.pop(name, None)
        self._waiting.pop(name, None)

    def ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        raise OSError("there is no TLS here")

    def remove_ssl_profile(self, name: str) -> None:
        """There is none."""

    def ports(self, name: str = "") -> list[int]:
        return [port for port, (router, own) in self.network.ports.items() if router is self and name in ("", own)]

    def log(self, module: str, level: str, text: str, event: Event | None = None, /) -> None:
        self.lines.append((self.world.now, module, level, text))
        self.write_line(module, level, text)
        if level in ("warning", "error", "critical") and self.router is not None:
            self.router.logged(module, level, text)

    def logs(self, module: str, level: str) -> bool:
        return self.verbose or level not in ("trace", "debug")

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """All is kept."""

    def trace(self, conn: Connection, on: bool) -> None:
        """No frames are kept."""

    def traced(self, conn: Connection) -> bool:
        return False

    def log_stats(self, module: str) -> Mapping[str, int]:
        return {}

    def numeric_addresses(self, names: Collection[str]) -> Addresses:
        return dict.fromkeys(names, ())

    def look_up(self, names: Collection[str], done: Callable[[Addresses], None]) -> None:
        done(self.numeric_addresses(names))

    def recent_log(self, limit: int) -> Sequence[Any]:
        return []

    def offload(self, conn: Connection, work: Callable[[], bytes]) -> bool:
        conn.resume(work())
        return True

    def certificates(self) -> Mapping[str, Validity]:
        return {}

    def internal_error(self, where: str, error: Exception) -> None:
        raise error

    def drop(self, conn: Connection, reason: str) -> None:
        """Never asked for: an internal error ends the test."""

    def memory_usage(self) -> int | None:
        return None

    def free_memory(self) -> int:
        return 0

    def check_telemetry(self, attrs: Mapping[str, Any]) -> None:
        """There is always room in memory."""

    def exporter(self, attrs: Mapping[str, Any], router_id: str) -> Records | VirtualExporter:
        if self.disk is not None:
            return self.disk.begin(attrs, router_id)
        self.records = Records(self.world)
        return self.records
