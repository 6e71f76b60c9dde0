"""Meshes of router processes on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient

NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CONVERGE_S = 120.0

Edges = list[tuple[int, int]]


def line(count: int) -> Edges:
    """0 – 1 – 2 – …"""
    return [(number, number - 1) for number in range(1, count)]


def ring(count: int) -> Edges:
    """A line whose ends are connected; three of them are a triangle."""
    return [*line(count), (count - 1, 0)]


def full(count: int) -> Edges:
    """Each with each."""
    return [(number, other) for number in range(1, count) for other in range(number)]


def star(count: int) -> Edges:
    """All with router 0."""
    return [(number, 0) for number in range(1, count)]


TOPOLOGIES: dict[str, Callable[[int], Edges]] = {"line": line, "ring": ring, "full": full, "star": star}


class Mesh:
    """Interior routers A, B, C …; `mesh[0]` or `mesh["A"]` is one of them."""

    def __init__(
        self,
        folder: Path,
        count: int,
        topology: str | Edges = "line",
        extra: str = "",
        costs: dict[str, int] | None = None,
    ) -> None:
        """`topology`: a name of TOPOLOGIES or pairs (who connects, to whom); `extra`: configuration for every router;
        `costs`: e.g. {"BA": 10} for the connector from B to A."""
        edges = TOPOLOGIES[topology](count) if isinstance(topology, str) else topology
        clients = [free_port() for _ in range(count)]
        inter = [free_port() for _ in range(count)]
        self.routers: list[RouterProcess] = []
        for number in range(count):
            name = NAMES[number]
            text = section("router", id=name, mode="interior")
            text += section("listener", name="clients", host="127.0.0.1", port=clients[number], managementFiles=True)
            text += section(
                "listener",
                name="routers",
                host="127.0.0.1",
                port=inter[number],
                role="inter-router",
                saslMechanisms="ANONYMOUS",
            )
            for _, other in [edge for edge in edges if edge[0] == number]:
                text += section(
                    "connector", name=f"to{NAMES[other]}", host="127.0.0.1", port=inter[other], role="inter-router",
                    saslMechanisms="ANONYMOUS", cost=(costs or {}).get(name + NAMES[other], 1),
                )  # fmt: skip
            self.routers.append(RouterProcess(folder, name, text + extra, [clients[number], inter[number]]))

    def __getitem__(self, key: int | str) -> RouterProcess:
        return self.routers[NAMES.index(key) if isinstance(key, str) else key]

    def start(self) -> Mesh:
        """Start all and wait until each one knows all the others."""
        for router in self.routers:
            router.launch()
        for router in self.routers:
            router.wait_listening()
        self.wait_converged()
        return self

    def stop(self) -> None:
        """Stop all that still run."""
        for router in self.routers:
            router.stop()

    def wait_converged(self, names: Iterable[str] = ()) -> None:
        """Until each of `names` (all running routers unless given) knows exactly those."""
        wanted = set(names) or {router.name for router in self.routers if router.alive()}
        for name in sorted(wanted):
            router = self[name]
            wait_until(
                lambda router=router: known_routers(router) == wanted,  # type: ignore[misc]
                CONVERGE_S,
                lambda router=router: (  # type: ignore[misc]
                    f"{router.name} knows {known_routers(router)}, not {wanted}\n{router.log_tail()}"
                ),
            )

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(router.log_tail() for router in self.routers)


def known_routers(router: RouterProcess) -> set[str]:
    """The ids in the router's node table (itself included); empty while it does not answer."""
    try:
        with ManagementClient(router.url, timeout_s=20.0) as client:
            return {str(row["id"]) for row in client.query("router.node", ["id"])}
    except ClientError:
        return set()


def address_counts(router: RouterProcess, key: str) -> tuple[int, int]:
    """(subscriberCount, remoteCount) of an address, given by its key (`M0orders`); (0, 0) when it is unknown."""
    with ManagementClient(router.url, timeout_s=CONVERGE_S) as client:
        for row in client.query("router.address", ["name", "subscriberCount", "remoteCount"]):
            if row["name"] == key:
                return int(row["subscriberCount"]), int(row["remoteCount"])
    return 0, 0


def wait_address(router: RouterProcess, address: str, local: int | None = None, remote: int | None = None) -> None:
    """Until mobile `address` has that many local subscribers and that many remote routers with subscribers."""

    def reached() -> bool:
        counts = address_counts(router, f"M0{address}")
        return (local is None or counts[0] == local) and (remote is None or counts[1] == remote)

    wait_until(reached, CONVERGE_S, lambda: f"{address} on {router.name}: {address_counts(router, 'M0' + address)}")
