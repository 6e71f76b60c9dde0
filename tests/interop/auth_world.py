"""A router whose clients a SASL service decides on, for tests of authServicePlugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.interop.raw_client import SASL, Ended, RawClient
from tests.kit.auth_service import AuthServer
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import SaslMechanisms
from waymesh_client.management import ManagementClient

SYS_TEMP = 4
Start = Callable[..., "World"]


class World:
    """A router with a listener whose clients a service decides on, and one for management."""

    def __init__(self, folder: Path, port: int, listener: dict[str, Any], plugin: dict[str, Any], extra: str) -> None:
        self.free, self.guarded = free_port(), free_port()
        attrs = {"authenticatePeer": True, "allowInsecurePlain": True, "saslPlugin": "service", **listener}
        text = section("router", id="A") + extra
        text += section("authServicePlugin", **{"name": "service", "host": "127.0.0.1", "port": port, **plugin})
        text += section("listener", host="127.0.0.1", port=self.free)
        text += section("listener", name="guarded", host="127.0.0.1", port=self.guarded, **attrs)
        self.router = RouterProcess(folder, "A", text, [self.free, self.guarded])

    def outcome(self, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret") -> int:
        """The code of a raw client's login; -1 without one."""
        try:
            with RawClient(self.guarded) as raw:
                return raw.login(mechanism, user, password).code
        except (Ended, AmqpError):
            return -1

    def offered(self) -> set[str]:
        """What a client without TLS is offered."""
        with RawClient(self.guarded) as raw:
            raw.send(SASL)
            raw.read(8)
            return set(raw.expect(SaslMechanisms).sasl_server_mechanisms)

    def users(self) -> dict[str, tuple[Any, Any]]:
        """User and mechanism of each connection, by container."""
        with ManagementClient(self.router.url) as client:
            rows = client.query("connection", ["container", "user", "sasl"])
        return {row["container"]: (row["user"], row["sasl"]) for row in rows}


def running_service() -> Iterator[AuthServer]:
    """A fixture: a service."""
    server = AuthServer()
    yield server
    server.close()


def starting(tmp_path: Path) -> Iterator[Start]:
    """A fixture: start a router with a service at this port."""
    with ExitStack() as stack:

        def started(port: int, extra: str = "", plugin: dict[str, Any] | None = None, **listener: Any) -> World:
            world = World(tmp_path, port, listener, plugin or {}, extra)
            stack.callback(world.router.stop)
            world.router.start()
            return world

        yield started
