"""Apache Qpid Broker-J."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.brokers import broker_j_config as config
from tests.brokers.process import BrokerProcess
from tests.kit.bound import bound
from tests.kit.built import java_libraries
from tests.kit.ports import free_port

SOURCES = Path(__file__).parent / "java" / "broker_j"
ANSWER_S = 60.0


class BrokerJ(BrokerProcess):
    """One Broker-J with the virtual host `default`. Durable queues of a durable one survive `kill` and `start`."""

    ready = "BRK-1004"

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = False,
        identity: config.Identity | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        """`identity`: for the TLS port; `host`: the address to listen on."""
        super().__init__(folder)
        self.host = host
        self.ports = config.Ports(*(free_port(host) for _ in range(5)))
        self._durable = durable
        for name, entity in (
            ("broker.json", config.broker(host, self.ports, identity, durable)),
            ("virtual_host.json", config.virtual_host(durable)),
        ):
            (folder / name).write_text(json.dumps(entity, indent=1), encoding="utf-8")

    @property
    def port(self) -> int:
        """The port that takes user and password (PLAIN)."""
        return self.ports.plain

    def command(self) -> list[str]:
        """One small JVM; compiling less suits a process that lives for a minute."""
        return bound([
            "java", "-Xmx192m", "-XX:MaxDirectMemorySize=128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-DQPID_WORK={self.folder}", "-cp", f"{java_libraries(SOURCES)}/*", "org.apache.qpid.server.Main",
            "-st", "JSON" if self._durable else "Memory", "-icp", str(self.folder / "broker.json"),
        ])  # fmt: skip

    def start(self) -> Self:
        """Start it. AssertionError also if a part of the configuration is no good: the broker says ready even so."""
        super().start()
        broken = [line for line in self.log.splitlines() if "BRK-1019" in line or "FAILURE" in line]
        if broken:
            self.kill()
            raise AssertionError(f"{broken[0]}\n{self.log_tail()}")
        return self

    # ---- management
    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """A request to its REST interface, e.g. `rest("GET", "queue/default/default/orders")`; the answer's JSON."""
        user = base64.b64encode(f"{config.ADMIN}:{config.ADMIN_PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"http://{self.host}:{self.ports.http}/api/latest/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {user}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{method} {path}: {e.code} {e.read().decode()}") from None

    def create(self, kind: str, name: str, **attributes: Any) -> None:
        """A `queue`, an `exchange` … of the virtual host."""
        self.rest("PUT", _path(kind, name), {"name": name, **attributes})

    def create_queue(self, name: str) -> None:
        """A queue that keeps durable messages as long as the broker's store lasts."""
        self.create("queue", name, durable=True)

    def update(self, kind: str, name: str, **attributes: Any) -> None:
        """Change attributes of what `create` made."""
        self.rest("POST", _path(kind, name), attributes)

    def delete(self, kind: str, name: str) -> None:
        """Delete what `create` made."""
        self.rest("DELETE", _path(kind, name))

    def bind(self, exchange: str, queue: str, key: str = "", arguments: dict[str, str] | None = None) -> None:
        """Let a queue have what is sent to an exchange with this key."""
        body = {"destination": queue, "bindingKey": key, "arguments": arguments or {}}
        self.rest("POST", f"{_path('exchange', exchange)}/bind", body)

    def depth(self, queue: str) -> int:
        """How many messages the queue has, those under way to consumers included."""
        return int(self.rest("GET", _path("queue", queue))["statistics"]["queueDepthMessages"])

    def enqueued(self, queue: str) -> int:
        """How many messages have come into the queue so far."""
        return int(self.rest("GET", _path("queue", queue))["statistics"]["totalEnqueuedMessages"])

    def consumers(self, queue: str) -> int:
        """How many consumers the queue has."""
        return int(self.rest("GET", _path("queue", queue))["statistics"]["consumerCount"])

    def connections(self) -> list[dict[str, Any]]:
        """All connections that it has, as REST shows them."""
        return list(self.rest("GET", f"virtualhost/{config.VIRTUAL_HOST}/{config.VIRTUAL_HOST}/getConnections") or [])


def _path(kind: str, name: str) -> str:
    return f"{kind}/{config.VIRTUAL_HOST}/{config.VIRTUAL_HOST}/{name}"
