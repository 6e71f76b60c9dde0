"""A raw peer that does what an interior router does for an edge router, at a core in memory.

Source: protocol/edge.md.
"""

from __future__ import annotations

from typing import Any

from tests.kit import frames
from tests.kit.answering import Attached, Container
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Attach, Detach, Flow, Transfer
from waymesh_router.core.edge.messages import (
    HEARTBEAT_ADDRESS,
    LOOKUP_ADDRESS,
    NOT_FOUND,
    TRACKING_ADDRESS,
    LookupReply,
    LookupRequest,
    decode_lookup,
    encode_lookup_reply,
    encode_tracking,
)
from waymesh_router.core.edge.uplink import Uplink
from waymesh_router.core.model import RouterConnection

FIRST = [("sender", None), ("receiver", "E"), ("receiver", TRACKING_ADDRESS)]
"""The links of a new uplink of E, before those of its addresses."""
LAST = [
    ("sender", "$management"),
    ("receiver", "made"),
    ("sender", LOOKUP_ADDRESS),
    ("receiver", "made"),
    ("sender", HEARTBEAT_ADDRESS),
]
"""Those after them."""
OUTCOMES = {0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}


def edge_hub() -> Hub:
    """An edge router E."""
    return core_hub(router_id="E", edge=True)


def uplink_of(hub: Hub) -> Uplink:
    uplink = core_of(hub).uplink
    assert uplink is not None
    return uplink


def wait(hub: Hub, seconds: float) -> None:
    """Let time pass for the uplink."""
    core = core_of(hub)
    core.now += seconds
    uplink_of(hub).tick(core.now)
    hub.turn()


class Interior:
    """An interior router that has accepted a connection of the edge router. `peer.links`: what the edge attached.

    `link_routes`: whether the test answers lookups; else no address is that of a link route.
    """

    def __init__(self, hub: Hub, router_id: str = "A", *, credit: int = 250, link_routes: bool = False) -> None:
        self.peer = Container(hub, container_id=router_id, credit=credit, role="edge")
        self._sent: dict[int, int] = {}  # deliveries by channel
        self._answered = 0
        if not link_routes:
            self._take = self.peer.peer.end.on_bytes
            self.peer.peer.end.on_bytes = self._take_and_answer

    @property
    def conn(self) -> RouterConnection:
        conn: RouterConnection = self.peer.conn
        return conn

    def links(self) -> list[tuple[str, Any]]:
        """The links that have not ended, in the order of their attaches: seen from the edge, and the address."""
        return [("receiver" if link.attach.role else "sender", link.address) for link in self.peer.active()]

    def link(self, which: str, address: str | None) -> Attached:
        """The first one that has not ended: `sender` or `receiver` of the edge."""
        known = self.links()
        assert (which, address) in known, f"no {which} {address} in {known}"
        return self.peer.active()[known.index((which, address))]

    def capabilities(self, which: str, address: str) -> list[str]:
        attach = self.link(which, address).attach
        terminus = attach.source if which == "receiver" else attach.target
        assert terminus is not None
        return [str(one) for one in terminus.capabilities or ()]

    # ---- messages down
    def send(self, link: Attached, message: Message | bytes, **over: Any) -> None:
        """Send on a receiver of the edge; pre-settled unless it says otherwise."""
        number = self._sent.get(link.channel, 0)
        self._sent[link.channel] = number + 1
        payload = message if isinstance(message, bytes) else encode_message(message)
        fields = {"handle": link.handle, "settled": True, **over}
        self.peer.send(frames.transfer(number, payload, channel=link.channel, **fields))

    def tell(self, key: str, there: bool) -> None:
        """Address tracking."""
        self.send(self.link("receiver", TRACKING_ADDRESS), encode_tracking(key, there, "A"))

    def reply(self, receiver: int, message: Message | bytes) -> None:
        """Send on a receiver of replies: 0 for those of management, 1 for those of lookups."""
        self.send([link for link in self.peer.active() if link.address == self.peer.made][receiver], message)

    # ---- messages up
    def lookups(self) -> list[LookupRequest]:
        """All lookups so far."""
        return [decode_lookup(payload) for payload in self.link("sender", LOOKUP_ADDRESS).bodies]

    def _take_and_answer(self, data: bytes) -> None:
        self._take(data)
        if ("sender", LOOKUP_ADDRESS) not in self.links():
            return
        for request in self.lookups()[self._answered :]:
            self._answered += 1
            self.answer(request, NOT_FOUND, False, False)

    def answer(self, request: LookupRequest, status: int, link_route: bool, reachable: bool) -> None:
        reply = LookupReply(request.correlation_id, status, link_route, reachable)
        self.reply(1, encode_lookup_reply(request.reply_to, reply, None))

    def requests(self) -> list[Message]:
        """All management requests so far."""
        return [decode_message(payload) for payload in self.link("sender", "$management").bodies]

    def answer_request(self, request: Message, status: int, body: Any = None) -> None:
        properties = {"statusCode": status, "statusDescription": "?"}
        answer = Message(correlation_id=request.correlation_id, application_properties=properties, body=body or {})
        self.reply(0, answer)

    def settle(self, link: Attached, number: int = 0) -> None:
        """Accept a delivery of the edge."""
        performative = link.transfers[number].performative
        assert isinstance(performative, Transfer)
        assert performative.delivery_id is not None
        self.peer.send(frames.disposition(performative.delivery_id, channel=link.channel))


# ---- clients at the edge
def client(hub: Hub, *attach: bytes) -> tuple[Peer, list[Any]]:
    """A client, and the answers to what it attaches."""
    peer = hub.peer().open().begin()
    return peer, peer.send(*attach)


def route(hub: Hub, direction: str = "in") -> Container:
    """A link route, and its container at the edge."""
    attrs = {"identity": "1", "name": "r", "direction": direction, "prefix": "lr", "containerId": "broker"}
    core_of(hub).linkroutes.add(attrs)
    return Container(hub)


def credit_of(answers: list[Any]) -> int | None:
    """The credit of the last flow, 0 if it is withdrawn by drain; None without one."""
    flows = [0 if a.drain else a.link_credit for a in answers if isinstance(a, Flow) and a.handle is not None]
    return flows[-1] if flows else None


def attached(answers: list[Any]) -> bool:
    """Whether an attach was answered, and not refused."""
    return any(isinstance(a, Attach) for a in answers) and not any(isinstance(a, Detach) for a in answers)


def states(answers: list[Any]) -> list[str]:
    """The names of the outcomes, sorted."""
    return sorted(OUTCOMES[state.descriptor] for state in frames.told(answers))
