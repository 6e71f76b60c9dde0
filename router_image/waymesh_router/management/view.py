"""The interfaces through which management reads and changes the router."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from waymesh_router.core.addresses.reserved import ReservedAddresses
from waymesh_router.core.containers.autolinks import AutoLinks
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.counters import Counters
from waymesh_router.core.edge.edges import Edges
from waymesh_router.core.edge.uplink import Uplink
from waymesh_router.core.exchanges.exchanges import Exchanges
from waymesh_router.core.forwarding.buffer_budget import BufferBudget
from waymesh_router.core.link_health import LinkHealth
from waymesh_router.core.link_routing.routes import LinkRoutes
from waymesh_router.core.model import Address, Node, RouterConnection, RouterLink
from waymesh_router.events.event import Log
from waymesh_router.management.look_ups import KnownNames
from waymesh_router.peers.certificate import Validity
from waymesh_router.policy.enforcement import Enforcement
from waymesh_router.routing.engine import RoutingEngine

CheckPolicy = Callable[[Mapping[str, Any], "str | None"], Mapping[str, Any]]
"""Returns the body of the reply to CHECK-POLICY, from that of the request, and the tenant (None: no tenant asks)."""


class CoreView(Protocol):
    """The forwarding state. Times (`started_at`) are in seconds of the same clock as `now`."""

    router_id: str
    now: float
    connections: dict[int, RouterConnection]
    links: dict[int, RouterLink]
    addresses: dict[str, Address]
    nodes: dict[str, Node]
    started_at: float
    log: Log
    context: CoreContext
    autolinks: AutoLinks
    linkroutes: LinkRoutes
    exchanges: Exchanges
    denied: dict[str, int]
    budget: BufferBudget
    counters: Counters
    uplink: Uplink | None
    edges: Edges


class SettleTimes(Protocol):
    """Histogram of settlement times. `counts` has one element more than `bounds` (seconds)."""

    @property
    def bounds(self) -> Sequence[float]:
        """Upper bounds in seconds, included."""

    @property
    def counts(self) -> Sequence[float]:
        """Deliveries for each interval."""

    @property
    def sum(self) -> float:
        """Sum of all times in seconds."""


class RecordsView(Protocol):
    """Telemetry. In `settled`, the weight of a sampled delivery is the number of deliveries that it represents."""

    def publish(self) -> None:
        """Record all counters, then publish all records, in the next ticks."""

    @property
    def settled(self) -> SettleTimes:
        """Times until sampled deliveries were settled."""

    @property
    def records(self) -> Mapping[str, int]:
        """Records made, by kind."""

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Records dropped, by kind and reason."""

    @property
    def error(self) -> str:
        """Why records cannot be written; "" while they can."""

    @property
    def reasons(self) -> Sequence[str]:
        """All reasons for dropping a record."""


class AdmissionView(Protocol):
    """Limits of connections and memory. `limit`: bytes, 0 for none; `refused`: connections by `memory`, `listener`."""

    limit: int
    refused: dict[str, int]

    @property
    def memory_state(self) -> str:
        """`memoryState` of the entity `router`."""

    @property
    def withheld(self) -> int:
        """Number of links that wait for credit because memory is short."""


class ClientShareView(Protocol):
    """Clients that move to other routers. `moved`: connections closed so far."""

    moved: int

    @property
    def age_s(self) -> float:
        """`clientShareAge` of the entity `router`."""

    @property
    def moving(self) -> bool:
        """`clientsMoving` of the entity `router`."""

    def count(self) -> int:
        """Connections of clients."""


