"""Raw peers of a core that answer what the router begins and attaches: containers and other routers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.kit import frames
from tests.kit.frames import Seen, read_frames
from tests.kit.pump import Hub, Peer
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    ErrorInfo,
    Flow,
    Open,
    Transfer,
    encode_frame,
)
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.attaching import mesh_attach
from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.core.link_kinds import CONTROL, DATA
from waymesh_router.core.links.mesh_links import INTER_ROUTER


@dataclass(slots=True)
class Attached:
    """A link that the router attached. `detach`: how the router ended it."""

    channel: int
    attach: Attach
    transfers: list[Seen] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    detach: Detach | None = None

    @property
    def handle(self) -> int:
        return self.attach.handle

    @property
    def address(self) -> Any:
        """The address of the node at the container."""
        terminus = self.attach.source if self.attach.role else self.attach.target
        return None if terminus is None else terminus.address

    @property
    def bodies(self) -> list[bytes]:
        return [seen.payload for seen in self.transfers]


class Container:
    """A container, or with role edge the interior router of an edge router.

    `credit`: for links on which it receives. `refusal`: it detaches each link with this error.
    `answers`: whether it answers attaches. `made`: the address of the nodes that it makes for dynamic termini.
    """

    def __init__(
        self,
        hub: Hub,
        origin: str = "broker",
        container_id: str = "broker",
        *,
        credit: int = 10,
        role: str = ROUTE_CONTAINER,
        settings: ConnectionSettings | None = None,
        **open_: Any,
    ) -> None:
        self.hub = hub
        self.credit = credit
        self.refusal: ErrorInfo | None = None
        self.answers = True
        self.made = "made"
        self.links: list[Attached] = []
        self.ends: list[End] = []
        self._ended: set[tuple[int, int | None]] = set()  # channel and handle of what it ended itself
        self.outcomes: list[Disposition] = []
        self.peer = hub.peer(settings)
        self.conn: Any = self.peer.conn
        self.conn.role = role
        self.conn.uplink = role == "edge"
        self.conn.origin = origin
        self.peer.end.on_bytes = self._on_bytes
        self.send(frames.AMQP, frames.open_(container_id=container_id, **open_))

    def send(self, *data: bytes) -> None:
        self.peer.end.feed(b"".join(data))
        self.hub.turn()

    def active(self) -> list[Attached]:
        """Links that have not ended."""
        return [link for link in self.links if link.detach is None]

    def close(self, **over: Any) -> None:
        self.send(frames.close(**over))

    def detach(self, link: Attached, **over: Any) -> None:
        """End a link of the router."""
        self._ended.add((link.channel, link.handle))
        self.send(frames.detach(link.handle, channel=link.channel, **over))

    def end(self, channel: int) -> None:
        """End a session of the router, and with it its links."""
        self._ended.add((channel, None))
        self.links = [link for link in self.links if link.channel != channel]
        self.send(frames.end(channel))

    def _on_bytes(self, data: bytes) -> None:
        self.peer.end.written += data
        seen, self.peer.end.written = read_frames(self.peer.end.written)
        for frame in seen:
            if isinstance(frame, Seen):
                self._on_frame(frame)

    def _on_frame(self, seen: Seen) -> None:
        performative, channel = seen.performative, seen.channel
        if isinstance(performative, Begin) and performative.remote_channel is None:
            self._feed(frames.begin(channel, remote_channel=channel))
        elif isinstance(performative, Attach):
            self.links.append(Attached(channel, performative))
            if self.answers:
                self._answer(channel, performative)
        elif isinstance(performative, Transfer):
            self._link(channel, performative.handle).transfers.append(seen)
        elif isinstance(performative, Flow) and performative.handle is not None:
            self._link(channel, performative.handle).flows.append(performative)
        elif isinstance(performative, Disposition):
            self.outcomes.append(performative)
        elif isinstance(performative, Detach):
            self._link(channel, performative.handle).detach = performative
            if (channel, performative.handle) in self._ended:
                self._ended.remove((channel, performative.handle))
            elif self.refusal is None:
                self._feed(frames.detach(performative.handle, channel=channel, closed=performative.closed))
        elif isinstance(performative, End):
            self.ends.append(performative)
            if (channel, None) in self._ended:
                self._ended.remove((channel, None))
            else:
                self._feed(frames.end(channel))
        elif isinstance(performative, Close):
            self._feed(frames.close())

    def _answer(self, channel: int, attach: Attach) -> None:
        receives = not attach.role
        source, target = attach.source, attach.target
        for terminus in (source, target):
            if terminus is not None and terminus.dynamic:
                terminus.address = self.made
        if self.refusal is not None:
            source, target = (source, None) if receives else (None, target)
        answer = Attach(
            attach.name,
            attach.handle,
            role=receives,
            source=source,
            target=target,
            initial_delivery_count=None if receives else 0,
        )
        self._feed(encode_frame(channel, answer))
        if self.refusal is not None:
            self._feed(frames.detach(attach.handle, channel=channel, error=self.refusal))
        elif receives and self.credit:
            self._feed(frames.credit(self.credit, attach.handle, channel=channel))

    def _feed(self, data: bytes) -> None:
        self.peer.end.feed(data)

    def _link(self, channel: int, handle: int) -> Attached:
        """The last link that had the handle."""
        return next(k for k in reversed(self.links) if (k.channel, k.handle) == (channel, handle))


def mesh_frame(handle: int, kind: int, receiver: bool) -> bytes:
    """Another router attaches one of its links."""
    attach = mesh_attach(f"mesh{handle}", kind, receiver)
    attach.handle = handle
    attach.initial_delivery_count = None if receiver else 0
    return encode_frame(0, attach)


def neighbour(hub: Hub, router_id: str, *, credit: int = 100, data_links: int = 1) -> Peer:
    """Another router that opened a connection to this one, and can be reached by it.

    Its handles: 0 and 1 for the control links it receives and sends on, then pairs like that for each data link.
    """
    core: Any = hub.handler
    peer = hub.peer()
    peer.conn.role = INTER_ROUTER
    peer.open(container_id=router_id).begin()
    for pair in range(1 + data_links):
        kind = DATA if pair else CONTROL
        peer.send(mesh_frame(2 * pair, kind, True), mesh_frame(2 * pair + 1, kind, False))
        if credit:
            peer.send(frames.credit(credit, 2 * pair))
    core.remote_routers.node_up(router_id)
    core.nodes[router_id].connection = peer.conn
    return peer


def opened(peer: Peer) -> Open:
    """What the router's open says to a peer that connected just now."""
    answers = peer.send(frames.AMQP, frames.open_())
    return next(answer for answer in answers if isinstance(answer, Open))
