"""What opens and attaches say: the mesh's own links, the termini of clients, and why a link is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from waymesh_amqp.errors import NOT_IMPLEMENTED, PRECONDITION_FAILED, UNAUTHORIZED_ACCESS, AmqpError
from waymesh_amqp.outcomes import rejected
from waymesh_amqp.performatives import Attach, ErrorInfo, Open, Terminus
from waymesh_amqp.types import Symbol, encode
from waymesh_router.core.addresses.keys import bare_address, names_management
from waymesh_router.core.kinds import CONTROL, DATA, ENDPOINT

ROUTER_CAPABILITY = "qd.router"
DATA_CAPABILITY = "qd.router-data"
COST_PROPERTY = "qd.inter-router-cost"
NO_MANAGEMENT = "management is not allowed on this connection"
MANAGEMENT_REJECTED: bytes = encode(rejected(ErrorInfo(UNAUTHORIZED_ACCESS, NO_MANAGEMENT)))
"""The outcome of a message to the management of a router."""
DRAINING = "router is draining"
"""What clients are told that are to go elsewhere."""
_MAX_COST = 0x7FFFFFFF
_TEMPORARY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+_"
_TEMPORARY_LENGTH = 15


class Refusal(AmqpError):
    """A link that the peer may not attach, and why."""


class Rng(Protocol):
    """What is needed of a random.Random."""

    def choice(self, seq: str) -> str:
        """One character of the text."""

    def random(self) -> float:
        """In [0, 1)."""

    def getrandbits(self, bits: int, /) -> int:
        """So many random bits."""


def agreed_cost(ours: int, opened: Open) -> int:
    """The higher of the costs that the two ends of an inter-router connection ask for. Source: inter-router.md."""
    properties = opened.properties
    cost = properties.get(COST_PROPERTY) if isinstance(properties, dict) else None
    return int(cost) if isinstance(cost, int) and ours < cost <= _MAX_COST else ours


def phase_of(config: Mapping[str, Any], attribute: str) -> str:
    """The phase of producers (`ingressPhase`) or consumers (`egressPhase`) of a configured address.

    Dispatch book "Queue Waypoint Example": a waypoint's consumers read phase 1.
    """
    phase = config[attribute]
    if phase is None:
        phase = int(bool(config["waypoint"]) and attribute == "egressPhase")
    return str(phase)


def link_kind(attach: Attach) -> int:
    """CONTROL, DATA or ENDPOINT, as the capabilities of the termini say. Source: inter-router.md."""
    capabilities = {str(c) for t in (attach.source, attach.target) if t is not None for c in t.capabilities or ()}
    if ROUTER_CAPABILITY in capabilities:
        return CONTROL
    return DATA if DATA_CAPABILITY in capabilities else ENDPOINT


def for_management(attach: Attach) -> bool:
    """Whether a client's link is for management: to a router itself, or from an address of its own for replies."""
    if attach.role:
        return attach.source is not None and bool(attach.source.dynamic)
    address = attach.target.address if attach.target is not None else None
    return isinstance(address, str) and names_management(address)


def check_management(attach: Attach) -> None:
    """For a peer that may not manage routers: refuse a link to or from the management. Raises Refusal."""
    terminus = attach.source if attach.role else attach.target
    address = terminus.address if terminus is not None else None
    if isinstance(address, str) and names_management(address):
        raise Refusal(UNAUTHORIZED_ACCESS, NO_MANAGEMENT)


def mesh_attach(name: str, kind: int, incoming: bool) -> Attach:
    """Our attach of a control or data link."""
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


def checked_source(source: Terminus | None) -> Terminus:
    """The source that a receiver wants: dynamic, or with an address. Raises Refusal."""
    if source is None:
        raise Refusal(PRECONDITION_FAILED, "a receiver needs a source")
    if source.kind == "other":
        raise Refusal(NOT_IMPLEMENTED, "a source of a type that is not known here")
    if not source.dynamic and not (type(source.address) is str and bare_address(source.address)):  # a symbol is none
        raise Refusal(PRECONDITION_FAILED, "a receiver needs a source address, or a dynamic source")
    return source


def checked_target(target: Terminus | None) -> Terminus:
    """The target that a sender wants: an address, or none (null or empty) for an anonymous sender. Raises Refusal."""
    if target is None:
        raise Refusal(PRECONDITION_FAILED, "a sender needs a target")
    if target.kind in ("coordinator", "other") or target.dynamic:
        raise Refusal(NOT_IMPLEMENTED, "a router has no transactions and no nodes to create")
    if target.address is not None and type(target.address) is not str:  # a symbol is none, too
        raise Refusal(PRECONDITION_FAILED, "an address is a string")
    return target


def temporary_address(router_id: str, rng: Rng) -> str:
    """An address text for a dynamic source; nobody can guess it. Dispatch book "Dynamic Reply-To"."""
    return f"_topo/0/{router_id}/temp.{''.join(rng.choice(_TEMPORARY) for _ in range(_TEMPORARY_LENGTH))}"
