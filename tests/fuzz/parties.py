"""A router between four parties that behave: a client, a broker behind a link route and an autolink, an edge router,
and another router. Whatever a fifth one sends, none of them may lose a message, a link, a session or its connection.

An input is a byte that chooses what the rogue is and how far it has got before, then what it sends.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz.finding import Finding
from tests.kit import frames
from tests.kit.answering import Attached, Container, mesh_frame, neighbour
from tests.kit.frames import AMQP, Seen
from tests.kit.pump import CHUNKS, Peer, core_hub, core_of
from tests.unit.core.edge_peer import PROPERTIES, UP, EdgePeer, downlink
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Close, Detach, Disposition, End, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import BALANCED, CONTROL, DATA
from waymesh_router.core.links.mesh_links import INTER_ROUTER

ROUTE = {"identity": "linkRoute/0", "prefix": "queue", "direction": "both", "connection": "broker"}
AUTOLINK = {"identity": "autoLink/0", "direction": "out", "address": "waypoint", "connection": "broker"}
TO_QUEUE, FROM_QUEUE, TO_WAYPOINT, TO_NEIGHBOUR, TO_EDGE, HERE = range(6)
"""Handles of the client."""
OF_NEIGHBOUR = 3
"""The handle of the neighbour's link for messages to the router: see `neighbour`."""
BODY = "well"
WELL = encode_message(Message(body=BODY))
FROM_NEIGHBOUR = encode_message(
    Message(
        message_annotations={
            Symbol("x-opt-qd.ingress"): "0/N",
            Symbol("x-opt-qd.trace"): ["0/N"],
            Symbol("x-opt-qd.to"): "here",
        },
        body=BODY,
    )
)

MAPPED = AMQP + frames.open_(container_id="rogue") + frames.begin()
PRODUCER = MAPPED + frames.attach_sender("in", 0, address="queue/rogue")
CONSUMER = MAPPED + frames.attach_receiver("out", 0, address="queue/rogue")
BOTH = PRODUCER + frames.attach_receiver("out", 1, address="queue/rogue") + frames.credit(20, 1)
LOCAL = BOTH + frames.attach_sender("s", 2, address="r") + frames.attach_receiver("r", 3, address="r")
EDGE = AMQP + frames.open_(container_id="F", properties=PROPERTIES) + frames.begin()
UPLINK = EDGE + frames.attach_sender("up", 0, address=None) + frames.attach_receiver("down", 1, **downlink("F"))
MESH = (
    MAPPED + mesh_frame(0, CONTROL, True) + mesh_frame(1, CONTROL, False) + mesh_frame(2, DATA, True)
    + mesh_frame(3, DATA, False)
)  # fmt: skip
STAGES = (
    ("normal", MAPPED), ("normal", PRODUCER), ("normal", CONSUMER), ("normal", BOTH), ("normal", LOCAL),
    ("edge", EDGE), ("edge", UPLINK), (INTER_ROUTER, MESH),
)  # fmt: skip
"""Role of the rogue's connection, and what it has sent before."""