class RouterView(Protocol):
    """A router. The methods that change it raise OSError, ValueError or KeyError; the text goes into the reply."""

    version: str
    attrs: dict[str, Any]
    """The checked attributes of the `router` entity, with the router id in use."""
    routing: RoutingEngine | None
    """None in a standalone router."""
    sampler: LinkHealth
    """Statistics that are sampled once a second."""
    listeners: dict[str, Mapping[str, Any]]
    """The attributes of listeners by name."""
    policy: Enforcement
    """The access policy in force, and what it counted."""
    host_names: KnownNames
    """The addresses of host names that a request needs."""

    @property
    def check_policy(self) -> CheckPolicy:
        """Answers CHECK-POLICY."""

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
    def reserved(self) -> ReservedAddresses:
        """Addresses of the router itself that are not in the table."""

    @property
    def host_name(self) -> str:
        """Name of the machine."""

    @property
    def admission(self) -> AdmissionView:
        """Limits of connections and memory."""

    @property
    def client_share(self) -> ClientShareView:
        """State of moving clients to other routers."""

    @property
    def drain_status(self) -> str:
        """`drainStatus`: none, draining, drained."""

    def unsettled_deliveries(self) -> int:
        """Deliveries of clients that wait for an outcome or for a consumer."""

    def update_router(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Apply new attributes of the `router` entity; `changed`: those whose values are new."""

    def add_listener(self, attrs: Mapping[str, Any]) -> None:
        """Start a listener."""

    def update_listener(self, attrs: Mapping[str, Any]) -> None:
        """Apply the attributes to new connections, with recheckPeers also to open ones."""

    def remove_listener(self, attrs: Mapping[str, Any]) -> None:
        """Stop listening; accepted connections continue."""

    def add_connector(self, attrs: Mapping[str, Any]) -> None:
        """Start a connector, which connects again after a loss."""

    def remove_connector(self, attrs: Mapping[str, Any]) -> None:
        """Remove a connector and close its connection."""

    def add_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Add an sslProfile for listeners and connectors that are created later."""

    def update_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Apply the attributes of an sslProfile to all later handshakes."""

    def remove_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Remove an sslProfile; raises ValueError if it is in use."""

    def add_token_profile(self, attrs: Mapping[str, Any]) -> None:
        """Add a tokenProfile for listeners that are created later."""

    def remove_token_profile(self, attrs: Mapping[str, Any]) -> None:
        """Remove a tokenProfile; raises ValueError if it is in use."""

    def add_auth_service(self, attrs: Mapping[str, Any]) -> None:
        """Add an authServicePlugin for listeners that are created later."""

    def remove_auth_service(self, attrs: Mapping[str, Any]) -> None:
        """Remove an authServicePlugin; raises ValueError if it is in use."""

    def add_address(self, attrs: Mapping[str, Any]) -> None:
        """Add a `router.config.address`, which sets the treatment of matching addresses."""

    def remove_address(self, attrs: Mapping[str, Any]) -> None:
        """Remove a `router.config.address`."""

    def add_auto_link(self, attrs: Mapping[str, Any]) -> None:
        """Attach a link to a container whenever the container is connected."""

    def remove_auto_link(self, attrs: Mapping[str, Any]) -> None:
        """Detach the link and remove the autolink."""

    def update_auto_link(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Start or cancel quiescing."""

    def add_link_route(self, attrs: Mapping[str, Any]) -> None:
        """Route attaches with matching addresses to a container."""

    def remove_link_route(self, attrs: Mapping[str, Any]) -> None:
        """Remove a link route; links that it routed stay attached."""

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """Set all attributes of one log module; may also raise SchemaError."""

    def configure_telemetry(self, attrs: Mapping[str, Any]) -> None:
        """Apply the `telemetry` entity: start, change or end the export of records."""

    def connector_status(self, name: str) -> tuple[str, str]:
        """`connectionStatus` and `connectionMsg` of a connector."""

    def trace(self, conn: RouterConnection, on: bool) -> None:
        """Turn logging of a connection's frames on or off."""

    def traced(self, conn: RouterConnection) -> bool:
        """Whether `trace` is on for a connection."""

    def log_stats(self, module: str) -> Mapping[str, int]:
        """The counters of `logStats` for one log module."""

    def recent_log(self, limit: int) -> Sequence[Any]:
        """The last `limit` log lines at most: module, level, text, file, line, seconds since 1970."""

    def certificates(self) -> Mapping[str, Validity]:
        """Validity of the certificates of sslProfiles, by the names of the profiles."""

    def internal_errors(self) -> int:
        """Number of errors in the router's own code so far."""

    def users_refused(self) -> int:
        """Number of invalid lines of the user file."""

    def memory_usage(self) -> int | None:
        """Bytes of memory of the process; None if unknown."""
