"""What the control plane wants done. The core applies the effects of one call one by one, in their order.

The order is such that each effect can be applied on its own: `NodeUp` comes before everything that names the router,
a router's mobile addresses are flushed and all references to it replaced before its `NodeDown`. Only differences are
emitted. Bodies are plain dicts with Python values; a Python int stands for an AMQP long.
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
    """A router has no path any more. Nothing refers to it when this comes."""

    router_id: str


@dataclass(frozen=True, slots=True)
class SetLink:
    """The connection to use for a neighbour; None: it is no neighbour (any more)."""

    router_id: str
    link_id: int | None


@dataclass(frozen=True, slots=True)
class SetNextHop:
    """The neighbour by which a router is reached; None: by its own link, or not at all.

    A neighbour can have a next hop too, when its own link costs more than the way round: the next hop then wins.
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
    """Ingress routers whose deliveries we may forward toward this router, without ourselves.

    A live view, sent once for a router that became reachable. `TopologyChanged` says when its content may differ.
    """

    router_id: str
    origins: Set[str]


@dataclass(frozen=True, slots=True)
class MobileAdd:
    """A router has the mobile address (key with class, as `M0orders`), or has it with another treatment than before."""

    router_id: str
    key: str
    treatment: int


@dataclass(frozen=True, slots=True)
class MobileDel:
    """A router no longer has the mobile address."""

    router_id: str
    key: str


@dataclass(frozen=True, slots=True)
class MobileFlush:
    """Forget every mobile address of a router."""

    router_id: str


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line for the log: level (`critical` … `trace`), module (`ROUTER`, `ROUTER_HELLO`, `ROUTER_LS`, `ROUTER_MA`)."""

    level: str
    module: str
    text: str


@dataclass(frozen=True, slots=True)
class TopologyChanged:
    """Paths were computed anew: routes or valid origins may differ. The effects of the change come before this one.

    `change_id` counts up from 1 at each router by itself. `since`: when the first news came that these paths follow.
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
    | LogEvent
    | TopologyChanged
)
