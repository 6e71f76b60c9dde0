"""Scripted peers of whole routers: brokers with incoming or outgoing connections, and scripted clients.

A `Party` is a station with engine connections that records what it is told. A `Broker` has queues.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.full.network import CLIENT_PORT, MESH_PORT, Network, SimRouter
from tests.simulation.full.world import End, Station, Ways, Wire
from waymesh_amqp.connection import Connection
from waymesh_amqp.delivery import Delivery
from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.link_frames import open_link
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import Attach, ErrorInfo, Open, Terminus
from waymesh_amqp.sasl import SaslClient, SaslServer
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import ATTACHED
from waymesh_amqp.transfer import IncomingTransfer

LATENCY_S = 0.001
TICK_S = 1.0
ACCEPTED = b"\x00\x53\x24\x45"
REJECTED = b"\x00\x53\x25\x45"
RELEASED = b"\x00\x53\x26\x45"
BROKER_NUMBERS = 500


@dataclass
class Got:
    """A whole delivery that came in."""

    link: Any
    data: bytes
    settled: bool
    did: int


@dataclass
class PartyLink:
    """What a party knows of one of its links."""

    link: Link
    attach: Attach | None = None
    got: list[Got] = field(default_factory=list)
    parts: bytes = b""
    outcomes: list[tuple[bool, bytes]] = field(default_factory=list)
    gone: bool = False
    error: ErrorInfo | None = None
    aborted: int = 0

    @property
    def condition(self) -> str:
        return "" if self.error is None else self.error.condition

    @property
    def address(self) -> str:
        """What the peer attached to."""
        terminus = None
        if self.attach is not None:
            terminus = self.attach.source if self.link.is_sender else self.attach.target
        return "" if terminus is None else str(terminus.address)


class Party(Station, Handler):
    """A station with connections to routers. `links`: all links so far, in order."""

    def __init__(self, network: Network, name: str) -> None:
        Station.__init__(self, network)
        Handler.__init__(self)
        self.network = network
        self.name = name
        self.said: dict[str, Any] = {}
        """Further fields of its opens."""
        self.links: list[PartyLink] = []
        self.conns: list[Connection] = []
        self._by_link: dict[Link, PartyLink] = {}
        self._next_tick = network.now

    # ---- connections
    def settings(self, client: bool) -> ConnectionSettings:
        settings = ConnectionSettings(self.name, client=client, idle_timeout_s=0.0, **self.said)
        settings.sasl = SaslClient(["ANONYMOUS"]) if client else SaslServer(["ANONYMOUS"], None)
        return settings

    def dial(self, router: SimRouter, port: int | None = None) -> Connection:
        """A connection to a router's listener for clients, or to the one on `port`."""
        found = self.network.dial(CLIENT_PORT + router.number if port is None else port, LATENCY_S)
        assert found is not None
        wire, host, listener = found
        conn = Connection(self.settings(True), self, self.network.now)
        host.accept(wire, listener, self.name)
        wire.join(self, conn, self.name)
        self.conns.append(conn)
        return conn

    def accept(self, wire: Wire, listener: str, peer: str) -> None:
        """A router dialled."""
        if self.alive and not wire.dead:
            conn = Connection(self.settings(False), self, self.network.now)
            wire.join(self, conn, peer)
            self.conns.append(conn)

    def drop(self) -> None:
        """All connections break."""
        for end in list(self.ends.values()):
            end.wire.cut()

    # ---- links of ours
    def attach(self, session: Session, attach: Attach) -> PartyLink:
        link = Link(session)
        party = PartyLink(link)
        self.links.append(party)
        self._by_link[link] = party
        open_link(session, link, attach)
        self.wake()
        return party

    def sender(self, session: Session, address: str | None, name: str = "out", **over: Any) -> PartyLink:
        fields: dict[str, Any] = {"snd_settle_mode": 2, "source": Terminus("source", address="here")}
        fields |= {"target": Terminus("target", address=address), **over}
        return self.attach(session, Attach(name, 0, False, **fields))

    def receiver(self, session: Session, address: str, credit: int = 0, name: str = "in", **over: Any) -> PartyLink:
        fields: dict[str, Any] = {"snd_settle_mode": 2, "source": Terminus("source", address=address)}
        fields |= {"target": Terminus("target", address="here"), **over}
        party = self.attach(session, Attach(name, 0, True, **fields))
        party.link.capacity = credit
        return party

    def send(self, party: PartyLink, data: bytes, settled: bool = False) -> None:
        """Send a whole message; there must be credit."""
        link = party.link
        assert link.ready(), "no credit"
        oid = send_first(link, settled, False, data, 0, 0, b"", 0, len(data), 0)
        if not settled:
            delivery = Delivery()
            delivery.out, delivery.oid = link, oid
            assert link.session.unsettled_out.put(delivery)
        self.wake()

    def settle(self, got: Got, state: bytes = ACCEPTED) -> None:
        got.link.session.settle(got.did, state)
        got.link.return_credit()
        self.wake()

    # ---- a station
    def tick(self, now: float) -> float:
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            for conn in list(self.ends):
                conn.tick(now)
        return self._next_tick if self.ends else math.inf

    def dirty_connections(self) -> list[Connection]:
        return self.dirty

    def lost(self, end: End, reason: str) -> None:
        end.conn.eof(reason)

    # ---- a handler
    def on_open(self, connection: Connection, performative: Open) -> None:
        Handler.on_open(self, connection, performative)
        self.wake()

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        self.conns.remove(connection)

    def new_link(self, session: Session) -> Link:
        link = Link(session)
        party = PartyLink(link)
        self.links.append(party)
        self._by_link[link] = party
        return link

    def on_attach(self, link: Any, performative: Attach) -> None:
        party = self._by_link[link]
        ours = link.state == ATTACHED
        party.attach = performative
        if not ours:
            self.answer(party, performative)
        elif not link.is_sender and link.capacity:
            link.grant()

    def answer(self, party: PartyLink, attach: Attach) -> None:
        """The peer attached."""
        party.link.accept(attach, attach.source, attach.target)

    def on_detach(self, link: Any, error: ErrorInfo | None) -> None:
        party = self._by_link[link]
        party.gone, party.error = True, error

    def on_transfer(self, link: Any, transfer: IncomingTransfer) -> None:
        party = self._by_link[link]
        data = transfer.payload()
        party.parts = data if transfer.first else party.parts + data
        if not transfer.more:
            got = Got(link, party.parts, link.transfer_settled, link.transfer_id)
            party.got.append(got)
            self.take(party, got)

    def take(self, party: PartyLink, got: Got) -> None:
        """A whole delivery is there."""

    def on_abort(self, link: Any) -> None:
        self._by_link[link].aborted += 1

    def on_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        self._by_link[delivery.out].outcomes.append((settled, state))


