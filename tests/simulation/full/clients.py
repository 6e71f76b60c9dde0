"""Simulated AMQP clients: senders and receivers of random habits, on the engine, whose messages a `Ledger` follows."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from tests.simulation.full.ledger import NAMES, Ledger, Receipt, Sent
from tests.simulation.full.network import CLIENT_PORT, Network, SimRouter
from tests.simulation.full.world import End, Station
from waymesh_amqp.connection import Connection
from waymesh_amqp.delivery import Delivery
from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.link_frames import open_link
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import Attach, ErrorInfo, Open, Terminus
from waymesh_amqp.sasl import SaslClient
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.transfer import IncomingTransfer
from waymesh_amqp.types import Symbol

TICK_S = 1.0
ENCODED = {code: bytes((0, 0x53, code, 0x45)) for code in NAMES if code}
UNSETTLED, SETTLED, MIXED = 0, 1, 2


class Sender(Link):
    """Sends `left` messages, `pace` seconds apart on average. `address` None: each message says `to` where it goes."""

    def __init__(self, client: Client, to: str, address: str | None, plan: SenderPlan) -> None:
        Link.__init__(self, client.session)
        self.client = client
        self.to = to
        self.address = address
        self.plan = plan
        self.left = plan.count
        self.under_way: dict[Any, Sent] = {}
        self.waiting = False
        self.credit_at = math.inf
        """When the first credit came."""

    def terms(self) -> Attach:
        return Attach(
            next(self.client.names),
            0,
            False,
            snd_settle_mode=MIXED,
            rcv_settle_mode=0,
            source=Terminus("source"),
            target=Terminus("target", address=self.address),
        )

    def attaching_done(self) -> None:
        self.pump()

    def pump(self) -> None:
        """Send what can be sent now: one message, and the next one after a while."""
        crowd = self.client.crowd
        if self.credit > 0:
            self.credit_at = min(self.credit_at, crowd.world.now)
        if self.waiting or self.left <= 0 or not self.attached or not self.ready():
            self.finish_drain()
            return
        self.left -= 1
        self._send()
        self.waiting = True
        crowd.world.after(crowd.world.rng.expovariate(1 / self.plan.pace), self._again)

    def _again(self) -> None:
        self.waiting = False
        self.pump()
        self.client.crowd.wake()

    def _send(self) -> None:
        crowd = self.client.crowd
        rng = crowd.world.rng
        settled = rng.random() < self.plan.settled
        sent = crowd.ledger.new(self.to, self.plan.multicast, settled)
        body = sent.number.to_bytes(8, "big") + bytes(int(rng.expovariate(1 / self.plan.size)))
        message = Message(body=body, body_kind="data", to=self.to if self.address is None else None)
        if self.plan.groups:
            sent.group = message.group_id = f"group {rng.randrange(self.plan.groups)}"
            sent.sender = self
        elif rng.random() < 0.3:
            message.priority = rng.randrange(10)
        data = encode_message(message)
        oid = send_first(self, settled, False, data, 0, 0, b"", 0, len(data), 0)
        if not settled:
            delivery = Delivery()
            delivery.out, delivery.oid = self, oid
            assert self.session.unsettled_out.put(delivery)
            self.under_way[delivery] = sent

    def outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        """The router said what became of a delivery."""
        if not settled:
            delivery.state = state  # a receiver that wants us to settle first
            self.session.report(False, delivery.oid, True, state)
            self.session.unsettled_out.drop(delivery)
        state = state or delivery.state
        self.under_way.pop(delivery).outcomes.append(state[2] if len(state) > 2 else 0)

    def forsake(self) -> None:
        for sent in self.under_way.values():
            sent.orphan = True
        self.under_way.clear()


@dataclass(frozen=True)
class SenderPlan:
    """`settled`: share of pre-settled messages; `size`: mean bytes of a body; `pace`: mean seconds between messages;
    `groups`: number of message groups that they belong to."""

    count: int
    multicast: bool = False
    settled: float = 0.3
    size: float = 100.0
    pace: float = 0.002
    groups: int = 0


@dataclass(frozen=True)
class ReceiverPlan:
    """`credit`: deliveries at once; `delay`: mean seconds until an outcome; `faithful`: share of accepted; `second`:
    the receiver reports first and settles when the sender has; `priority`: among the consumers of the address;
    `exclusive`: one of them gets all; `concurrency`: what it says of how many it works on at a time."""

    credit: int = 50
    delay: float = 0.002
    faithful: float = 0.85
    second: bool = False
    priority: int = 0
    exclusive: bool = False
    concurrency: int = 0


def link_properties(plan: ReceiverPlan) -> dict[Symbol, object] | None:
    """Those of the attach."""
    names = ("priority", "exclusive", "concurrency")
    return {Symbol(name): getattr(plan, name) for name in names if getattr(plan, name)} or None


class Receiver(Link):
    """Takes messages and answers each with a random outcome after a random time."""

    def __init__(self, client: Client, address: str, plan: ReceiverPlan) -> None:
        Link.__init__(self, client.session)
        self.client = client
        self.address = address
        self.plan = plan
        self.label = f"{client.name}/{next(client.names)}"
        self.parts = b""
        self.received = 0
        self.open: dict[int, Receipt] = {}

    def terms(self) -> Attach:
        return Attach(
            self.label,
            0,
            True,
            snd_settle_mode=MIXED,
            rcv_settle_mode=int(self.plan.second),
            source=Terminus("source", address=self.address),
            target=Terminus("target"),
            properties=link_properties(self.plan),
        )

    def attaching_done(self) -> None:
        self.capacity = self.plan.credit
        self.grant()

    def take(self, transfer: IncomingTransfer) -> None:
        data = transfer.payload()
        self.parts = data if transfer.first else self.parts + data
        if transfer.more:
            return
        body = decode_message(self.parts).body
        self.received += 1
        crowd = self.client.crowd
        sent = crowd.ledger.sent[int.from_bytes(body[:8], "big")]
        receipt = Receipt(self.label, crowd.world.now)
        sent.receipts.append(receipt)
        if sent.address != self.address or sent.settled != self.transfer_settled:
            crowd.ledger.unexpected.append(f"{self.label} got {sent}")
        if self.transfer_settled:
            self.return_credit()
            return
        did = self.transfer_id
        self.open[did] = receipt
        if self.plan.second:
            delivery = Delivery()
            delivery.link, delivery.did = self, did
            assert self.session.unsettled_in.put(delivery)
        self.begin_answer(did)

    def begin_answer(self, did: int) -> None:
        """A message has arrived: answer it after a while."""
        world = self.client.crowd.world
        world.after(world.rng.expovariate(1 / self.plan.delay), self._answer, did)

    def _answer(self, did: int) -> None:
        receipt = self.open.get(did)
        if receipt is None or not self.attached:
            return
        rng = self.client.crowd.world.rng
        receipt.outcome = 0x24 if rng.random() < self.plan.faithful else rng.choice((0x25, 0x26, 0x27))
        state = ENCODED[receipt.outcome]
        if self.plan.second:
            self.session.report(True, did, False, state)
        else:
            del self.open[did]
            self.session.settle(did, state)
            self.return_credit()
        self.client.crowd.wake()

    def settled_by_sender(self, delivery: Delivery) -> None:
        del self.open[delivery.did]
        self.return_credit()

    def forsake(self) -> None:
        self.open.clear()


class Client:
    """One connection with some links. `close()` leaves in order, `kill()` does not."""

    def __init__(self, crowd: Crowd, router: SimRouter, max_frame: int, latency: float) -> None:
        self.crowd = crowd
        self.router = router
        self.name = f"client{next(crowd.numbers)}"
        self.names = (f"link{number}" for number in itertools.count())
        self.links: list[Sender | Receiver] = []
        settings = ConnectionSettings(self.name, client=True, max_frame_size=max_frame, idle_timeout_s=0.0)
        settings.sasl = SaslClient(["ANONYMOUS"])
        self.session: Any = None
        self.conn = Connection(settings, crowd, crowd.world.now)
        self.gone = False
        self._later: list[tuple[Any, ...]] = []
        found = crowd.network.dial(CLIENT_PORT + router.number, latency)
        if found is None:
            self.gone = True
            return
        wire, host, listener = found
        host.accept(wire, listener, self.name)
        self.end: End = wire.join(crowd, self.conn, self.name)
        crowd.clients[self.conn] = self

    def sender(self, to: str, plan: SenderPlan, anonymous: bool = False) -> Any:
        return self.attach(Sender, to, None if anonymous else to, plan)

    def receiver(self, address: str, plan: ReceiverPlan) -> Any:
        return self.attach(Receiver, address, plan)

    def attach(self, kind: type, *details: Any) -> Any:
        """A link, now or as soon as the connection is open; its place in `links` is returned."""
        self._later.append((kind, *details))
        place = len(self.links) + len(self._later) - 1
        if self.session is not None:
            self.opened()
        return lambda: self.links[place]

    def opened(self) -> None:
        if self.session is None:
            self.session = self.conn.open_session()
        for kind, *details in self._later:
            link = kind(self, *details)
            self.links.append(link)
            open_link(self.session, link, link.terms())
        self._later.clear()
        self.crowd.wake()

    def close(self) -> None:
        if not self.gone:
            self.conn.close()
            self.crowd.wake()

    def kill(self) -> None:
        """The transport breaks."""
        if not self.gone:
            self.end.wire.cut()

    @property
    def idle(self) -> bool:
        """Nothing is left to be sent or answered."""
        senders = [link for link in self.links if isinstance(link, Sender)]
        return self.gone or not (self._later or any(link.left or link.under_way for link in senders))


class Crowd(Station, Handler):
    """All clients of a run; one handler for their connections."""

    def __init__(self, network: Network, ledger: Ledger) -> None:
        Station.__init__(self, network)
        Handler.__init__(self)
        self.network = network
        self.ledger = ledger
        self.numbers = itertools.count()
        self.clients: dict[Connection, Client] = {}
        self._next_tick = network.now

    def client(self, router: SimRouter, max_frame: int = 16384, latency: float = 0.0002) -> Client:
        return Client(self, router, max_frame, latency)

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
        self.clients[connection].opened()

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        client = self.clients.pop(connection, None)
        if client is not None:
            client.gone = True
        if error is not None and error.condition != "amqp:connection:forced":
            self.ledger.unexpected.append(f"connection closed: {error.condition}: {error.description}")

    def new_link(self, session: Session) -> Link:
        raise AssertionError("a router attaches nothing to its clients")

    def on_attach(self, link: Any, performative: Attach) -> None:
        link.attaching_done()

    def on_detach(self, link: Any, error: ErrorInfo | None) -> None:
        if error is not None and error.condition != "amqp:connection:forced":
            self.ledger.unexpected.append(f"link detached: {error.condition}: {error.description}")
        link.forsake()

    def on_transfer(self, link: Any, transfer: IncomingTransfer) -> None:
        link.take(transfer)

    def on_abort(self, link: Any) -> None:
        link.parts = b""
        link.return_credit()

    def on_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        link: Any = delivery.out
        link.outcome(delivery, settled, state)

    def on_sender_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        link: Any = delivery.link
        if settled:
            link.settled_by_sender(delivery)

    def on_credit(self, link: Any) -> None:
        link.pump()
