"""Interior routers with edge routers behind them, as processes on loopback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit.mesh import CONVERGE_S, known_routers
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient


class EdgeMesh:
    """Interior routers A, B … in a line, and edge routers E0, E1 …"""

    def __init__(
        self,
        folder: Path,
        interiors: int,
        uplinks: Sequence[Sequence[int]],
        extra: str = "",
        own: Mapping[str, str] | None = None,
    ) -> None:
        """`uplinks`: for each edge router, the numbers of the interior routers that it has connectors to; `extra`:
        configuration for every router; `own`: for one router, by its name.
        """
        own = own or {}
        clients = [free_port() for _ in range(interiors + len(uplinks))]
        doors = [free_port() for _ in range(interiors)]
        inter = [free_port() for _ in range(interiors)]
        self.doors = doors
        """Ports of the interior routers for edge routers."""
        self.interiors: list[RouterProcess] = []
        self.edges: list[RouterProcess] = []
        for number in range(interiors):
            name = "ABCD"[number]
            text = section("router", id=name, mode="interior")
            text += _listener("clients", clients[number], "normal")
            text += _listener("edges", doors[number], "edge") + _listener("routers", inter[number], "inter-router")
            if number:
                text += _connector("to", inter[number - 1], "inter-router")
            ports = [clients[number], doors[number], inter[number]]
            self.interiors.append(RouterProcess(folder, name, text + extra + own.get(name, ""), ports))
        for number, leads_to in enumerate(uplinks):
            port = clients[interiors + number]
            text = section("router", id=f"E{number}", mode="edge") + _listener("clients", port, "normal")
            for at in leads_to:
                text += _connector("ABCD"[at], doors[at], "edge")
            self.edges.append(RouterProcess(folder, f"E{number}", text + extra + own.get(f"E{number}", ""), [port]))

    def __enter__(self) -> EdgeMesh:
        for router in (*self.interiors, *self.edges):
            router.start()
        self.wait_ready()
        return self

    def __exit__(self, *exception: object) -> None:
        for router in (*self.edges, *self.interiors):
            router.kill()

    def wait_ready(self) -> None:
        """Until all connectors are connected, and each interior router knows all others."""
        names = {router.name for router in self.interiors}
        for router in self.interiors:
            wait_until(lambda router=router: known_routers(router) == names, CONVERGE_S)  # type: ignore[misc]
        for edge in self.edges:
            wait_until(lambda edge=edge: all(_connected(edge)), CONVERGE_S)  # type: ignore[misc]
            self.wait_active(edge)

    def active(self, edge: RouterProcess) -> str:
        """The id of the interior router of the edge's active uplink, "" if there is none."""
        try:
            with ManagementClient(edge.url) as client:
                rows = client.query("connection", ["container", "role", "active"])
        except ClientError:
            return ""
        return next((str(row["container"]) for row in rows if row["role"] == "edge" and row["active"]), "")

    def wait_active(self, edge: RouterProcess, *wanted: str) -> str:
        """Wait until an uplink is active, to one of the `wanted` if given; its interior router."""

        def reached() -> str:
            active = self.active(edge)
            return active if not wanted or active in wanted else ""

        return wait_until(reached, CONVERGE_S)


def _connected(router: RouterProcess) -> list[bool]:
    """For each connector, whether its connection is open."""
    with ManagementClient(router.url) as client:
        return [row["connectionStatus"] == "SUCCESS" for row in client.query("connector", ["connectionStatus"])]


def _listener(name: str, port: int, role: str) -> str:
    return section("listener", name=name, host="127.0.0.1", port=port, role=role, saslMechanisms="ANONYMOUS")


def _connector(name: str, port: int, role: str) -> str:
    return section("connector", name=name, host="127.0.0.1", port=port, role=role, saslMechanisms="ANONYMOUS")
