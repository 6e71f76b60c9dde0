"""The interface between a router and its host: the services that the router needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_amqp.connection import Connection
from waymesh_router.events.event import Event
from waymesh_router.peers.certificate import Validity
from waymesh_router.peers.failover import Target
from waymesh_router.telemetry.exporter import Exporter

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.relayed import Service
    from waymesh_amqp.sasl import Authenticator, TokenChecker
    from waymesh_amqp.settings import ConnectionSettings
    from waymesh_router.policy.hosts import Addresses


class Tokens(Protocol):
    """The `tokenProfile` entities."""

    def now(self) -> float:
        """Seconds since 1970, by the clock that tokens are checked with."""

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Add a profile."""

    def remove(self, name: str) -> None:
        """Remove a profile."""

    def checker(self, attrs: Mapping[str, Any], who: Mapping[str, str]) -> TokenChecker | None:
        """The check for tokens at a listener; None if it has no tokenProfile."""


class Users(Protocol):
    """The user files."""

    def add(self, listener: Mapping[str, Any]) -> None:
        """Read the usersFile of a listener, if it has one."""

    def keep_those_of(self, listeners: Collection[Mapping[str, Any]]) -> None:
        """Drop the files that none of these listeners uses."""

    def authenticator(self, listener: Mapping[str, Any]) -> Authenticator | None:
        """The users of a listener: those of its usersFile, else of the router. None: password logins are impossible."""

    def refused(self) -> int:
        """Number of invalid lines in the files in use."""


class AuthServices(Protocol):
    """The `authServicePlugin` entities."""

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Add a plugin."""

    def remove(self, name: str) -> None:
        """Remove a plugin that no listener uses."""

    def relay(self, name: str, settings: ConnectionSettings, limit_s: float) -> Service:
        """Relay to the service for one client, which has `limit_s` seconds until its open (inf: no limit)."""


class Host(Protocol):
    """The services that a router needs. Methods raise OSError if they fail.

    `errors`: number of internal errors so far, each one logged. `host_name`: the name of the machine.
    """

    errors: int
    host_name: str

    @property
    def tokens(self) -> Tokens:
        """The tokenProfiles."""

    @property
    def users(self) -> Users:
        """The files of users."""

    @property
    def auth_services(self) -> AuthServices:
        """The authServicePlugins."""

    def listen(self, attrs: Mapping[str, Any]) -> None:
        """Start a listener."""

    def update_listener(self, attrs: Mapping[str, Any]) -> None:
        """Change a listener."""

    def unlisten(self, name: str) -> None:
        """Stop a listener; connections that it accepted stay open."""

    def connect(self, attrs: Mapping[str, Any]) -> None:
        """Start a connector, which opens its connection again after a loss."""

    def set_failover(self, name: str, targets: list[Target]) -> None:
        """Set alternative targets for a connector whose peer is unreachable."""

    def retry(self) -> None:
        """The mesh has changed: waiting connectors retry now."""

    def opened(self, conn: Connection) -> None:
        """The open of a peer at a listener has arrived: the connection no longer counts as opening."""

    def segments_in(self, conn: Connection) -> int:
        """TCP data segments received so far, including those behind a lost one; 0 if unknown."""

    def disconnect(self, name: str) -> None:
        """Stop a connector and close its connection."""

    def ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Add an sslProfile."""

    def update_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Change an sslProfile for all that use it."""

    def remove_ssl_profile(self, name: str) -> None:
        """Remove an sslProfile."""

    def certificates(self) -> Mapping[str, Validity]:
        """Validity of the certificates of sslProfiles, by name."""

    def password(self, entity: str, text: str) -> str:
        """The password that an attribute contains or refers to: `env:NAME`, `file:PATH`, `pass:TEXT` …"""

    def offload(self, conn: Connection, work: Callable[[], bytes]) -> bool:
        """Run `work` outside the event loop, then pass its result to `conn.resume`; False: the queue is full."""

    def numeric_addresses(self, names: Collection[str]) -> Addresses:
        """Addresses of host names. Blocks, for a limited time; only for use before the event loop runs."""

    def look_up(self, names: Collection[str], done: Callable[[Addresses], None]) -> None:
        """Look up host names without blocking: calls `done` with their addresses later, within a short time."""

    def log(self, module: str, level: str, text: str, event: Event | None = None, /) -> None:
        """Write a log line."""

    def logs(self, module: str, level: str) -> bool:
        """Whether a log line of that level would be written."""

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """Apply a `log` entity."""

    def trace(self, conn: Connection, on: bool) -> None:
        """Turn logging of a connection's frames (module PROTOCOL) on or off."""

    def traced(self, conn: Connection) -> bool:
        """Whether `trace` is on for a connection."""

    def log_stats(self, module: str) -> Mapping[str, int]:
        """Number of lines of a module by level."""

    def recent_log(self, limit: int) -> Sequence[Any]:
        """The most recent lines."""

    def check_telemetry(self, attrs: Mapping[str, Any]) -> None:
        """Raises OSError if records of this `telemetry` entity could not be written now."""

    def exporter(self, attrs: Mapping[str, Any], router_id: str) -> Exporter:
        """The exporter of records for a `telemetry` entity."""

    def memory_usage(self) -> int | None:
        """Resident memory of the process in bytes; None if unknown."""

    def free_memory(self) -> int:
        """How much of this is free for small objects, in bytes, although the system does not have it back."""

    def internal_error(self, where: str, error: Exception) -> None:
        """Log and count an internal error. `where` is part of the text, as in "in the timers of …"."""

    def drop(self, conn: Connection, reason: str) -> None:
        """End the transport of a connection at once."""
