"""A broker behind a link route, for the model of the core: it follows the protocol and records what it sent and got."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.kit import frames
from tests.kit.frames import RECEIVER, SENDER, Seen
from tests.kit.pump import Hub, Peer
from tests.model.client import CAPACITY, WINDOW
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
    encode_frame,
)
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Described
from waymesh_router.core.containers.registry import ROUTE_CONTAINER

ROUTED = "routed"
ROUTE = {"identity": "1", "direction": "both", "prefix": ROUTED, "connection": "broker"}
FRAMES = 100_000


@dataclass(eq=False)
class BrokerSession:
    """A session that the router began."""

    channel: int
    may_send: int
    got_frames: int = 0
    sent_frames: int = 0
    next_id: int = 0


@dataclass(eq=False)
class BrokerLink:
    """A link that the router attached. `receives`: messages of a client; else it sends to one.

    `sent`: unsettled deliveries by id. `part`: what came of an incomplete delivery. `open`: the frames that an own
    delivery lacks.
    """

    session: BrokerSession
    handle: int
    name: str
    receives: bool
    mode: int
    count: int = 0
    credit: int = 0
    got: list[bytes] = field(default_factory=list)
    unsettled: dict[int, bytes] = field(default_factory=dict)
    part: list[bytes] | None = None
    part_id: int = -1
    part_settled: bool = False
    sent: dict[int, bytes] = field(default_factory=dict)
    made: list[bytes] = field(default_factory=list)
    open: list[bytes] = field(default_factory=list)
    alive: bool = True


class Broker:
    """One connection of a container. It answers begins, attaches, drains and detaches when it reads."""

    def __init__(self, hub: Hub) -> None:
        self.peer: Peer = hub.peer(ConnectionSettings("R", window=WINDOW))
        self.peer.conn.role = ROUTE_CONTAINER
        self.peer.conn.origin = "broker"
        self.peer.conn.link_capacity = CAPACITY
        self.peer.open(container_id="broker")
        self.sessions: dict[int, BrokerSession] = {}
        self.links: list[BrokerLink] = []
        self.accepted: list[bytes] = []
        self.outcomes: dict[bytes, Any] = {}  # of its own messages
        self.alive = True

    # ---- frames out
    def write(self, data: bytes) -> None:
        self.peer.end.feed(data)
        self.peer.hub.turn()

    def flow(self, link: BrokerLink, drained: bool = False) -> None:
        session = link.session
        over = {"drain": True} if drained else {}
        self.write(
            frames.flow(
                session.channel, next_incoming_id=session.got_frames, incoming_window=FRAMES,
                next_outgoing_id=session.sent_frames, handle=link.handle, delivery_count=link.count,
                link_credit=link.credit, **over,
            )
        )  # fmt: skip

    def give_credit(self, link: BrokerLink, amount: int) -> None:
        """Never less than before: what is taken back may be used before the router knows."""
        link.credit = max(link.credit, amount)
        self.flow(link)

    def may_begin(self, link: BrokerLink) -> bool:
        return link.credit > 0 and not link.open and link.session.may_send > 0

    def send(self, link: BrokerLink, body: bytes, settled: bool, parts: list[bytes]) -> None:
        """Begin a delivery; `go_on` sends the other parts."""
        session = link.session
        link.count += 1
        link.credit -= 1
        number, session.next_id = session.next_id, session.next_id + 1
        link.made.append(body)
        if not settled:
            link.sent[number] = body
        link.open = parts
        self._frame(link, number, settled)

    def go_on(self, link: BrokerLink) -> None:
        if link.open and link.session.may_send > 0:
            self._frame(link, None, None)

    def _frame(self, link: BrokerLink, number: int | None, settled: bool | None) -> None:
        session = link.session
        session.sent_frames += 1
        session.may_send -= 1
        part = link.open.pop(0)
        more = bool(link.open)
        self.write(
            frames.transfer(
                number, part, channel=session.channel, handle=link.handle, settled=settled, more=more
            )
        )  # fmt: skip

    def settle(self, link: BrokerLink, ids: list[int], state: Described) -> None:
        for number in ids:
            body = link.unsettled.pop(number)
            if state.descriptor == 0x24:
                self.accepted.append(body)
            self.write(frames.disposition(number, channel=link.session.channel, state=state))

    def detach(self, link: BrokerLink) -> None:
        link.alive = False
        self.write(frames.detach(link.handle, channel=link.session.channel))

    def leave(self, how: str) -> None:
        """Close the connection or break it."""
        if how == "close":
            self.write(frames.close())
        self.alive = False
        for link in self.links:
            link.alive = False
        if how != "close":
            self.peer.kill()

    # ---- frames in
    def read(self) -> bool:
        """Take what the router wrote; AssertionError where it breaks the protocol. Whether there was something."""
        found = self.peer.frames()
        for seen in found:
            assert isinstance(seen, Seen)
            p, channel = seen.performative, seen.channel
            assert not isinstance(p, Close), f"the broker was closed: {p}"
            if isinstance(p, Begin):
                self.sessions[channel] = BrokerSession(channel, p.incoming_window)
                self.write(frames.begin(channel, remote_channel=channel, incoming_window=FRAMES))
            elif isinstance(p, Attach):
                self._attached(self.sessions[channel], p)
            elif isinstance(p, Transfer):
                self._transfer(channel, p, seen.payload)
            elif isinstance(p, Flow):
                self._flow(self.sessions[channel], p)
            elif isinstance(p, Disposition):
                self._disposition(channel, p)
            elif isinstance(p, Detach):
                link = self._link(channel, p.handle)
                if link is not None:
                    link.alive = False
                    self.write(frames.detach(p.handle, channel=channel, closed=p.closed))
            else:
                assert isinstance(p, End), p
                assert p.error is None, p
                assert not [k for k in self.links if k.alive and k.session.channel == channel]
                self.write(frames.end(channel))
        return bool(found)

    def _attached(self, session: BrokerSession, attach: Attach) -> None:
        receives = attach.role is SENDER
        link = BrokerLink(session, attach.handle, attach.name, receives, attach.snd_settle_mode or 0)
        self.links.append(link)
        answer = Attach(
            attach.name, attach.handle, role=receives, source=attach.source, target=attach.target,
            snd_settle_mode=attach.snd_settle_mode, initial_delivery_count=None if receives else 0,
        )  # fmt: skip
        self.write(encode_frame(session.channel, answer))

    def _link(self, channel: int, handle: int | None) -> BrokerLink | None:
        found = [k for k in self.links if k.alive and (k.session.channel, k.handle) == (channel, handle)]
        return found[-1] if found else None

    def _flow(self, session: BrokerSession, flow: Flow) -> None:
        assert flow.next_incoming_id is not None
        session.may_send = flow.next_incoming_id + flow.incoming_window - session.sent_frames
        link = self._link(session.channel, flow.handle)
        if link is None:
            return
        assert flow.delivery_count is not None
        if link.receives:  # drained, if its count is ahead
            link.credit -= flow.delivery_count - link.count
            link.count = flow.delivery_count
            assert link.credit >= 0
            return
        assert flow.link_credit is not None
        link.credit = flow.delivery_count + flow.link_credit - link.count
        if flow.drain:
            link.count += max(link.credit, 0)
            link.credit = 0
            self.flow(link, drained=True)

    def _transfer(self, channel: int, transfer: Transfer, payload: bytes) -> None:
        self.sessions[channel].got_frames += 1
        link = self._link(channel, transfer.handle)
        if link is None:
            return  # it crossed our detach
        assert link.receives
        if link.part is None:
            assert transfer.delivery_id is not None
            link.count += 1
            link.credit -= 1
            assert link.credit >= 0, "a delivery without credit"
            link.part, link.part_id, link.part_settled = [], transfer.delivery_id, bool(transfer.settled)
        link.part.append(payload)
        if transfer.aborted:
            link.part = None
        elif not transfer.more:
            body = b"".join(link.part)
            link.part = None
            link.got.append(body)
            if link.part_settled:
                self.accepted.append(body)
            else:
                link.unsettled[link.part_id] = body

    def _disposition(self, channel: int, disposition: Disposition) -> None:
        last = disposition.first if disposition.last is None else disposition.last
        links = [k for k in self.links if k.session.channel == channel]
        for number in range(disposition.first, last + 1):
            if disposition.role is RECEIVER:
                link = next((k for k in links if number in k.sent), None)
                assert link is not None, f"an outcome for delivery {number}, which waits for none"
                self.outcomes[link.sent.pop(number)] = disposition.state
            elif disposition.settled:
                for link in links:
                    if link.unsettled.pop(number, None) is None and link.part is not None and link.part_id == number:
                        link.part_settled = True
