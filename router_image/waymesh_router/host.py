"""The world around a router: who is at the other end of a transport, and what the router asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_amqp.connection import Connection
from waymesh_router.failover import Target
from waymesh_router.telemetry.exporter import Exporter

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a transport. `host`: address and port as text; `tls_ssf`: strength in bits."""

    host: str
    tls: bool = False
    tls_proto: str | None = None
    tls_cipher: str | None = None
    tls_ssf: int = 0
    external_user: str | None = None


class Host(Protocol):
    """What a router wants of the world. Methods raise OSError where they cannot do what they are asked.

    `errors`: bugs of our own that showed so far, each one logged.
    """

    errors: int

    def listen(self, attrs: Mapping[str, Any]) -> None:
        """Start a listener."""

    def unlisten(self, name: str) -> None:
        """Stop a listener; the connections that it accepted go on."""

    def connect(self, attrs: Mapping[str, Any]) -> None:
        """Keep a connection up."""

    def set_failover(self, name: str, targets: list[Target]) -> None:
        """Where else a connector may go when its peer is away."""

    def retry(self) -> None:
        """The mesh has changed: connectors that wait to try again do so now."""

    def segments_in(self, conn: Connection) -> int:
        """Segments that brought data from the peer so far, also those that wait for a lost one; 0 where not known."""

    def disconnect(self, name: str) -> None:
        """Stop a connector and close its connection."""

    def ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Add an sslProfile."""

    def remove_ssl_profile(self, name: str) -> None:
        """Forget an sslProfile."""

    def certificate_ends(self) -> Mapping[str, float]:
        """When the certificates of sslProfiles end, in seconds since 1970, by name."""

    def password(self, entity: str, text: str) -> str:
        """The password that an attribute gives or refers to: `env:NAME`, `file:PATH`, `pass:TEXT` …"""

    def offload(self, conn: Connection, work: Callable[[], bytes]) -> bool:
        """Have `work` done where it holds nothing up, then give what it returns to `conn.resume`; False: no room."""

    def ports(self, name: str) -> list[int]:
        """The ports that a listener is bound to."""

    def log(self, module: str, level: str, text: str) -> None:
        """Write a log line."""

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """A `log` entity."""

    def log_stats(self, module: str) -> Mapping[str, int]:
        """Lines a level of a module."""

    def recent_log(self, limit: int) -> Sequence[Any]:
        """The last lines."""

    def check_telemetry(self, attrs: Mapping[str, Any]) -> None:
        """Raises OSError where records could not be written now as a `telemetry` entity says."""

    def exporter(self, attrs: Mapping[str, Any], router_id: str) -> Exporter:
        """A way out for records as a `telemetry` entity says."""

    def memory_usage(self) -> int | None:
        """Resident bytes of the process, where that means something."""

    def internal_error(self, where: str, error: Exception) -> None:
        """Log and count an error of our own. `where` reads on: "in the timers of …"."""

    def drop(self, conn: Connection, reason: str) -> None:
        """End the transport of a connection at once."""
