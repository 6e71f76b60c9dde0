"""Checks of opens and attaches: links between routers, termini of clients, and the reasons to refuse a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_amqp.codec_encode import encode
from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
)
from waymesh_amqp.outcomes import rejected
from waymesh_amqp.performatives import Attach, ErrorInfo, Open, Terminus
from waymesh_router.core.addresses.keys import bare_address, names_management, of_routers
from waymesh_router.core.forwarding.annotations import FALLBACK
from waymesh_router.core.link_kinds import CONTROL, DATA, ENDPOINT, READ_MANAGEMENT

if TYPE_CHECKING:
    from waymesh_router.core.access import Access

ROUTER_CAPABILITY = "qd.router"
DATA_CAPABILITY = "qd.router-data"
FALLBACK_CAPABILITY = "qd.fallback"
WAYPOINT_CAPABILITIES = {
    "qd.waypoint": 1,
    **{f"qd.waypoint{mark}{number}": number for mark in "._" for number in range(1, 10)},
}
"""Capabilities of the links of a waypoint, with its number among the waypoints of the address. Routers write a dot."""
STREAMING_CAPABILITY = "qd.streaming-links"
COST_PROPERTY = "qd.inter-router-cost"
VERSION_PROPERTY = "qd.annotations-version"
NO_COORDINATOR = (
    "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured to use "
    "transactions. Its address is $coordinator."
)
"""Begins with the text of Qpid Dispatch."""
NO_MANAGEMENT = "management is not allowed on this connection"
UNAVAILABLE_REJECTED: bytes = encode(
    rejected(ErrorInfo(NOT_FOUND, "Deliveries cannot be sent to an unavailable address"))
)
"""Outcome of a message to an address with distribution `unavailable`."""
LINKS_REJECTED: bytes = encode(
    rejected(ErrorInfo(RESOURCE_LIMIT_EXCEEDED, "the connection may not have a further link to a container (maxLinks)"))
)
"""Outcome of an anonymous sender's message to a link-routed address for which the router may not open a link."""
MANAGEMENT_REJECTED: bytes = encode(rejected(ErrorInfo(UNAUTHORIZED_ACCESS, NO_MANAGEMENT)))
"""Outcome of a message to a management agent, from a connection that may not send any."""
OUTSIDE_REJECTED: bytes = encode(
    rejected(ErrorInfo(NOT_ALLOWED, "the address of the message is not in the address space of the vhost"))
)
"""Outcome of a tenant's message to an address of routers."""
UNSETTLED_MULTICAST_REJECTED: bytes = encode(
    rejected(ErrorInfo("qd:forbidden", "Deliveries to a multicast address must be pre-settled"))
)
"""Outcome of a client's unsettled delivery to a multicast address where `allowUnsettledMulticast` is no."""
EXPIRED_REJECTED: bytes = encode(
    rejected(ErrorInfo(PRECONDITION_FAILED, "the message expired while it waited (ttl or absolute-expiry-time)"))
)
"""Outcome of a message that expired before a consumer could take it."""
POLICY_REJECTED: bytes = encode(rejected(ErrorInfo(UNAUTHORIZED_ACCESS, "message disallowed by local policy")))
"""Outcome of a message that policy does not allow: of another user, or to an address that is not among the targets."""
UNREADABLE_REJECTED: bytes = encode(
    rejected(ErrorInfo(DECODE_ERROR, "the sections of the message before its body cannot be read, or are too long"))
)
"""Outcome of a message whose annotations or properties are invalid or incomplete."""
NO_TO_REJECTED: bytes = encode(
    rejected(ErrorInfo(PRECONDITION_FAILED, "the message has no readable address in its property to"))
)
"""Outcome of an anonymous sender's message without an address."""
EMPTY_REJECTED: bytes = encode(rejected(ErrorInfo(DECODE_ERROR, "the transfer is empty: a message has a body")))
"""Outcome of an empty transfer on a link route: containers end the link for it."""
TAG_REJECTED: bytes = encode(rejected(ErrorInfo(INVALID_FIELD, "the delivery-tag has more than 32 octets")))
"""Outcome of a delivery on a link route that the container could not take. Spec: 2.8.7"""
TOO_LARGE_REJECTED: bytes = encode(
    rejected(ErrorInfo(MESSAGE_SIZE_EXCEEDED, "the message is larger than the policy of the router allows"))
)
"""Outcome of a message of an edge router over maxMessageSize."""
OVER_CONSUMER_MAXIMUM: bytes = encode(
    rejected(ErrorInfo(MESSAGE_SIZE_EXCEEDED, "the message is larger than its consumer accepts (max-message-size)"))
)
"""Outcome of a message over the max-message-size in the attach of each consumer that could get it. Spec: 2.7.3"""
COPY = "copy"
"""The distribution-mode of browsers. Spec: 3.5.7"""
DRAINING = "router is draining"
"""Error description for clients that should connect to another router."""
_MAX_COST = 0x7FFFFFFF
MAX_CONCURRENCY = 0xFFFF
"""Highest value of the link property `concurrency`."""
_TEMPORARY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+_"
_TEMPORARY_LENGTH = 15
NOT_EXCLUSIVE = (
    "an exclusive consumer needs an address with distribution balanced and without waypoint, phases or message groups"
)
"""Error description."""
TEMPORARY_NODE = "temp."
"""Start of the part after the router's id in a temporary address."""


