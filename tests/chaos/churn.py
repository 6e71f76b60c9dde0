"""What comes and goes at the routers of a soak: connections, links, addresses, autolinks, edge routers and messages."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import proton
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.garbage import free
from tests.kit.mesh import CONVERGE_S
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

CLIENTS = 6
ADDRESSES = 4
MESSAGES = 10
BOX = "box"
STOP_S = 60.0
LARGE = 300_000
AGAIN = 2


class Soaked:
    """Two interior routers and an edge router. `within`: the words before the commands of their processes."""

    def __init__(self, folder: Path, within: dict[str, list[str]]) -> None:
        pair = Authority(folder).issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
        ports = {name: free_port() for name in ("A", "B", "E", "inter", "edge", "tls", "box")}
        self.tls, self.box = ports["tls"], ports["box"]
        texts = {
            "A": section("router", id="A", mode="interior") + _listener("inter", ports["inter"], role="inter-router")
            + _listener("edge", ports["edge"], role="edge") + _listener("box", self.box, role="route-container")
            + section("sslProfile", name="tls", certFile=pair.cert, privateKeyFile=pair.key)
            + _listener("tls", self.tls, sslProfile="tls", requireSsl=True),
            "B": section("router", id="B", mode="interior") + _connector(ports["inter"], "inter-router"),
            "E": section("router", id="E", mode="edge") + _connector(ports["edge"], "edge"),
        }  # fmt: skip
        self.routers = {
            name: RouterProcess(folder, name, text + _listener("clients", ports[name]), [ports[name]], within[name])
            for name, text in texts.items()
        }

    def start(self) -> None:
        """Start all, until messages get through from each to each."""
        for router in self.routers.values():
            router.start()
        wait_until(lambda: len(_rows(self.routers["A"], "router.node")) == 2, CONVERGE_S, "two interior routers")
        wait_until(lambda: self._uplinks() == 1, CONVERGE_S, "the edge router")

    def _uplinks(self) -> int:
        rows = _rows(self.routers["A"], "connection")
        return sum(row["role"] == "edge" and bool(row["opened"]) for row in rows)

    def kill(self) -> None:
        """End all."""
        for router in self.routers.values():
            router.kill()

    def tables(self, name: str) -> dict[str, int]:
        """How many entities of each kind a router has; its own connection of this question included."""
        kinds = ("connection", "router.link", "router.address", "router.config.autoLink")
        return {kind: len(_rows(self.routers[name], kind)) for kind in kinds}


class Churn:
    """One round of it after the other; each leaves nothing."""

    def __init__(self, soaked: Soaked) -> None:
        self._soaked = soaked
        self._numbers = itertools.count(1)
        self.messages = 0

    def round(self) -> None:
        """All that comes and goes, once."""
        number = next(self._numbers)
        self._clients(number)
        self._tls(number)
        self._auto_links(number)
        edge = self._soaked.routers["E"]
        (edge.kill if number % 2 else edge.stop)()
        edge.start()
        self._across(f"soak.{number % AGAIN}.edge", edge.url, self._soaked.routers["B"].url)

    def _across(self, address: str, sender: str, receiver: str) -> None:
        with Client(sender) as one, Client(receiver) as other:
            taken = other.receiver(address, credit=MESSAGES)
            self._pass(one, taken, address)

    def _pass(self, client: Client, taken: Any, address: str) -> None:
        made = client.sender(address)
        made.wait_credit(MESSAGES)
        bodies = ["x" * (LARGE if number == 0 else 10) for number in range(MESSAGES)]
        sent = made.send_all([proton.Message(body=body) for body in bodies])
        taken.take(MESSAGES)
        assert {one.outcome() for one in sent} == {"accepted"}
        self.messages += MESSAGES

    def _clients(self, number: int) -> None:
        """Each with links to addresses of its own, on two routers; every other one ends without a word.

        Messages go to the same addresses again and again: routers keep what they read of the last 4,096.
        """
        urls = itertools.cycle([self._soaked.routers["A"].url, self._soaked.routers["B"].url])
        for client in range(CLIENTS):
            sender, receiver = Client(next(urls)), Client(next(urls))
            next(urls)
            for place in range(ADDRESSES):
                receiver.receiver(f"soak.{number}.{client}.{place}")
                address = f"soak.{number % AGAIN}.{client}.{place}"
                self._pass(sender, receiver.receiver(address, credit=MESSAGES), address)
            for one in (sender, receiver):
                (one.abort if client % 2 else one.close)()

    def _tls(self, number: int) -> None:
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_peer_authentication(proton.SSLDomain.ANONYMOUS_PEER)
        with Client(f"amqps://127.0.0.1:{self._soaked.tls}", ssl_domain=domain) as client:
            address = f"soak.{number % AGAIN}.tls"
            self._pass(client, client.receiver(address, credit=MESSAGES), address)

    def _auto_links(self, number: int) -> None:
        """Made, active to a container that comes and goes, deleted."""
        address = f"soak.{number}.auto"
        box = Box(self._soaked.box)
        try:
            with ManagementClient(self._soaked.routers["A"].url) as management:
                for way in ("in", "out"):
                    values = {"address": f"{address}.{way}", "direction": way, "containerId": BOX}
                    management.create("router.config.autoLink", values, name=way)
                wait_until(lambda: _active(management) == 2, STOP_S, "autolinks")
                for way in ("in", "out"):
                    management.delete("router.config.autoLink", name=way)
        finally:
            box.close()


class Box(MessagingHandler):
    """A container that accepts all links."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._container = Container(self)
        self._container.container_id = BOX
        self._connection: Any = None
        self._thread = threading.Thread(target=self._container.run, name="box", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Drop it."""
        self._container.stop()
        self._thread.join(STOP_S)
        if self._connection is not None:
            free(self._connection)

    def on_start(self, event: Any) -> None:
        url = f"amqp://127.0.0.1:{self._port}"
        self._connection = self._container.connect(url, reconnect=False, allowed_mechs="ANONYMOUS")

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)


def _active(management: ManagementClient) -> int:
    rows = management.query("router.config.autoLink", ["operStatus"])
    return sum(row["operStatus"] == "active" for row in rows)


def _rows(router: RouterProcess, kind: str) -> list[dict[str, Any]]:
    with ManagementClient(router.url) as client:
        return client.query(kind)


def _listener(name: str, port: int, **more: object) -> str:
    return section("listener", name=name, host="127.0.0.1", port=port, saslMechanisms="ANONYMOUS", **more)


def _connector(port: int, role: str) -> str:
    return section("connector", name="up", host="127.0.0.1", port=port, role=role, saslMechanisms="ANONYMOUS")
