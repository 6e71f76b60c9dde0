"""What management sees of the router: what entities are read from and act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from waymesh_router.core.containers.autolinks import AutoLinks
from waymesh_router.core.counters import Counters
from waymesh_router.core.forwarding.budget import Budget
from waymesh_router.core.link_health import LinkHealth
from waymesh_router.core.link_routing.routes import LinkRoutes
from waymesh_router.core.model import Address, Node, RouterConnection, RouterLink
from waymesh_router.routing.engine import RoutingEngine


class CoreView(Protocol):
    """The forwarding state. Times (`started_at`) are those of the clock whose `now` requests carry, in seconds.

    `log(module, level, text)` writes a line.
    """

    router_id: str
    now: float
    connections: dict[int, RouterConnection]
    links: dict[int, RouterLink]
    addresses: dict[str, Address]
    nodes: dict[str, Node]
    started_at: float
    log: Callable[[str, str, str], None]
    autolinks: AutoLinks
    linkroutes: LinkRoutes
    denied: dict[str, int]
    budget: Budget
    counters: Counters


class SettleTimes(Protocol):
    """How long deliveries took to settle: `counts` has one number more than `bounds` (seconds), `sum` is in seconds."""

    @property
    def bounds(self) -> Sequence[float]:
        """Upper bounds, each included."""

    @property
    def counts(self) -> Sequence[float]:
        """Deliveries from one bound to the next."""

    @property
    def sum(self) -> float:
        """Of all."""


class RecordsView(Protocol):
    """Telemetry. `records`, `dropped`: so far, by kind; what was dropped also by reason. `settled`: of sampled
    deliveries, with what they stand for."""

    @property
    def settled(self) -> SettleTimes:
        """How long it took."""

    @property
    def records(self) -> Mapping[str, int]:
        """Made."""

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Lost for want of room."""

    @property
    def error(self) -> str:
        """Why records cannot be written; "" while they can."""

    @property
    def reasons(self) -> Sequence[str]:
        """The reasons that there are."""


class RouterView(Protocol):
    """A router. The methods that change it raise OSError, ValueError or KeyError with a text for who asked."""

    version: str
    attrs: dict[str, Any]
    """The `router` entity, checked, with the id that the router goes by."""
    routing: RoutingEngine | None
    """None in a standalone router."""
    sampler: LinkHealth
    """What is found by looking once a second."""

    @property
    def collector(self) -> RecordsView | None:
        """Telemetry, if it is on."""

    @property
    def topology_changes(self) -> int:
        """How often the paths have changed."""

    @property
    def core(self) -> CoreView:
        """The forwarding state."""

    @property
    def drain_status(self) -> str:
        """`drainStatus`: none, draining, drained."""

    def unsettled_deliveries(self) -> int:
        """Deliveries of clients that wait for an outcome or for a consumer."""

    def update_router(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """The `router` entity has these attributes now; `changed`: what is new of them."""

    def add_listener(self, attrs: Mapping[str, Any]) -> None:
        """Listen."""

    def remove_listener(self, attrs: Mapping[str, Any]) -> None:
        """Listen no more; what was accepted goes on."""

    def add_connector(self, attrs: Mapping[str, Any]) -> None:
        """Connect, and stay connected."""

    def remove_connector(self, attrs: Mapping[str, Any]) -> None:
        """Disconnect."""

    def add_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Make an sslProfile known to listeners and connectors that come later."""

    def remove_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Forget an sslProfile; one that is in use stays."""

    def add_address(self, attrs: Mapping[str, Any]) -> None:
        """Treat matching addresses as `router.config.address` says."""

    def remove_address(self, attrs: Mapping[str, Any]) -> None:
        """Treat them by default again."""

    def add_auto_link(self, attrs: Mapping[str, Any]) -> None:
        """Attach a link to a container whenever that is connected."""

    def remove_auto_link(self, attrs: Mapping[str, Any]) -> None:
        """Detach it for good."""

    def update_auto_link(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Quiesce it, or not any more."""

    def add_link_route(self, attrs: Mapping[str, Any]) -> None:
        """Pass attaches with matching addresses on to a container."""

    def remove_link_route(self, attrs: Mapping[str, Any]) -> None:
        """Do not pass on further ones."""

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """Set all of one log module; raises SchemaError too."""

    def configure_telemetry(self, attrs: Mapping[str, Any]) -> None:
        """Export records as `telemetry` says, or not."""

    def connector_status(self, name: str) -> tuple[str, str]:
        """`connectionStatus` and `connectionMsg` of a connector."""

    def log_stats(self, module: str) -> Mapping[str, int]:
        """The counters of `logStats` for one log module."""

    def recent_log(self, limit: int) -> Sequence[Any]:
        """At most `limit` last log lines: module, level, text, file, line, seconds since 1970."""

    def certificate_ends(self) -> Mapping[str, float]:
        """When the certificates of sslProfiles end, in seconds since 1970, by the names of the profiles."""

    def internal_errors(self) -> int:
        """Errors of the router's own code that showed so far."""

    def users_refused(self) -> int:
        """Lines of the user file that cannot be used."""

    def memory_usage(self) -> int | None:
        """Bytes of memory of the process; None where nobody knows."""