class Refusal(AmqpError):
    """A refused attach, with the reason. `logged`: the log has a more detailed line already."""

    logged = False


class Rng(Protocol):
    """The methods of random.Random that are used here."""

    def choice(self, seq: str) -> str:
        """One random character of the text."""

    def random(self) -> float:
        """A random number in [0, 1)."""

    def getrandbits(self, bits: int, /) -> int:
        """An integer of `bits` random bits."""


def agreed_cost(ours: int, opened: Open) -> int:
    """The higher of the costs configured at both ends of an inter-router connection. Source: inter-router.md."""
    properties = opened.properties
    cost = properties.get(COST_PROPERTY) if isinstance(properties, dict) else None
    return int(cost) if isinstance(cost, int) and ours < cost <= _MAX_COST else ours


def annotations_version(opened: Open | None) -> int | None:
    """`qd.annotations-version` in the open of another router. Source: inter-router.md."""
    properties = None if opened is None else opened.properties
    version = properties.get(VERSION_PROPERTY) if isinstance(properties, dict) else None
    return version if isinstance(version, int) else None


def takes_streams(opened: Open) -> bool:
    """Whether the peer, a router, takes links for long messages. Source: inter-router.md."""
    return STREAMING_CAPABILITY in map(str, opened.offered_capabilities or ())


def consumer_priority(attach: Attach) -> int:
    """The priority of a receiver among the consumers of its address: link property `priority`. Raises Refusal."""
    properties = attach.properties
    priority = properties.get("priority") if isinstance(properties, dict) else None
    if priority is None:
        return 0
    if not isinstance(priority, int) or isinstance(priority, bool) or not -(2**31) <= priority < 2**31:
        raise Refusal(INVALID_FIELD, "the link property priority must be a whole number of 32 bits")
    return int(priority)


def is_exclusive(attach: Attach) -> bool:
    """Whether a receiver asks that one consumer of its address gets all: link property `exclusive`. Raises Refusal."""
    properties = attach.properties
    value = properties.get("exclusive") if isinstance(properties, dict) else None
    if value is None:
        return False
    if not isinstance(value, bool):
        raise Refusal(INVALID_FIELD, "the link property exclusive must be true or false")
    return value


def concurrency(attach: Attach) -> int:
    """How many deliveries a receiver works on at a time: link property `concurrency`; 0: unknown. Raises Refusal."""
    properties = attach.properties
    value = properties.get("concurrency") if isinstance(properties, dict) else None
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_CONCURRENCY:
        raise Refusal(INVALID_FIELD, f"the link property concurrency must be a number from 1 to {MAX_CONCURRENCY}")
    return int(value)


