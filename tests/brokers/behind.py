"""Routers with a broker behind them: configuration text, and waiting until the links are there.

```python
scene = Scene.start(folder, 3, broker, ROUTES)
with Client(scene.near.url) as client: ...
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.brokers.process import PASSWORD, USER, BrokerProcess
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess, section, standalone
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

CONNECTOR = "broker"
ACTIVE_S = 60.0
WAYPOINTS = section("address", prefix="queue", waypoint=True)
"""Addresses `queue.…` are kept by brokers: what clients send goes there first."""


def connector(broker: BrokerProcess, name: str = CONNECTOR, **changes: Any) -> str:
    """Configuration of a connector to a broker, with user and password."""
    attributes: dict[str, Any] = {
        "name": name,
        "role": "route-container",
        "host": "127.0.0.1",
        "port": broker.port,
        "saslMechanisms": "PLAIN",
        "saslUsername": USER,
        "saslPassword": PASSWORD,
    }
    return section("connector", **{**attributes, **changes})


def link_routes(*prefixes: str, connection: str = CONNECTOR) -> str:
    """Configuration of link routes in both directions; `$coordinator` is a prefix like others."""
    return "".join(section("linkRoute", prefix=prefix, connection=connection, direction="both") for prefix in prefixes)


def coordinator(connection: str = CONNECTOR) -> str:
    """Configuration of the way to the broker's transactions."""
    return section("linkRoute", prefix="$coordinator", connection=connection, direction="in")


ROUTES = link_routes("routed") + coordinator()
"""Addresses `routed.…` and transactions belong to the broker."""


@dataclass
class Scene:
    """A line of routers: clients at `near`, the broker behind `far`, which are the same where there is one router."""

    broker: BrokerProcess
    routers: list[RouterProcess]

    @classmethod
    def start(cls, folder: Path, count: int, broker: BrokerProcess, extra: str = "") -> Scene:
        """Start `count` routers with `extra`, the last one with the connector to the broker; all is up on return.

        Where the others have the link routes too they know of them while the broker is away. Dispatch book 3.4.1.
        """
        if count == 1:
            scene = cls(broker, [standalone(folder, "A", WAYPOINTS + extra + connector(broker)).start()])
        else:
            mesh = Mesh(folder, count, "line", WAYPOINTS + extra)
            with mesh.routers[-1].config_path.open("a", encoding="utf-8") as config:
                config.write(connector(broker))
            scene = cls(broker, mesh.start().routers)
        scene.wait_connected()
        return scene

    @property
    def near(self) -> RouterProcess:
        """The clients' router."""
        return self.routers[0]

    @property
    def far(self) -> RouterProcess:
        """The broker's router."""
        return self.routers[-1]

    def wait_connected(self) -> None:
        """Until the broker's router has its connection, and the clients' router knows where all link routes lead."""
        wait_until(lambda: connected(self.far), ACTIVE_S, self.far.log_tail)
        if self.near is not self.far:
            wanted = route_keys(self.far)
            wait_until(lambda: route_keys(self.near, elsewhere=True) >= wanted, ACTIVE_S, self.near.log_tail)

    def auto_link(self, address: str, *directions: str, **attributes: Any) -> None:
        """Create autolinks on the broker's router (in and out unless given); they are active and known on return."""
        with ManagementClient(self.far.url) as client:
            for direction in directions or ("in", "out"):
                given = {"address": address, "direction": direction, "connection": CONNECTOR, **attributes}
                client.create("autoLink", given, name=f"{address}.{direction}.{attributes.get('externalAddress', '')}")
        wait_active(self.far, address)
        if "in" not in directions or "out" in directions:
            wait_until(lambda: reachable(self.near, address), ACTIVE_S, self.near.log_tail)

    def stop(self) -> None:
        """Stop the routers; the broker stays."""
        for router in self.routers:
            router.stop()


def connected(router: RouterProcess, name: str = CONNECTOR) -> bool:
    """Whether the router's connector of that name has its connection."""
    with ManagementClient(router.url) as client:
        rows = client.query("connector", ["name", "connectionStatus"])
    return any(row["name"] == name and row["connectionStatus"] == "SUCCESS" for row in rows)


def route_keys(router: RouterProcess, elsewhere: bool = False) -> set[str]:
    """Keys of the link routes that the router knows; with `elsewhere` those that lead to other routers."""
    with ManagementClient(router.url) as client:
        rows = client.query("router.address", ["name", "remoteCount"])
    found = {str(row["name"]): int(row["remoteCount"]) for row in rows}
    return {name for name, remote in found.items() if name.startswith(("C", "D", "E", "F")) and remote >= elsewhere}


def auto_links(router: RouterProcess, address: str) -> dict[str, dict[str, Any]]:
    """The autolinks of an address, by name."""
    with ManagementClient(router.url) as client:
        rows = client.query("autoLink", ["name", "address", "direction", "operStatus", "lastError"])
    return {str(row["name"]): row for row in rows if row["address"] == address}


def wait_active(router: RouterProcess, address: str, deadline_s: float = ACTIVE_S) -> None:
    """Until all autolinks of an address are active."""

    def active() -> bool:
        rows = auto_links(router, address)
        return bool(rows) and all(row["operStatus"] == "active" for row in rows.values())

    wait_until(active, deadline_s, lambda: f"{auto_links(router, address)}\n{router.log_tail()}")


def reachable(router: RouterProcess, address: str) -> bool:
    """Whether the router knows a consumer of phase 0 for the address: the autolink towards the broker."""
    with ManagementClient(router.url) as client:
        rows = client.query("router.address", ["name", "subscriberCount", "remoteCount"])
    return any(row["name"] == f"M0{address}" and row["subscriberCount"] + row["remoteCount"] for row in rows)
