"""Clients of a run in the simulation, on the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.chaos.client import Client, Consumer, Group, Producer
from tests.chaos.events import ACCEPTED, MODIFIED, REJECTED, RELEASED
from tests.chaos.workload import Plan
from tests.simulation.full.network import CLIENT_PORT, Network, SimRouter
from tests.simulation.full.world import End, Station, Ways, Wire
from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.connection import Connection
from waymesh_amqp.delivery import Delivery
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.link_frames import open_link
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import Attach, ErrorInfo, Open, Terminus
from waymesh_amqp.sasl import SaslClient
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import DETACH_RCVD
from waymesh_amqp.transfer import IncomingTransfer

TICK_S = 0.05
LATENCY_S = 0.0002
EXPIRES_S = 10 * 86400.0
"""Messages expire later than any clock of a schedule jumps: none may be ended for it."""
TENANTS_PORT = 60000
"""Where routers listen for several tenants, plus their numbers."""
STATES = {0x24: ACCEPTED, 0x25: REJECTED, 0x26: RELEASED, 0x27: MODIFIED}
FAILED = b"\x00\x53\x27\xc0\x02\x01\x41"
"""modified with delivery-failed."""
ENCODED = {name: FAILED if name == MODIFIED else bytes((0, 0x53, code, 0x45)) for code, name in STATES.items()}
UNSETTLED, SETTLED, MIXED = 0, 1, 2
L = TypeVar("L", "VirtualSender", "VirtualReceiver")


class VirtualClients(Station, Handler):
    """The clients, and what they run on. `ways`: of each client's connections, by its name."""

    def __init__(self, network: Network, plans: Mapping[str, Plan], seed: int, idle_s: float) -> None:
        Station.__init__(self, network)
        Handler.__init__(self)
        self.network = network
        self.idle_s = idle_s
        self.ways = {name: Ways() for name in plans}
        self.wires: dict[str, Wire] = {}
        self.connections: dict[Connection, VirtualConnection] = {}
        self.group = Group(dict(plans), seed, self)
        self.group.connect()
        self._tick()

    def place(self, name: str) -> SimRouter:
        """The router of this name."""
        return self.network.edges[name] if name in self.network.edges else self.network.routers[name]

    # ---- surroundings of a client
    def now(self) -> float:
        """Virtual seconds."""
        return self.world.now

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call it later."""
        self.world.after(delay_s, self._act, action)

    def _act(self, action: Callable[[], None]) -> None:
        action()
        self.wake()

    def dial(self, client: Client, container_id: str) -> VirtualConnection:
        """A connection that is being opened."""
        return VirtualConnection(self, client, container_id)

    def _tick(self) -> None:
        self.group.tick()
        for conn in list(self.ends):
            conn.tick(self.world.now)
        self.after(TICK_S, self._tick)

    # ---- a station
    def tick(self, now: float) -> float:
        return now + 1.0

    def dirty_connections(self) -> list[Connection]:
        return self.dirty

    def lost(self, end: End, reason: str) -> None:
        end.conn.eof(reason)

    # ---- a handler
    def on_open(self, connection: Connection, performative: Open) -> None:
        self.connections[connection].opened()

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        ended = self.connections.pop(connection, None)
        if ended is not None:
            ended.client.on_lost()

    def new_link(self, session: Session) -> Link:
        raise AssertionError("a router attaches nothing to its clients")

    def on_attach(self, link: Any, performative: Attach) -> None:
        """Without a terminus the router refuses, and a detach follows."""
        terminus = performative.target if link.is_sender else performative.source
        if terminus is not None and link.carried.is_current():
            link.carried.task.on_attached()
            if not link.is_sender:
                link.carried.attached()

    def on_detach(self, link: Any, error: ErrorInfo | None) -> None:
        if link.state == DETACH_RCVD and link.carried.is_current():
            link.carried.task.on_detached("" if error is None else f"{error.condition} {error.description}")

    def on_transfer(self, link: Any, transfer: IncomingTransfer) -> None:
        link.carried.take(link, transfer)

    def on_abort(self, link: Any) -> None:
        link.carried.abort()

    def on_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        link: Any = delivery.out
        link.carried.outcome(delivery, settled, state)

    def on_credit(self, link: Any) -> None:
        link.carried.pump()
        link.finish_drain()
        if link.carried.is_current():
            link.carried.task.on_flow()


class VirtualConnection:
    """A connection of a client, which calls its `on_lost` once, at the end."""

    def __init__(self, clients: VirtualClients, client: Client, container_id: str) -> None:
        self.client = client
        tenant = client.tenant or None
        settings = ConnectionSettings(container_id, client=True, hostname=tenant, idle_timeout_s=clients.idle_s)
        settings.sasl = SaslClient(["ANONYMOUS"])
        self._conn = Connection(settings, clients, clients.now())
        self._session: Session | None = None
        self._later: list[VirtualSender | VirtualReceiver] = []
        router = clients.place(client.router)
        port = (TENANTS_PORT if client.tenant else CLIENT_PORT) + router.number
        found = clients.network.dial(port, LATENCY_S, clients.ways[client.name])
        if found is None:
            clients.after(0.0, client.on_lost)
            return
        wire, host, listener = found
        host.accept(wire, listener, client.name)
        clients.connections[self._conn] = self
        clients.wires[client.name] = wire
        wire.join(clients, self._conn, client.name)

    def opened(self) -> None:
        """The router has answered: attach what was asked for."""
        self._session = self._conn.open_session()
        for link in self._later:
            link.open(self._session)
        self._later.clear()

    def sender(self, task: Producer, settled: bool) -> VirtualSender:
        """Attach a sender."""
        return self._attach(VirtualSender(task, settled))

    def receiver(self, task: Consumer) -> VirtualReceiver:
        """Attach a receiver."""
        return self._attach(VirtualReceiver(task))

    def close(self) -> None:
        """Close it."""
        self._conn.close()

    def _attach(self, link: L) -> L:
        if self._session is None:
            self._later.append(link)
        else:
            link.open(self._session)
        return link


class _Raw(Link):
    """The engine's link of a `carried` one."""

    carried: Any