class Parties:
    """The router and those that behave."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.hub = core_hub()
        core: Any = core_of(self.hub)
        core.linkroutes.add(ROUTE)
        self.broker = Container(self.hub, credit=1000)
        core.autolinks.add(AUTOLINK)
        self.hub.turn()
        self.neighbour = neighbour(self.hub, "N", credit=1000)
        core.remote_routers.add_consumers("N", "M0there", BALANCED)
        self.edge = EdgePeer(self.hub)
        self.at_edge = self.edge.receiver("edge", 1000)
        self.client = self.hub.peer().open(container_id="client").begin()
        for handle, address in ((TO_QUEUE, "queue/in"), (TO_WAYPOINT, "waypoint"), (TO_NEIGHBOUR, "there"),
                                (TO_EDGE, "edge")):  # fmt: skip
            self.client.send(frames.attach_sender(address, handle, address=address))
        for handle, address in ((FROM_QUEUE, "queue/out"), (HERE, "here")):
            self.client.send(frames.attach_receiver(address, handle, address=address), frames.credit(1000, handle))
        for peer in (self.neighbour, self.client, self.edge.peer):
            peer.take()
        self.before = self.holds()

    def holds(self) -> dict[str, Any]:
        """What the router holds for those that behave."""
        core: Any = self.hub.handler
        return {
            "addresses": sorted(core.addresses),
            "links": len(core.links),
            "connections": len(core.connections),
            "links of the broker": sorted(str(link.address) for link in self.broker.active()),
            "waiting bytes": core.budget.kept,
            "sessions of the broker": len([k for k in self.broker.conn.sessions if k is not None]),
        }

    def run(self, first: int, data: bytes) -> None:
        """A rogue comes, sends, and goes; those that behave go on meanwhile and afterwards."""
        role, stage = STAGES[first % len(STAGES)]
        rogue = self.hub.peer()
        rogue.conn.role = role
        rogue.end.chunk = CHUNKS[len(data) % len(CHUNKS)] if first & 64 and len(data) < 300 else 10000
        rogue.send(stage)
        rogue.send(data)
        self.exchange()
        if first & 128:
            self.hub.tick(0.5)
        rogue.kill()
        core: Any = self.hub.handler
        core.now += 1.0
        core.routed_attaches.tick()  # ends sessions that have no link any more
        self.hub.turn()
        self.exchange()
        after = self.holds()
        if after != self.before:
            raise Finding(f"left behind: {after}, before: {self.before}")
        self.hub.ends = {key: end for key, end in self.hub.ends.items() if not end.conn.over}
        core_of(self.hub).closing.clear()

    def exchange(self) -> None:
        """One message on each way, and its outcome."""
        first = self.deliveries
        for handle in (TO_QUEUE, TO_WAYPOINT, TO_NEIGHBOUR, TO_EDGE):
            self.client.end.feed(frames.transfer(self.deliveries, WELL, handle=handle))
            self.deliveries += 1
        self.hub.turn()
        for address in ("queue/in", "waypoint"):
            link = self.of_broker(address)
            got, link.transfers = link.transfers, []
            number = only(address, got)
            self.broker.send(frames.disposition(number, channel=link.channel))
        for name, peer in (("neighbour", self.neighbour), ("edge", self.edge.peer)):
            peer.send(frames.disposition(only(name, transfers(name, peer))))
        link = self.of_broker("queue/out")
        self.broker.send(frames.transfer(first, WELL, handle=link.handle, channel=link.channel, settled=True))
        self.neighbour.send(frames.transfer(first, FROM_NEIGHBOUR, handle=OF_NEIGHBOUR, settled=True))
        self.edge.send(UP, Message(to="here", body=BODY))
        self.check_client(first)

    def check_client(self, first: int) -> None:
        """The client got a message on each way, and the outcome `accepted` of each of its own."""
        seen = undisturbed("client", self.client)
        got = [f.performative.handle for f in seen if isinstance(f.performative, Transfer)]
        if len(got) != len(("broker", "neighbour", "edge")):
            raise Finding(f"the client got messages on links {got}")
        told = [f.performative for f in seen if isinstance(f.performative, Disposition)]
        accepted = {
            number
            for outcome in told
            if outcome.settled and outcome.state == ACCEPTED
            for number in range(outcome.first, (outcome.first if outcome.last is None else outcome.last) + 1)
        }
        if accepted != set(range(first, self.deliveries)):
            raise Finding(f"of {first} to {self.deliveries - 1}, {sorted(accepted)} were accepted: {told}")
        self.broker.outcomes.clear()

    def of_broker(self, address: str) -> Attached:
        """The broker's only link of that address."""
        links = [link for link in self.broker.active() if link.address == address]
        if len(links) != 1:
            raise Finding(f"the broker has {len(links)} links of {address}")
        return links[0]


def transfers(name: str, peer: Peer) -> list[Seen]:
    """What a peer that has lost nothing was sent on links of addresses."""
    seen = undisturbed(name, peer)
    return [f for f in seen if isinstance(f.performative, Transfer) and f.payload.endswith(WELL)]


def undisturbed(name: str, peer: Peer) -> list[Seen]:
    """What a peer was sent; nothing of it may end anything."""
    seen = [f for f in peer.frames() if isinstance(f, Seen)]
    ends = [f.performative for f in seen if isinstance(f.performative, Detach | End | Close)]
    if ends or peer.conn.over:
        raise Finding(f"the {name} was sent {ends}, {peer.conn.error}")
    return seen


def only(name: str, got: list[Seen]) -> int:
    """The delivery-id of the only message that arrived."""
    if len(got) != 1 or not isinstance(got[0].performative, Transfer) or got[0].performative.delivery_id is None:
        raise Finding(f"{name} got {got}")
    return got[0].performative.delivery_id
