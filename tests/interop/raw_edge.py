"""An edge router in raw frames: the links of an uplink as qdrouterd 1.19 attaches them. Source: protocol/edge.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.raw_client import WINDOW, RawClient
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Attach, Begin, Detach, Disposition, Flow, Terminus, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.edge.messages import (
    DOWNLINK_CAPABILITY,
    HEARTBEAT_ADDRESS,
    LOOKUP_ADDRESS,
    TRACKING_ADDRESS,
    decode_tracking,
    encode_heartbeat,
)

MAX_FRAMES = 10_000
PASSED_DOWN = 7
"""The channel of the session in which the router passes attaches down."""
Arrived = tuple[str, Message, Transfer]
"""Name of the link, the message, and its first transfer."""


STREAM = "stream"
"""The name here of links that the router attaches for long messages: this edge router takes them."""


class RawEdge:
    """On a connection of its own. Links are known by their names; what comes is kept until a test asks for it."""

    def __init__(self, port: int, edge_id: str) -> None:
        self.client = RawClient(port)
        self.id = edge_id
        self.attached: dict[str, Attach] = {}
        self.detached: dict[str, Detach] = {}
        self.credit: dict[str, int] = {}
        self.arrived: list[Arrived] = []
        self.outcomes: dict[int, Any] = {}
        self._names: dict[tuple[int, int], str] = {}  # by the router's channel and handle
        self._handles: dict[str, int] = {}
        self._parts: dict[tuple[int, int], tuple[Transfer, bytes]] = {}
        capabilities = [Symbol("ANONYMOUS-RELAY"), Symbol("qd.streaming-links")]
        properties = {
            Symbol("product"): "qpid-dispatch-router",
            Symbol("version"): "1.19.0",
            Symbol("qd.conn-id"): 1,
            Symbol("qd.annotations-version"): 1,
        }
        self.opened = self.client.open(
            container_id=edge_id,
            offered_capabilities=capabilities,
            desired_capabilities=capabilities,
            properties=properties,
        )
        self.client.begin()

    def __enter__(self) -> RawEdge:
        return self

    def __exit__(self, *exception: object) -> None:
        self.client.__exit__(*exception)

    def activate(self) -> RawEdge:
        """Attach the links of an active uplink."""
        dynamic = Terminus("source", dynamic=True)
        capability: list[str] = [Symbol(DOWNLINK_CAPABILITY)]
        down = Terminus("source", address=self.id, capabilities=capability)
        self.sender("up", None)
        self.attach("down", True, down, Terminus("target", capabilities=capability), 250)
        self.receiver("tracking", TRACKING_ADDRESS, 32)
        self.sender("management", "$management")
        self.attach("replies", True, dynamic, Terminus("target"), 100)
        self.sender("lookup", LOOKUP_ADDRESS)
        self.attach("lookup-replies", True, dynamic, Terminus("target"), 250)
        self.sender("heartbeat", HEARTBEAT_ADDRESS)
        self.wait(lambda: len(self.attached) == 8)
        self.send("heartbeat", encode_heartbeat(0, self.id))
        return self

    # ---- links
    def receiver(self, name: str, address: str, credit: int = 250) -> None:
        self.attach(name, True, Terminus("source", address=address), Terminus("target"), credit)

    def sender(self, name: str, address: str | None) -> None:
        self.attach(name, False, Terminus("source"), Terminus("target", address=address))

    def attach(self, name: str, receives: bool, source: Terminus, target: Terminus, credit: int = 0) -> None:
        """A new link; the answer is not awaited."""
        handle = self._handles[name] = len(self._handles)
        fields = {} if receives else {"initial_delivery_count": 0}
        self.client.put(
            Attach(name, handle, role=receives, snd_settle_mode=2, source=source, target=target, **fields)  # type: ignore[arg-type]
        )
        if credit:
            self.client.flow(handle, credit)

    def answer(self, attach: Attach, credit: int) -> None:
        """Take a link on which the router sends, in a session that it has begun."""
        handle = self._handles[attach.name] = len(self._handles)
        answer = Attach(attach.name, handle, role=True, source=attach.source, target=attach.target)
        self.client.put(answer, channel=PASSED_DOWN)
        window = {"next_incoming_id": 0, "incoming_window": WINDOW, "next_outgoing_id": 0, "outgoing_window": WINDOW}
        fields: dict[str, Any] = {**window, "handle": handle, "delivery_count": 0, "link_credit": credit}
        flow = Flow(**fields)
        self.client.put(flow, channel=PASSED_DOWN)

    def reply_to(self, name: str) -> str:
        """The address of a dynamic source."""
        source = self.attached[name].source
        assert source is not None
        return str(source.address)

    # ---- messages
    def send(self, name: str, message: Message | bytes, **fields: Any) -> int:
        """Send a message, pre-settled unless the fields say otherwise; its delivery-id."""
        payload = message if isinstance(message, bytes) else encode_message(message)
        return self.client.transfer(self._handles[name], payload, **{"settled": True, **fields})

    def accept(self, transfer: Transfer, channel: int = 0) -> None:
        assert transfer.delivery_id is not None
        outcome = Disposition(role=True, first=transfer.delivery_id, settled=True, state=ACCEPTED)
        self.client.put(outcome, channel=channel)

    def on(self, name: str, count: int = 1) -> list[Arrived]:
        """Wait for messages on a link, and take them."""
        self.wait(lambda: sum(arrived[0] == name for arrived in self.arrived) >= count)
        found = [arrived for arrived in self.arrived if arrived[0] == name]
        self.arrived = [arrived for arrived in self.arrived if arrived[0] != name]
        return found

    def bodies(self, name: str, count: int = 1) -> list[Any]:
        return [message.body for _, message, _ in self.on(name, count)]

    def tracked(self, key: str) -> bool:
        """What the next address tracking message says, which must be about this key."""
        name, message, _ = next(iter(self.on("tracking")))
        assert name == "tracking"
        told = decode_tracking(encode_message(message))
        assert told[0] == key, told
        return told[1]

    # ---- frames
    def wait(self, done: Callable[[], object]) -> None:
        """Read frames until the condition is true. Each read has a deadline."""
        for _ in range(MAX_FRAMES):
            if done():
                return
            self._take(*self.client.frame())
        raise AssertionError(f"not after {MAX_FRAMES} frames")

    def _take(self, performative: Any, payload: bytes) -> None:
        here = self.client.channel
        if isinstance(performative, Begin) and performative.remote_channel is None:
            window: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW}
            self.client.put(Begin(remote_channel=here, **window), channel=PASSED_DOWN)
        elif isinstance(performative, Attach):
            self._names[here, performative.handle] = performative.name
            self.attached[performative.name] = performative
            target = performative.target
            if performative.name not in self._handles and target is not None and target.address is None:
                self._names[here, performative.handle] = STREAM
                self.answer(performative, 10)
        elif isinstance(performative, Detach):
            self.detached[self._names[here, performative.handle]] = performative
        elif isinstance(performative, Flow) and performative.handle is not None:
            self.credit[self._names[here, performative.handle]] = performative.link_credit or 0
        elif isinstance(performative, Disposition):
            last = performative.first if performative.last is None else performative.last
            for number in range(performative.first, last + 1):
                self.outcomes[number] = performative.state
        elif isinstance(performative, Transfer):
            first, before = self._parts.pop((here, performative.handle), (performative, b""))
            if performative.more:
                self._parts[here, performative.handle] = first, before + payload
            else:
                name = self._names[here, performative.handle]
                self.arrived.append((name, decode_message(before + payload), first))