class Broker(Party):
    """A container with queues. `refuse`: address → (condition, description); `credit`: of its producers;
    `outcome`: of what they send, None for none."""

    def __init__(self, network: Network, name: str = "broker", credit: int = 100) -> None:
        Party.__init__(self, network, name)
        self.number = BROKER_NUMBERS + sum(port >= MESH_PORT + BROKER_NUMBERS for port in network.ports)
        self.credit = credit
        self.outcome: bytes | None = ACCEPTED
        self.refuse: dict[str, tuple[str, str]] = {}
        self.queues: dict[str, deque[bytes]] = {}
        self.nodes_made = 0
        self.states: list[bytes] = []
        """Outcomes of what its consumers got."""
        network.ports[MESH_PORT + self.number] = (self, "amqp")  # type: ignore[assignment]

    def connector(self, router: SimRouter, name: str = "broker", extra: str = "") -> None:
        """Have the connector `name`, of role route-container, of a router lead here; before it starts.

        `extra`: further lines of its configuration.
        """
        router.cables[name] = BrokerCable(self, name, extra)  # type: ignore[assignment]

    def answer(self, party: PartyLink, attach: Attach) -> None:
        link = party.link
        address = party.address
        if address in self.refuse:
            link.refuse(*self.refuse[address])
            return
        if attach.source is None and link.is_sender:
            link.refuse("amqp:not-found", "no such subscription")
            return
        self.make_node(attach)
        address = party.address
        self.queues.setdefault(address, deque())
        link.accept(attach, attach.source, attach.target)
        if not link.is_sender:
            link.capacity = self.credit
            link.grant()

    def make_node(self, attach: Attach) -> None:
        """Give a dynamic terminus an address. Spec: 3.5.3."""
        for name in ("source", "target"):
            terminus = getattr(attach, name)
            if terminus is not None and terminus.kind != "coordinator" and terminus.dynamic:
                self.nodes_made += 1
                setattr(attach, name, replace(terminus, address=f"temp-{self.nodes_made}"))

    def take(self, party: PartyLink, got: Got) -> None:
        if self.outcome is None:
            return
        if self.outcome == ACCEPTED:
            self.queues[party.address].append(got.data)
        if got.settled:
            got.link.return_credit()
        else:
            self.settle(got, self.outcome)
        self.pump()

    def pump(self) -> None:
        """Hand messages to consumers that have credit."""
        for party in self.links:
            if party.link.is_sender and not party.gone and party.link.attached:
                self.on_credit(party.link)

    def on_credit(self, link: Any) -> None:
        party = self._by_link[link]
        queue = self.queues.get(party.address, deque())
        while queue and link.attached and link.ready():
            self.send(party, queue.popleft())
        link.finish_drain()

    def on_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        self.states.append(state)
        Party.on_outcome(self, delivery, settled, state)

    def of(self, address: str, is_sender: bool | None = None) -> list[PartyLink]:
        """Its links of an address that are attached."""
        return [
            party
            for party in self.links
            if not party.gone and party.address == address and is_sender in (None, party.link.is_sender)
        ]


class BrokerCable:
    """The way of a connector to a broker."""

    role = "route-container"

    def __init__(self, other: Broker, name: str, extra: str) -> None:
        self.other = other
        self.port = MESH_PORT + other.number
        self.extra = extra
        self.name = name
        self.latency = LATENCY_S
        self.cost = 1
        self.up = True
        self.silent = False
        self.rate = math.inf
        self.limit = 1 << 18
        self.ways = Ways()
        self.wire: Wire | None = None
