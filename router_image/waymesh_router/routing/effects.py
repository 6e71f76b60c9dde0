"""Effects: actions that the control plane requests. Those of one call are applied in order.

The order is such that each effect can be applied on its own: `NodeUp` comes before all effects that name the router;
the addresses of a router are flushed and all references to it replaced before its `NodeDown`. Only differences are
emitted. Bodies are plain dicts with Python values; a Python int means an AMQP long.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

Body = Mapping[str, object]

SUFFIX_CONTROL = "qdrouter"
SUFFIX_MOBILE = "qdrouter.ma"


@dataclass(frozen=True, slots=True)
class SendHello:
    """Send a HELLO to `amqp:/_local/qdhello` on the control link of this inter-router connection."""

    link_id: int
    body: Body


@dataclass(frozen=True, slots=True)
class SendAll:
    """Flood a control message to `amqp:/_topo/0/all/<suffix>`, by valid origin."""

    opcode: str
    body: Body
    suffix: str


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send a control message to `amqp:/_topo/0/<router>/<suffix>`; the router has a path."""

    router_id: str
    opcode: str
    body: Body
    suffix: str


@dataclass(frozen=True, slots=True)
class NodeUp:
    """A router became reachable. Its link or next hop, cost, valid origins and mobile addresses follow."""

    router_id: str

@dataclass(frozen=True, slots=True)
class NodeDown:
    """A router is no longer reachable. Nothing refers to it when this effect is emitted."""

    router_id: str


@dataclass(frozen=True, slots=True)
class SetLink:
    """The connection to a neighbour; None: it is no longer a neighbour."""

    router_id: str
    link_id: int | None


@dataclass(frozen=True, slots=True)
class SetNextHop:
    """The neighbour through which a router is reached; None: directly, or not at all.

    A neighbour can also have a next hop, if a path over other routers costs less than its own link.
    """

    router_id: str
    next_hop: str | None


@dataclass(frozen=True, slots=True)
class SetCost:
    """Cost of the path to a router."""

    router_id: str
    cost: int


@dataclass(frozen=True, slots=True)
class SetValidOrigins:
    """Ingress routers whose deliveries this router may forward toward the destination, without this router itself.

    A live view, emitted once when a router becomes reachable. `TopologyChanged` follows when its content may differ.
    """

    router_id: str
    origins: Set[str]


@dataclass(frozen=True, slots=True)
class MobileAdd:
    """A router announced a mobile address (key with class, as `M0orders`), or changed its treatment."""

    router_id: str
    key: str
    treatment: int


@dataclass(frozen=True, slots=True)
class MobileDel:
    """A router withdrew a mobile address."""

    router_id: str
    key: str


@dataclass(frozen=True, slots=True)
class MobileFlush:
    """Remove all mobile addresses of a router."""

    router_id: str


@dataclass(frozen=True, slots=True)
class LinkStateChanged:
    """The links of another router, or their costs, have changed; {}: it has none, has restarted, or is silent."""

    router_id: str
    peers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A log line: level (`critical` … `trace`), module (`ROUTER`, `ROUTER_HELLO`, `ROUTER_LS`, `ROUTER_MA`)."""

    level: str
    module: str
    text: str


@dataclass(frozen=True, slots=True)
class RefuseRouter:
    """Close this connection: the peer uses the id of another router, whose instance is `known`."""

    link_id: int
    router_id: str
    instance: int
    known: int


@dataclass(frozen=True, slots=True)
class TopologyChanged:
    """Paths were recomputed: routes or valid origins may differ. Emitted after the effects of the change.

    `change_id` counts from 1, separately at each router. `since`: time of the first change that led to these paths.
    """

    change_id: int
    since: float


Effect = (
    SendHello
    | SendAll
    | SendTo
    | NodeUp
    | NodeDown
    | SetLink
    | SetNextHop
    | SetCost
    | SetValidOrigins
    | MobileAdd
    | MobileDel
    | MobileFlush
    | LinkStateChanged
    | LogEvent
    | RefuseRouter
    | TopologyChanged
)
