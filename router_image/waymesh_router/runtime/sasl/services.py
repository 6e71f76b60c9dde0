"""The `authServicePlugin` entities of a router."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.clients.logins import service_host
from waymesh_router.connections.transports import HANDSHAKE_S
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.sasl.relay import Relay, Resume
from waymesh_router.runtime.transport.addresses import SocketAddress, family, numeric_address, port_number, resolve
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from waymesh_amqp.relayed import Service
    from waymesh_amqp.settings import ConnectionSettings
    from waymesh_router.runtime.loop import Loop
    from waymesh_router.runtime.tls.endpoints import ConnectorTls
    from waymesh_router.runtime.tls.profiles import Profiles

BUFFER_BYTES = 65536
PART_OF_HANDSHAKE = 0.8
"""Fraction of the time limit for a client's open that the exchange with the service may take. The rest is needed to
report a failure to the client."""

Log = Callable[[str, str], None]
"""Writes a log line: level, text."""
Found = Callable[[list[SocketAddress], str], None]


def service_address(attrs: Mapping[str, Any]) -> tuple[str, int]:
    """Host and port of a plugin. Raises HostError."""
    entity = f"authServicePlugin {attrs['name']}"
    address = attrs.get("authService")
    port = str(address).rpartition(":")[2] if address else attrs.get("port")
    number = port_number(entity, port or "amqp")
    if number == 0:
        raise HostError(f"{entity}: port: 0 is for listeners only")
    return service_host(attrs), number


class AuthService:
    """One plugin. Implements `auth_relay.RelayedService`."""

    def __init__(self, attrs: Mapping[str, Any], tls: ConnectorTls | None, loop: Loop, log: Log) -> None:
        """Raises HostError for an invalid port."""
        self.loop = loop
        self.tls = tls
        self.host, self._port = service_address(attrs)
        self.realm = attrs.get("realm") or None
        self.buffer = ReceiveBuffer(BUFFER_BYTES)
        self._name = f"authServicePlugin {attrs['name']}"
        self._log = log
        self._unavailable = False
        self._waiting: list[Found] = []

    def look_up(self, found: Found) -> None:
        """Resolve the host. Names are resolved again for each client, by at most one thread at a time."""
        literal = numeric_address(self.host, self._port, family({}))
        if literal is not None:
            found([literal], "")
            return
        self._waiting.append(found)
        if len(self._waiting) == 1:
            threading.Thread(target=self._look_up, name="resolver", daemon=True).start()

    def _look_up(self) -> None:
        """Runs in the thread that resolves names."""
        addresses: list[SocketAddress] = []
        problem = ""
        try:
            addresses = resolve(self.host, self._port, family({}))
        except OSError as error:
            problem = f"cannot resolve {self.host}: {error.strerror or error}"
        self.loop.call_from_thread(lambda: self._looked_up(addresses, problem))

    def _looked_up(self, addresses: list[SocketAddress], problem: str) -> None:
        waiting, self._waiting = self._waiting, []
        for found in waiting:
            found(list(addresses), problem)

    def answered(self) -> None:
        """The service accepted or refused a client: log the end of an outage."""
        if self._unavailable:
            self._unavailable = False
            self._log("notice", f"{self._name}: {self.host}:{self._port} answers again")

    def failed(self, relay: Relay, reason: str) -> None:
        """Log the first failure of an outage as an error, and further ones at level debug."""
        level = "debug" if self._unavailable else "error"
        self._unavailable = True
        self._log(level, f"{self._name}: {self.host}:{self._port}: {relay.name} is refused: {reason}")


class AuthServices:
    """All plugins by name."""

    def __init__(self, loop: Loop, profiles: Profiles, log: Log, resume: Resume) -> None:
        """`resume(conn, answer)` resumes the connection of a client."""
        self._loop = loop
        self._profiles = profiles
        self._log = log
        self._resume = resume
        self._services: dict[str, AuthService] = {}

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Add a plugin. Raises HostError if its port or its sslProfile cannot be used."""
        tls = self._profiles.of_client(f"authServicePlugin {attrs['name']}", attrs)
        self._services[str(attrs["name"])] = AuthService(attrs, tls, self._loop, self._log)

    def remove(self, name: str) -> None:
        """Remove a plugin that no listener uses; exchanges in progress continue."""
        self._services.pop(name, None)

    def tls(self) -> list[ConnectorTls]:
        """TLS of the plugins that use an sslProfile."""
        return [service.tls for service in self._services.values() if service.tls is not None]

    def relay(self, name: str, settings: ConnectionSettings, limit_s: float) -> Service:
        """A relay for one client, which must send its open within `limit_s` (inf: no limit)."""
        return Relay(self._services[name], settings, min(limit_s, HANDSHAKE_S) * PART_OF_HANDSHAKE, self._resume)
