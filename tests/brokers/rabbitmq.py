"""RabbitMQ with its AMQP 1.0 plugin, from Debian's package: a node of its own that knows no other and is no service."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.brokers.process import PASSWORD, USER, BrokerProcess
from tests.kit.bound import bound, bound_with_children
from tests.kit.built import debian_package, need
from tests.kit.ports import free_port

SOURCES = Path(__file__).parent / "debian" / "rabbitmq"
ANSWER_S = 60.0
CONFIGURATION = f"""listeners.tcp.1 = 127.0.0.1:{{port}}
management.tcp.ip = 127.0.0.1
management.tcp.port = {{http}}
default_user = {USER}
default_pass = {PASSWORD}
collect_statistics_interval = 200
log.console = true
"""


def unpacked() -> Path:
    """The files of the package; the Erlang that it needs is installed."""
    need("erl", *(SOURCES / "packages").read_text(encoding="utf-8").split())
    return debian_package(SOURCES)


class RabbitMQ(BrokerProcess):
    """One node. It has a port mapper (epmd) of its own, so that it meets no other node of this machine."""

    ready = "Server startup complete"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port, self._http, self._mapper_port, self._node_port = (free_port() for _ in range(4))
        self._mapper: subprocess.Popen[bytes] | None = None
        text = CONFIGURATION.format(port=self._port, http=self._http)
        (folder / "rabbitmq.conf").write_text(text, encoding="utf-8")
        (folder / "enabled_plugins").write_text("[rabbitmq_amqp1_0,rabbitmq_management].\n", encoding="utf-8")

    @property
    def port(self) -> int:
        """The port that takes user and password (PLAIN)."""
        return self._port

    def command(self) -> list[str]:
        """Its own start script, from where the package was unpacked."""
        (script,) = unpacked().glob("usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server")
        return bound_with_children([str(script)])

    def environment(self) -> dict[str, str]:
        """Everything within its folder and on loopback."""
        here = {
            "RABBITMQ_CONFIG_FILE": "rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "enabled_plugins",
            "RABBITMQ_MNESIA_BASE": "mnesia",
            "RABBITMQ_LOG_BASE": "log",
        }
        return {
            **{name: str(self.folder / value) for name, value in here.items()},
            "HOME": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_NODENAME": f"test{self._port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def launch(self) -> None:
        """Start the port mapper and the node."""
        unpacked()  # brings the port mapper too
        self._mapper = subprocess.Popen(
            bound(["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        super().launch()

    def kill(self) -> None:
        """SIGKILL for both."""
        super().kill()
        mapper, self._mapper = self._mapper, None
        if mapper is not None:
            mapper.kill()
            mapper.wait()

    # ---- management
    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """A request to its REST interface; the answer's JSON."""
        user = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._http}/api/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {user}"},
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return json.loads(answer.read() or b"null")

    def create_queue(self, name: str) -> None:
        """A queue that keeps durable messages as long as the broker's store lasts."""
        self.rest("PUT", f"queues/%2F/{name}", {"durable": True})

    def depth(self, queue: str) -> int:
        """How many messages the queue has, those under way to consumers included; told with some delay."""
        return int(self.rest("GET", f"queues/%2F/{queue}").get("messages", 0))