def phase_of(config: Mapping[str, Any], attribute: str) -> str:
    """The phase of producers (`ingressPhase`) or consumers (`egressPhase`) of a configured address.

    Dispatch book "Queue Waypoint Example": a waypoint's consumers read phase 1.
    """
    phase = config[attribute]
    if phase is None:
        phase = int(bool(config["waypoint"]) and attribute == "egressPhase")
    return str(phase)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client's link joins its address. `waypoint`: number of the waypoint, 0 for an ordinary link.

    `edge`: it is a link of an edge router, which has its own configuration. Source: protocol/edge.md "Phases".
    """

    receiver: bool
    fallback: bool
    waypoint: int
    edge: bool = False

    @property
    def special(self) -> bool:
        """Whether the client requests a waypoint or a fallback destination."""
        return self.fallback or self.waypoint > 0

    def phase(self, address: str, config: Mapping[str, Any] | None) -> str:
        """The phase of `address` with this configuration. Raises Refusal if the address does not have the place.

        Waypoint N receives messages of phase N - 1 and sends messages into phase N. Messages from a fallback
        destination go to the consumers of the address itself.
        """
        if self.edge and self.special:
            return FALLBACK if self.fallback else str(self.waypoint - self.receiver)
        if self.fallback and (config is None or not config.get("enableFallback")):
            raise Refusal(PRECONDITION_FAILED, f"{address} has no fallback: it needs an address with enableFallback")
        if self.fallback and self.receiver:
            return FALLBACK
        attribute = "egressPhase" if self.receiver else "ingressPhase"
        usual = "0" if config is None else phase_of(config, attribute)
        if not self.waypoint:
            return usual
        if config is None or not (config["waypoint"] or config["ingressPhase"] or config["egressPhase"]):
            raise Refusal(PRECONDITION_FAILED, f"{address} is not a waypoint: it needs an address with waypoint")
        return str(self.waypoint - self.receiver)


def place_of(terminus: Terminus, receiver: bool, edge: bool = False) -> Place:
    """The place that a client requests with capabilities of its source or target. Raises Refusal."""
    asked = {str(capability) for capability in terminus.capabilities or ()}
    waypoints = {WAYPOINT_CAPABILITIES[name] for name in asked if name in WAYPOINT_CAPABILITIES}
    place = Place(receiver, FALLBACK_CAPABILITY in asked, max(waypoints, default=0), edge)
    if len(waypoints) + place.fallback > 1:
        raise Refusal(PRECONDITION_FAILED, "a link can serve only one waypoint or fallback destination")
    if place.special and (terminus.dynamic or not bare_address(terminus.address or "")):
        raise Refusal(PRECONDITION_FAILED, "a link of a waypoint or a fallback destination needs an address")
    return place


def link_kind(attach: Attach) -> int:
    """CONTROL, DATA or ENDPOINT, by the capabilities of the termini. Source: inter-router.md."""
    capabilities = {str(c) for t in (attach.source, attach.target) if t is not None for c in t.capabilities or ()}
    if ROUTER_CAPABILITY in capabilities:
        return CONTROL
    return DATA if DATA_CAPABILITY in capabilities else ENDPOINT


def for_management(attach: Attach) -> bool:
    """Whether a client uses the link for management: requests to a router, or replies from a dynamic address."""
    if attach.role:
        return attach.source is not None and bool(attach.source.dynamic)
    address = attach.target.address if attach.target is not None else None
    return isinstance(address, str) and names_management(address)


def check_management(attach: Attach, right: int) -> None:
    """Refuse links to or from management agents if the peer does not have the right. Raises Refusal.

    A peer with the right to read may send to them: the management service checks each request.
    """
    if right == READ_MANAGEMENT and not attach.role:
        return
    terminus = attach.remote_terminus
    address = terminus.address if terminus is not None else None
    if isinstance(address, str) and names_management(address):
        raise Refusal(UNAUTHORIZED_ACCESS, NO_MANAGEMENT)


def check_reserved_source(attach: Attach, access: Access | None) -> None:
    """Refuse a receiver of an edge router or a container from an address that is reserved for routers: messages there
    are for one client, such as replies, or for routers. Raises Refusal.

    An edge router gets messages to `_edge/<id>/...` on a link of its own.
    """
    source = attach.source if attach.role else None
    text = None if source is None or source.dynamic else source.address
    if not isinstance(text, str) or not of_routers(bare_address(text)):
        return
    if access is None or not access.may_receive_reserved(text):
        raise Refusal(NOT_ALLOWED, f"{text} is reserved for routers: this peer may not receive from it")


def mesh_attach(name: str, kind: int, incoming: bool) -> Attach:
    """The attach that this router sends for a control or data link."""
    capability: list[str] = [Symbol(ROUTER_CAPABILITY if kind == CONTROL else DATA_CAPABILITY)]
    return Attach(
        name=name,
        handle=0,
        role=incoming,
        snd_settle_mode=2,
        rcv_settle_mode=0,
        source=Terminus(kind="source", capabilities=capability),
        target=Terminus(kind="target", capabilities=capability),
    )


def stream_attach(router_id: str, rng: Rng, interior: bool) -> Attach:
    """The attach of a link for the long messages of one sender, to an interior router from another one, or from or to
    an edge router. Source: protocol/edge.md "Streaming"."""
    attach = mesh_attach(f"qdlink.{router_id}.{random_text(rng)}", DATA, incoming=False)
    if not interior:
        attach.source, attach.target = Terminus("source"), Terminus("target")
    return attach


def checked_source(source: Terminus | None) -> Terminus:
    """The source that a receiver requests: dynamic, or with an address. Raises Refusal."""
    if source is None:
        raise Refusal(PRECONDITION_FAILED, "a receiver needs a source")
    if source.kind == "other":
        raise Refusal(NOT_IMPLEMENTED, "unsupported source type")
    if not source.dynamic and not (type(source.address) is str and bare_address(source.address)):  # no symbol
        raise Refusal(PRECONDITION_FAILED, "a receiver needs a source address, or a dynamic source")
    return source


def applied(source: Terminus) -> Terminus:
    """The source as this router serves it: without filters, and each message goes to one consumer only. Spec: 3.5.3"""
    if source.filter is None and source.distribution_mode != COPY:
        return source
    mode = None if source.distribution_mode == COPY else source.distribution_mode
    return replace(source, filter=None, distribution_mode=mode)


def checked_target(target: Terminus | None) -> Terminus:
    """The target that a sender requests: dynamic, an address, or none (null or empty) for an anonymous sender.

    Raises Refusal.
    """
    if target is None:
        raise Refusal(PRECONDITION_FAILED, "a sender needs a target")
    if target.kind == "coordinator":
        raise Refusal(PRECONDITION_FAILED, NO_COORDINATOR)
    if target.kind == "other":
        raise Refusal(NOT_IMPLEMENTED, "unsupported target type")
    if target.address is not None and not target.dynamic and type(target.address) is not str:  # nor is a symbol
        raise Refusal(PRECONDITION_FAILED, "the address must be a string")
    return target


def temporary_address(router_id: str, rng: Rng, edge: bool) -> str:
    """An unguessable address text for a dynamic source. `edge`: of an edge router. Dispatch book "Dynamic Reply-To"."""
    place = "_edge" if edge else "_topo/0"
    return f"{place}/{router_id}/{TEMPORARY_NODE}{random_text(rng)}"


def created_address(rng: Rng) -> str:
    """An address text for a dynamic target: a mobile address, so that consumers of any router can attach to it."""
    return f"_temp.{random_text(rng)}"


def random_text(rng: Rng) -> str:
    """An unguessable text of 15 characters, as in Dispatch."""
    return "".join(rng.choice(_TEMPORARY) for _ in range(_TEMPORARY_LENGTH))
