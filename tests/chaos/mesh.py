"""The routers of a run: three interior routers in a ring and an edge router with two uplinks, all behind relays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.relay import Relay
from tests.chaos.schedule import Shape
from tests.chaos.workload import ALERTS, BOUND, Plan
from tests.kit.mesh import CONVERGE_S
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient

INTERIORS = ("A", "B", "C")
EDGE = "E"
RING = (("B", "A"), ("C", "B"), ("A", "C"))
UPLINKS = ((EDGE, "A"), (EDGE, "B"))
"""Who connects, to whom."""
WIRES = tuple(f"{name}-{other}" for name, other in (*RING, *UPLINKS))
ROLES = dict.fromkeys(INTERIORS, ("normal", "inter-router", "edge")) | {EDGE: ("normal",)}
"""Of the listeners of each router."""
ROUTE_CHANGE = "ROUTER_LS (info) Neighbour"
DISTRIBUTIONS = ("balanced", "closest", "multicast")
ADDRESSES = "".join(section("address", prefix=name, distribution=name) for name in DISTRIBUTIONS)
EXCHANGE_AT = "B"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of all routers. `idle_s`: the idle time-out of their connections; `within`: the words before the command of a
    router, as of RouterProcess; `extra`: more configuration for a router; `host`: where routers listen for others;
    `tls`: the name of the profile of all connections but those of this process's own questions, "" without."""

    idle_s: int
    within: Callable[[str], Sequence[str] | None] = lambda _: None
    extra: Callable[[str], str] = lambda _: ""
    host: str = LOOPBACK
    tls: str = ""


class ChaosMesh:
    """Router processes by their names, and what leads to them."""

    def __init__(self, folder: Path, relay: Relay, clients: dict[str, Plan], settings: Settings) -> None:
        """`clients`: who needs a way to which router."""
        self.routers: dict[str, RouterProcess] = {}
        self.relay = relay
        ports = {(name, role): free_port() for name, roles in ROLES.items() for role in roles}
        tenants = {plan.router: free_port() for plan in clients.values() if plan.tenant}
        idle_s, hosts = settings.idle_s, {"normal": LOOPBACK}
        doors = {name: free_port() if settings.tls else ports[name, "normal"] for name in ROLES}
        """Where clients connect."""
        secure: dict[str, object] = {"sslProfile": settings.tls} if settings.tls else {}
        for_clients: dict[str, object] = secure | {"requireSsl": True} if secure else {}
        to_peers = secure | {"saslMechanisms": "EXTERNAL"} if secure else {}
        for_peers = for_clients | to_peers | {"authenticatePeer": True} if secure else {}
        texts = {
            name: section("router", id=name, mode="edge" if name == EDGE else "interior")
            + "".join(
                _door(
                    "listener", role, ports[name, role], role, idle_s, {} if role == "normal" else for_peers,
                    hosts.get(role, settings.host),
                )
                for role in roles
            )
            for name, roles in ROLES.items()
        }  # fmt: skip
        for role, links in (("inter-router", RING), ("edge", UPLINKS)):
            for name, other in links:
                wire = relay.wire(f"{name}-{other}", ports[other, role])
                texts[name] += _door("connector", f"to{other}", wire.port, role, idle_s, to_peers)
        for name, port in tenants.items():
            texts[name] += _door("listener", "tenants", port, "normal", idle_s, for_clients | {"multiTenant": True})
        if secure:
            for name, port in doors.items():
                texts[name] += _door("listener", "clients", port, "normal", idle_s, for_clients)
        for client, plan in clients.items():
            relay.wire(client, tenants[plan.router] if plan.tenant else doors[plan.router])
        for name, text in texts.items():
            listens = [ports[name, role] for role in ROLES[name]]
            text += ADDRESSES + settings.extra(name)
            self.routers[name] = RouterProcess(folder, name, text, listens, settings.within(name))
        self._states: dict[str, object] = {}

    def start(self) -> None:
        """Start all, wait until they are connected, and remember their routes."""
        for router in self.routers.values():
            router.launch()
        for router in self.routers.values():
            router.wait_listening()
        for router in self.routers.values():
            wait_until(lambda router=router: _state(router), CONVERGE_S, f"{router.name} with all neighbours")  # type: ignore[misc]
        self._states = {name: _state(router) for name, router in self.routers.items()}

    def kill(self) -> None:
        """End all."""
        for router in self.routers.values():
            router.kill()

    def route_changes(self) -> int:
        """How often routers have lost or found a neighbour so far: it is lost, too, if its connection is there, but
        silent for longer than `helloMaxAgeSeconds` (3)."""
        return sum(router.log.count(ROUTE_CHANGE) for router in self.routers.values())

    def is_restored(self) -> bool:
        """Whether all connectors are connected, the edge router has an active uplink, and routes are those of the
        start."""
        return all(_state(self.routers[name]) == state for name, state in self._states.items())


def shape(clients: Iterable[str], brokers: Iterable[str] = (), *, apart: bool = False, tls: bool = False) -> Shape:
    """The targets of a mesh with these clients and brokers. `apart`: in a network of its own; `tls`: over TLS."""
    return Shape(tuple(ROLES), (*WIRES, *brokers), tuple(clients), tuple(brokers), WIRES if apart else (), tls)


def features(router: str) -> str:
    """Fallback at all routers, and an exchange at one of them."""
    text = section("address", prefix="fallback", enableFallback=True)
    if router == EXCHANGE_AT:
        text += section("exchange", name="alerts", address=ALERTS)
        text += "".join(section("binding", exchangeName="alerts", nextHopAddress=bound) for bound in BOUND)
    return text


def _door(
    entity: str, name: str, port: int, role: str, idle_s: int, more: dict[str, object], host: str = LOOPBACK
) -> str:
    terms = {"saslMechanisms": "ANONYMOUS", "idleTimeoutSeconds": idle_s} | more
    return section(entity, name=name, host=host, port=port, role=role, **terms)


def _state(router: RouterProcess) -> object:
    """Next hop, cost and origins of each interior router that it knows; None while it does not know all of them, or
    a connector of it is not connected, or an edge router has no active uplink."""
    try:
        with ManagementClient(router.url, timeout_s=CONVERGE_S) as client:
            connectors = client.query("connector", ["connectionStatus"])
            if any(row["connectionStatus"] != "SUCCESS" for row in connectors):
                return None
            if router.name == EDGE:
                connections = client.query("connection", ["role", "active"])
                return any(row["active"] for row in connections if row["role"] == "edge") or None
            nodes = client.query("router.node", ["id", "nextHop", "cost", "validOrigins"])
    except ClientError:
        return None
    routes = {row["id"]: (row["nextHop"], row["cost"], sorted(row["validOrigins"] or ())) for row in nodes}
    return routes if len(routes) == len(INTERIORS) else None