class VirtualSender:
    """A sender. Messages wait until the link is ready, as those of proton do."""

    def __init__(self, task: Producer, settled: bool) -> None:
        self.task = task
        self._settled = settled
        self._raw: _Raw | None = None
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._sent: dict[Delivery, str] = {}

    def open(self, session: Session) -> None:
        """Attach."""
        self._raw = _Raw(session)
        self._raw.carried = self
        mode, target = SETTLED if self._settled else UNSETTLED, Terminus("target", address=self.task.address)
        attach = Attach(self.task.name, 0, False, snd_settle_mode=mode, rcv_settle_mode=0, target=target)
        attach.source = Terminus("source")
        open_link(session, self._raw, attach)

    def is_current(self) -> bool:
        """Whether its task has not replaced it."""
        return self.task.link is self

    @property
    def credit(self) -> int:
        """What may still be sent."""
        return 0 if self._raw is None else self._raw.credit - len(self._waiting)

    def send(self, words: dict[str, Any], priority: int) -> None:
        """Send a message as soon as the link is ready."""
        body = "x" * words["size"]
        name = words["message"]
        message = Message(body=body, body_kind="value", application_properties=words, priority=priority, subject=name)
        message.absolute_expiry_time = int((words["at"] + EXPIRES_S) * 1000)
        self._waiting.append((name, encode_message(message)))
        self.pump()

    def pump(self) -> None:
        """Send what can be sent now."""
        link = self._raw
        while self._waiting and link is not None and link.ready():
            name, data = self._waiting.popleft()
            number = send_first(link, self._settled, False, data, 0, 0, b"", 0, len(data), 0)
            if not self._settled:
                delivery = Delivery()
                delivery.out, delivery.oid = link, number
                assert link.session.unsettled_out.put(delivery)
                self._sent[delivery] = name

    def outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        """The router told the state of a delivery."""
        if settled:
            code = state[2] if len(state) > 2 else 0
            self.task.on_outcome(self._sent.pop(delivery), STATES.get(code, f"state {code}"))


class VirtualReceiver:
    """A receiver."""

    def __init__(self, task: Consumer) -> None:
        self.task = task
        self.parts = b""
        self._raw: _Raw | None = None
        self._credit = 0
        """Given before it is attached."""

    def open(self, session: Session) -> None:
        """Attach."""
        self._raw = _Raw(session)
        self._raw.carried = self
        capabilities: Any = [Symbol(self.task.capability)] if self.task.capability else None
        source = Terminus("source", address=self.task.address, capabilities=capabilities)
        attach = Attach(self.task.name, 0, True, snd_settle_mode=MIXED, rcv_settle_mode=0, source=source)
        attach.target = Terminus("target")
        open_link(session, self._raw, attach)

    def is_current(self) -> bool:
        """Whether its task has not replaced it."""
        return self.task.link is self

    def flow(self, credit: int) -> None:
        """Give more credit."""
        link = self._raw
        if link is None or not link.attached:
            self._credit += credit
        else:
            link.replenish += credit
            link.flow_soon()

    def attached(self) -> None:
        """The router has answered: it can have its credit."""
        credit, self._credit = self._credit, 0
        self.flow(credit)

    def drain(self) -> None:
        """Use up the credit that is given."""
        assert self._raw is not None
        self._raw.drain = True
        self._raw.flow_soon()

    def is_drained(self) -> bool:
        """Whether nothing more can come."""
        assert self._raw is not None
        return self._raw.credit + self._raw.replenish == 0 and not self.parts

    def answer(self, delivery: int, state: str) -> None:
        """Settle with an outcome."""
        assert self._raw is not None
        self._raw.session.settle(delivery, ENCODED[state])

    def take(self, link: Link, transfer: IncomingTransfer) -> None:
        """A transfer came."""
        data = transfer.payload()
        self.parts = data if transfer.first else self.parts + data
        if transfer.more:
            return
        data, self.parts = self.parts, b""
        delivery = None if link.transfer_settled else link.transfer_id
        try:
            message = decode_message(data)
        except AmqpError:
            self.task.on_damage(delivery)
            return
        words: Any = message.application_properties
        self.task.on_message(words, len(message.body) if isinstance(message.body, str) else -1, delivery)

    def abort(self) -> None:
        """The router aborted a delivery."""
        self.parts = b""
        self.task.on_abort()

    def close(self) -> None:
        """Detach."""
        if self._raw is not None:
            self._raw.detach()
