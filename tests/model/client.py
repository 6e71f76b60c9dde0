"""A client for the model of the core that follows the protocol and records what it sent and received."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.kit import frames
from tests.kit.frames import RECEIVER, SENDER, Seen
from tests.kit.pump import Hub, Peer
from tests.unit.core.edge_peer import PROPERTIES
from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED
from waymesh_amqp.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Terminus, Transfer
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Described, Symbol
from waymesh_router.core.link_routing.endings import LINK_LOST

ANNOTATIONS = b"\x00\x53\x72"
CAPACITY = 8
WINDOW = 6


@dataclass(eq=False)
class Delivery:
    """A message on its way in. `outcome`: what was reported; `audience`: consumers of its address when it began."""

    id: int
    body: bytes
    settled: bool
    producer: Producer
    audience: list[Consumer]
    parts: list[bytes]
    address: str
    outcome: Described | None = None
    aborted: bool = False


@dataclass(eq=False)
class Producer:
    """`count` and `credit` as in the protocol; `open`: an incomplete delivery. No `address`: that of each message."""

    client: Client
    name: str
    handle: int
    address: str | None
    theirs: int = -1
    count: int = 0
    credit: int = 0
    drain: bool = False
    open: Delivery | None = None
    waiting: dict[int, Delivery] = field(default_factory=dict)
    alive: bool = True

    def may_begin(self) -> bool:
        """Whether it may begin a delivery."""
        return self.open is None and self.credit > 0 and self.client.may_send > 0


@dataclass(eq=False)
class Consumer:
    """`got`: bodies in order of arrival; `unsettled`: ids to settle; `part`: what came of an incomplete delivery.

    `second`: it reports outcomes, and the sender settles.
    """

    client: Client
    name: str
    handle: int
    address: str
    mode: int
    theirs: int = -1
    count: int = 0
    credit: int = 0
    part: list[bytes] | None = None
    part_id: int = -1
    part_settled: bool = False
    second: bool = False
    got: list[bytes] = field(default_factory=list)
    unsettled: dict[int, bytes] = field(default_factory=dict)
    accepted: list[bytes] = field(default_factory=list)
    alive: bool = True


class Client:
    """One connection with one session. `incoming`: the session window that it keeps open for the router; `edge`: it is
    an edge router, which gets no message back that it has sent.
    """

    def __init__(self, hub: Hub, name: str, incoming: int, max_frame: int | None, edge: bool = False) -> None:
        self.name = name
        self.incoming = incoming
        self.peer: Peer = hub.peer(ConnectionSettings("R", window=WINDOW))
        self.peer.conn.link_capacity = CAPACITY
        self.edge = edge
        if edge:
            self.peer.conn.role = "edge"
        self.peer.open(container_id=name, max_frame_size=max_frame, properties=PROPERTIES if edge else None)
        self.max_frame = max_frame or 1 << 30
        self.links: list[Producer | Consumer] = []
        self.next_handle = 0
        self.next_id = 0
        self.sent_frames = 0
        self.got_frames = 0
        self.window_end = incoming
        self.may_send = 0
        self.given_up: set[int] = set()
        self.alive = True
        self.may_end: tuple[str, ...] = ()  # addresses whose links the router may end
        self.may_try_again = False  # routers that start refuse links until they know the mesh
        self.write(frames.begin(incoming_window=incoming))

    # ---- frames out
    def write(self, data: bytes) -> None:
        self.peer.end.feed(data)
        self.peer.hub.turn()

    def flow(self, **over: Any) -> bytes:
        self.window_end = self.got_frames + self.incoming
        return frames.flow(
            next_incoming_id=self.got_frames, incoming_window=self.incoming, next_outgoing_id=self.sent_frames, **over
        )

    def attach_producer(self, address: str | None) -> Producer:
        link = Producer(self, f"{self.name}.p{self.next_handle}", self.next_handle, address)
        self.add(link)
        self.write(frames.attach_sender(link.name, link.handle, address=address))
        return link

    def attach_consumer(
        self, address: str, mode: int, second: bool = False, properties: dict[str, Any] | None = None, **source: Any
    ) -> Consumer:
        """`properties`: of its attach; `source`: further fields of its source."""
        link = Consumer(self, f"{self.name}.c{self.next_handle}", self.next_handle, address, mode, second=second)
        self.add(link)
        terms: dict[str, Any] = {"snd_settle_mode": mode, "rcv_settle_mode": int(second)}
        terms["source"] = Terminus("source", address=address, **source)
        if properties:
            terms["properties"] = {Symbol(key): value for key, value in properties.items()}
        self.write(frames.attach_receiver(link.name, link.handle, **terms))
        return link

    def add(self, link: Producer | Consumer) -> None:
        self.links.append(link)
        self.next_handle += 1

    def begin_delivery(self, delivery: Delivery) -> None:
        """Send the first part."""
        link = delivery.producer
        self.next_id += 1
        link.count += 1
        link.credit -= 1
        if not delivery.settled:
            link.waiting[delivery.id] = delivery
        link.open = delivery
        self.continue_delivery(link, first=True)

    def continue_delivery(self, link: Producer, first: bool = False) -> None:
        delivery = link.open
        assert delivery is not None
        part = delivery.parts.pop(0)
        if not delivery.parts:
            link.open = None
        self.sent_frames += 1
        self.may_send -= 1
        self.write(
            frames.transfer(
                delivery.id if first else None,
                part,
                handle=link.handle,
                settled=delivery.settled if first else None,
                more=bool(delivery.parts),
            )
        )

    def abort(self, link: Producer) -> None:
        delivery = link.open
        assert delivery is not None
        delivery.aborted = True
        self.given_up.add(delivery.id)
        link.open = None
        link.waiting.pop(delivery.id, None)
        self.sent_frames += 1
        self.may_send -= 1
        self.write(frames.transfer(None, b"", handle=link.handle, aborted=True))

    def give_credit(self, link: Consumer, amount: int, drain: bool = False) -> None:
        link.credit = amount
        self.write(self.flow(handle=link.handle, delivery_count=link.count, link_credit=amount, drain=drain))

    def answer_drain(self, link: Producer) -> None:
        link.drain = False
        link.count += link.credit
        link.credit = 0
        self.write(self.flow(handle=link.handle, delivery_count=link.count, link_credit=0, drain=True))

    def settle(self, link: Consumer, ids: list[int], state: Described) -> None:
        for i in ids:
            body = link.unsettled.pop(i)
            if state.descriptor == 0x24:
                link.accepted.append(body)
            self.write(frames.disposition(i, state=state, settled=not link.second))

    def settle_as_sender(self, link: Producer, delivery: Delivery) -> None:
        """Give up waiting for the outcome."""
        del link.waiting[delivery.id]
        self.given_up.add(delivery.id)
        delivery.settled = True
        self.write(frames.disposition(delivery.id, role=SENDER, state=None))

    def open_window(self) -> None:
        self.write(self.flow())

    def detach(self, link: Producer | Consumer) -> None:
        link.alive = False
        self.write(frames.detach(link.handle))

    def leave(self, how: str) -> None:
        """End the session, close the connection, or break it; what had been written before is read first."""
        if how == "end":
            self.write(frames.end())
        elif how == "close":
            self.write(frames.close())
        self.alive = False
        for link in self.links:
            link.alive = False
        if how != "close":
            self.peer.kill()

    # ---- frames in
    def read(self) -> None:
        """Take what the router wrote; AssertionError where it breaks the protocol."""
        for seen in self.peer.frames():
            assert isinstance(seen, Seen)
            p = seen.performative
            assert not isinstance(p, Close), f"{self.name} was closed: {p}"
            if isinstance(p, Begin):
                self.may_send = p.incoming_window
            elif isinstance(p, Attach):
                self.on_attach(p)
            elif isinstance(p, Flow):
                self.on_flow(p)
            elif isinstance(p, Transfer):
                assert seen.size <= self.max_frame
                self.on_transfer(p, seen.payload)
            elif isinstance(p, Disposition):
                self.on_disposition(p)
            elif isinstance(p, Detach):
                self.on_detach(p)
            else:
                assert isinstance(p, End), p
                assert p.error is None, p

    def on_attach(self, attach: Attach) -> None:
        link = next(k for k in self.links if k.name == attach.name)
        link.theirs = attach.handle
        assert attach.role is (RECEIVER if isinstance(link, Producer) else SENDER)

    def on_detach(self, detach: Detach) -> None:
        """The answer to our detach; or the other side of a routed link has ended, and this one with it."""
        link = self.by_their_handle(detach.handle)
        if link is None:
            ended = [k for k in self.links if k.theirs == detach.handle][-1]
            lost = ended.address in self.may_end and detach.error is not None and detach.error.condition == LINK_LOST
            assert lost or detach.error is None, detach  # lost: the other side has ended, too, which crossed our detach
            return
        again = self.may_try_again and detach.error is not None and detach.error.condition == RESOURCE_LIMIT_EXCEEDED
        assert again or link.address in self.may_end, detach
        link.alive = False
        self.write(frames.detach(link.handle))

    def by_their_handle(self, handle: int | None) -> Producer | Consumer | None:
        live = [k for k in self.links if k.theirs == handle and k.alive]
        return live[-1] if live else None

    def on_flow(self, flow: Flow) -> None:
        assert flow.next_incoming_id is not None
        self.may_send = flow.next_incoming_id + flow.incoming_window - self.sent_frames
        link = self.by_their_handle(flow.handle) if flow.handle is not None else None
        if isinstance(link, Producer):
            assert flow.delivery_count is not None
            assert flow.link_credit is not None
            link.credit = flow.delivery_count + flow.link_credit - link.count
            link.drain = flow.drain
            assert link.credit <= CAPACITY
        elif isinstance(link, Consumer):  # drained, if its count is ahead
            assert flow.delivery_count is not None
            link.credit -= flow.delivery_count - link.count
            link.count = flow.delivery_count
            assert link.credit >= 0

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self.got_frames += 1
        assert self.got_frames <= self.window_end, "a transfer outside the session window"
        link = self.by_their_handle(transfer.handle)
        if link is None:
            return  # it crossed our detach
        assert isinstance(link, Consumer)
        if link.part is None:
            assert transfer.delivery_id is not None
            link.count += 1
            link.credit -= 1
            assert link.credit >= 0, "a delivery without credit"
            link.part, link.part_id, link.part_settled = [], transfer.delivery_id, bool(transfer.settled)
        link.part.append(payload)
        if transfer.aborted:
            link.part = None
            link.unsettled.pop(link.part_id, None)
        elif not transfer.more:
            body = without_annotations(b"".join(link.part))
            link.part = None
            link.got.append(body)
            if link.part_settled:
                link.accepted.append(body)
            else:
                link.unsettled[link.part_id] = body

    def on_disposition(self, disposition: Disposition) -> None:
        last = disposition.first if disposition.last is None else disposition.last
        if disposition.role is SENDER:
            for consumer in [k for k in self.links if isinstance(k, Consumer) and disposition.settled]:
                for i in range(disposition.first, last + 1):
                    consumer.unsettled.pop(i, None)
                    consumer.part_settled = consumer.part_settled or consumer.part_id == i
            return
        for i in range(disposition.first, last + 1):
            for link in self.links:
                if isinstance(link, Producer) and i in link.waiting:
                    link.waiting.pop(i).outcome = disposition.state  # type: ignore[assignment]
                    if not disposition.settled:  # the consumer waits for us
                        self.given_up.add(i)
                        self.write(frames.disposition(i, role=SENDER, state=disposition.state))
                    break
            else:
                assert i in self.given_up, f"{self.name}: an outcome for delivery {i}, which waits for none"


def without_annotations(message: bytes) -> bytes:
    """A message without the annotations at its front, which edge routers are sent."""
    if not message.startswith(ANNOTATIONS):
        return message
    wide = message[3] == 0xD1
    size = int.from_bytes(message[4:8], "big") + 8 if wide else message[4] + 5
    return message[size:]
