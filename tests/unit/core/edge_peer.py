"""A raw peer that does what an edge router does, at a core in memory. Source: protocol/edge.md."""

from __future__ import annotations

from typing import Any

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Attach, Detach, Disposition, Terminus, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.edge.messages import (
    DOWNLINK_CAPABILITY,
    HEARTBEAT_ADDRESS,
    LOOKUP_ADDRESS,
    TRACKING_ADDRESS,
    decode_tracking,
)

UP, DOWN, TRACKING, LOOKUP, REPLIES, HEARTBEAT = range(6)
"""Handles of the links of an active uplink; those of addresses follow."""
PROPERTIES = {Symbol("product"): "qpid-dispatch-router", Symbol("qd.annotations-version"): 1}


def edge_connection(hub: Hub, edge_id: str = "E", **over: Any) -> Peer:
    """An open connection of an edge router, without links."""
    peer = hub.peer()
    peer.conn.role = "edge"
    peer.conn.user = over.pop("user", None)
    return peer.open(**{"container_id": edge_id, "properties": PROPERTIES, **over}).begin()


class EdgePeer:
    """An edge router on its active uplink; all links in one session."""

    def __init__(self, hub: Hub, edge_id: str = "E", *, tracking: bool = True, **over: Any) -> None:
        self.peer = edge_connection(hub, edge_id, **over)
        self.id = edge_id
        self.deliveries = 0
        self._frames: list[Seen | bytes] = []
        self._next = HEARTBEAT + 1
        dynamic = Terminus("source", dynamic=True)
        attaches = [
            frames.attach_sender("up", UP, address=None),
            frames.attach_receiver("down", DOWN, **downlink(edge_id)),
            *([frames.attach_receiver("tracking", TRACKING, address=TRACKING_ADDRESS)] if tracking else []),
            frames.attach_sender("lookup", LOOKUP, address=LOOKUP_ADDRESS),
            frames.attach_receiver("replies", REPLIES, source=dynamic),
            frames.attach_sender("heartbeat", HEARTBEAT, address=HEARTBEAT_ADDRESS),
        ]
        self.answers = self.peer.send(*attaches)
        found = [a for a in self.answers if isinstance(a, Attach) and a.name == "replies" and a.source is not None]
        self.reply_to = str(found[0].source.address) if found and found[0].source is not None else ""
        first = [frames.credit(250, handle) for handle in (DOWN, REPLIES)]
        self.peer.send(*first, *([frames.credit(32, TRACKING)] if tracking else []))

    # ---- links of addresses
    def receiver(self, address: str, credit: int = 250, capability: str | None = None) -> int:
        """A link for the consumers at the edge; its handle."""
        source = Terminus("source", address=address, capabilities=[Symbol(capability)] if capability else None)
        handle = self._handle()
        self.seen(self.peer.exchange(frames.attach_receiver(f"in{handle}", handle, source=source)))
        if credit:
            self.seen(self.peer.exchange(frames.credit(credit, handle)))
        return handle

    def sender(self, address: str, capability: str | None = None) -> int:
        """A link for the producers at the edge; its handle."""
        target = Terminus("target", address=address, capabilities=[Symbol(capability)] if capability else None)
        handle = self._handle()
        self.seen(self.peer.exchange(frames.attach_sender(f"out{handle}", handle, target=target)))
        return handle

    def _handle(self) -> int:
        self._next += 1
        return self._next - 1

    def detach(self, handle: int) -> None:
        self.seen(self.peer.exchange(frames.detach(handle)))

    # ---- messages
    def send(self, handle: int, message: Message | bytes = b"", **over: Any) -> None:
        """Send a message; pre-settled unless it says otherwise."""
        payload = message if isinstance(message, bytes) else encode_message(message)
        number, self.deliveries = self.deliveries, self.deliveries + 1
        fields = {"handle": handle, "settled": True, **over}
        self.seen(self.peer.exchange(frames.transfer(number, payload or frames.message(), **fields)))

    def seen(self, new: list[Seen | bytes]) -> None:
        """Keep what came for the next look."""
        self._frames += new

    def arrived(self) -> list[tuple[int, Message]]:
        """Handle and content of the messages that came since the last look."""
        self.seen(self.peer.frames())
        new, self._frames = self._frames, []
        found = []
        for f in new:
            if isinstance(f, Seen) and isinstance(f.performative, Transfer):
                found.append((self._local(f.performative.handle), decode_message(f.payload)))
        return found

    def outcomes(self) -> list[Any]:
        """The outcomes that came since the last look, one for each delivery. Messages stay."""
        self.seen(self.peer.frames())
        found, kept = [], []
        for f in self._frames:
            if isinstance(f, Seen) and isinstance(f.performative, Disposition):
                last = f.performative.first if f.performative.last is None else f.performative.last
                found += [f.performative.state] * (last - f.performative.first + 1)
            else:
                kept.append(f)
        self._frames = kept
        return found

    def _local(self, theirs: int) -> int:
        """The engine gives its handles in the same order as this peer."""
        link = next(link for link in self.peer.session().links if link is not None and link.handle == theirs)
        return int(link.remote_handle)

    def told(self) -> list[tuple[str, bool]]:
        """The address tracking that came since the last look. All other messages are lost."""
        return [decode_tracking(encode_message(m)) for handle, m in self.arrived() if handle == TRACKING]

    def on(self, handle: int) -> list[Any]:
        """Bodies of the messages that came on a link since the last look. All others are lost."""
        return [m.body for at, m in self.arrived() if at == handle]


def downlink(edge_id: str) -> dict[str, Any]:
    """The termini of the link for the messages to an edge router."""
    capability: list[str] = [Symbol(DOWNLINK_CAPABILITY)]
    return {
        "source": Terminus("source", address=edge_id, capabilities=capability),
        "target": Terminus("target", capabilities=capability),
    }


# ---- the router and its clients
class ControlPlane(ControlPlaneHooks):
    def __init__(self) -> None:
        self.told: list[str] = []

    def local_added(self, key: str, treatment: int) -> None:
        self.told.append(f"+{key}:{treatment}")

    def local_removed(self, key: str) -> None:
        self.told.append("-" + key)


def announcing_hub() -> Hub:
    """A router whose announcements are kept, see `announced`."""
    made = core_hub()
    core_of(made).context.control_plane = ControlPlane()
    return made


def announced(hub: Hub) -> list[str]:
    plane = core_of(hub).context.control_plane
    assert isinstance(plane, ControlPlane)
    return plane.told


def configure(hub: Hub, prefix: str, **attrs: Any) -> None:
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    entity = {"pattern": None, "prefix": prefix, "distribution": "balanced", **phases, **attrs}
    core_of(hub).address_table.add_pattern(entity)


def consumer(hub: Hub, address: str = "q", credit: int = 100) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address=address), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub, address: str | None = "q") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def count(peer: Peer) -> int:
    return sum(isinstance(f, Transfer) for f in peer.take())


def condition(answers: list[Any]) -> str:
    errors = [d.error for d in answers if isinstance(d, Detach) and d.error is not None]
    return errors[0].condition if errors else ""
