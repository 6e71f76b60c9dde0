"""Message groups at address q of a core in memory, and what other routers tell of theirs."""

from __future__ import annotations

from typing import Any

from tests.kit import frames
from tests.kit.demand import KEY, turn
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_of
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.forwarding.groups import ALL

ALL_SLOTS = ALL
SETTING: dict[str, Any] = {
    "prefix": "q", "pattern": None, "distribution": "balanced", "messageGroups": True, "waypoint": False,
    "egressPhase": None, "ingressPhase": None,
}  # fmt: skip


def configure(hub: Hub, **more: Any) -> None:
    """The address has message groups."""
    core_of(hub).address_table.add_pattern(SETTING | more)
    turn(hub)


def unconfigure(hub: Hub) -> None:
    """It has none any more."""
    core_of(hub).address_table.remove_pattern(SETTING)
    turn(hub)


def half() -> int:
    """The first 512 slots."""
    return (1 << 513) - 2


def tell_groups(hub: Hub, router_id: str, consumers: int, slots: int, gives: dict[str, int] | None = None) -> None:
    """Another router tells what it has."""
    encoded = {taker: (some >> 1).to_bytes(128, "big") for taker, some in (gives or {}).items()}
    body = {"address": KEY, "groups": consumers, "slots": (slots >> 1).to_bytes(128, "big"), "gives": encoded}
    core_of(hub).demand.arrived(router_id, body)
    turn(hub)


def producer(hub: Hub, address: str = "q") -> Peer:
    """A client that sends."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def message(group: str | None, number: int) -> bytes:
    """A message of a group."""
    return encode_message(Message(body=f"{group}:{number}", subject="s", group_id=group))


def got(peer: Peer) -> list[str]:
    """Groups and numbers of the messages that a client or router was sent since the last look."""
    seen = [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    return [str(decode_message(f.payload).body) for f in seen]


def annotated(group: str, number: int, ingress: str, trace: list[str], meant: str = "") -> bytes:
    """Such a message from another router; `meant`: the router for whose consumers it is."""
    found: dict[str, Any] = {"x-opt-qd.ingress": f"0/{ingress}", "x-opt-qd.trace": [f"0/{name}" for name in trace]}
    found |= {"x-opt-qd.to": f"_topo/0/{meant}/q", "x-opt-qd.phase": 39} if meant else {"x-opt-qd.to": "q"}
    annotations = {Symbol(key): value for key, value in found.items()}
    return encode_message(Message(body=f"{group}:{number}", group_id=group, message_annotations=annotations))
