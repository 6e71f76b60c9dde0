"""Clients on python-qpid-proton, on real connections.

They run in one thread: little CPU, and the order in which they write is that in which it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proton
from proton.handlers import TransactionHandler
from proton.reactor import ApplicationEvent, AtLeastOnce, AtMostOnce, Container, EventInjector, LinkOption, Transaction

from tests.chaos.asking import KINDS as ASKING_KINDS
from tests.chaos.client import Client, Consumer, Group, Producer
from tests.chaos.events import ACCEPTED, MODIFIED, REJECTED, RELEASED
from tests.chaos.outside import Outside
from tests.chaos.transactor import Transactor
from tests.chaos.workload import Plan, Transacts
from tests.kit.crowd import Transports
from tests.kit.garbage import GARBAGE, free

TICK_S = 0.05
STOP_S = 60.0
STATES = {
    proton.Delivery.ACCEPTED: ACCEPTED,
    proton.Delivery.REJECTED: REJECTED,
    proton.Delivery.RELEASED: RELEASED,
    proton.Delivery.MODIFIED: MODIFIED,
}
NUMBERS = {name: number for number, name in STATES.items()}


class Clients(proton.Handler):
    """The clients of a run, their thread, and their connections."""

    def __init__(
        self,
        plans: dict[str, Plan],
        ports: dict[str, int],
        seed: int,
        idle_s: float,
        folder: Path | None = None,
        trusted: Path | None = None,
    ) -> None:
        """`ports`: where each client connects; `idle_s`: after so long without a frame it drops a connection; `folder`:
        for what programs of other languages say; `trusted`: authorities of TLS, read for each connection."""
        super().__init__()
        self.group = Group(plans, seed, self, {Transacts: Transactor, **ASKING_KINDS})
        self._ports = ports
        self._idle_s = idle_s
        self._trusted = trusted
        self._stopping = False
        self._wake = EventInjector()
        self.container = Container(self, global_handler=Transports())
        self.container.selectable(self._wake)
        for name, plan in plans.items():
            if plan.program:
                assert folder is not None, f"no folder for what {name} says"
                words = {"port": ports[name], "idle_s": idle_s, "ca": str(trusted or "")}
                self.group.elsewhere.append(Outside(self.group, name, plan, words, folder / f"{name}.log"))
        GARBAGE.hold()
        self._thread = threading.Thread(target=self.container.run, name="clients", daemon=True)
        self._thread.start()

    # ---- from other threads
    def finish(self) -> None:
        """Send nothing new."""
        self._wake.trigger(ApplicationEvent("finish"))

    def close(self) -> None:
        """Drop all connections, and end the thread."""
        self._wake.trigger(ApplicationEvent("leave"))
        self._wake.close()
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), "the thread of the clients does not end"
        for outside in self.group.elsewhere:
            outside.close()
        for client in self.group.clients:
            connection: Any = client.connection
            if connection is not None:
                free(connection.raw)
        GARBAGE.let_go()

    # ---- surroundings of a client
    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call it later."""
        self.container.schedule(delay_s, _Timer(action))

    def dial(self, client: Client, container_id: str) -> ProtonConnection:
        """A connection that is being opened."""
        container = self.container
        container.container_id = container_id
        url = f"{'amqps' if self._trusted else 'amqp'}://127.0.0.1:{self._ports[client.name]}"
        raw: Any = container.connect(
            url, reconnect=False, allowed_mechs="ANONYMOUS", heartbeat=self._idle_s, virtual_host=client.tenant or None,
            ssl_domain=None if self._trusted is None else _domain(self._trusted),
        )  # fmt: skip
        raw.client = client
        return ProtonConnection(container, raw)

    # ---- in the thread of the container
    def on_reactor_init(self, event: Any) -> None:
        self.group.connect()
        self._tick()

    def _tick(self) -> None:
        if not self._stopping:
            self.group.tick()
            self.after(TICK_S, self._tick)

    def on_finish(self, event: Any) -> None:
        self.group.finish()

    def on_leave(self, event: Any) -> None:
        self._stopping = True
        self.container.stop()

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()

    def on_transport_closed(self, event: Any) -> None:
        if not self._stopping:
            event.connection.client.on_lost()

    def on_link_remote_open(self, event: Any) -> None:
        """Without a terminus the router refuses, and a detach follows."""
        link = event.link
        terminus = link.remote_target if link.is_sender else link.remote_source
        if terminus.type != proton.Terminus.UNSPECIFIED and _is_current(link):
            link.carried.task.address = link.carried.task.address or terminus.address or ""
            link.carried.task.on_attached()

    def on_link_remote_close(self, event: Any) -> None:
        link = event.link
        if _is_current(link) and link.state & proton.Endpoint.LOCAL_ACTIVE:
            link.close()
            link.carried.task.on_detached(str(link.remote_condition or ""))

    on_link_remote_detach = on_link_remote_close

    def on_link_flow(self, event: Any) -> None:
        if event.link.is_sender and _is_current(event.link):
            event.link.carried.task.on_flow()

    def on_delivery(self, event: Any) -> None:
        if _is_current(event.link):
            event.link.carried.on_delivery(event.delivery)


class ProtonConnection:
    """A connection as clients want it. `raw`: proton's."""

    def __init__(self, container: Container, raw: Any) -> None:
        self._container = container
        self.raw = raw

    def sender(self, task: Producer, settled: bool) -> ProtonSender:
        """Attach a sender."""
        mode = AtMostOnce() if settled else AtLeastOnce()
        raw = self._container.create_sender(self.raw, task.address or None, name=task.name, options=mode)
        return ProtonSender(task, raw, settled)

    def receiver(self, task: Consumer) -> ProtonReceiver:
        """Attach a receiver."""
        options: list[LinkOption] = [AtLeastOnce()]
        if task.capability:
            options.append(Capability(task.capability))
        dynamic = not task.address
        raw = self._container.create_receiver(
            self.raw, task.address or None, name=task.name, dynamic=dynamic, options=options
        )
        return ProtonReceiver(task, raw)

    def transacting_sender(self, task: Transactor) -> ProtonTransactingSender:
        """Attach a sender whose messages are in transactions."""
        raw = self._container.create_sender(self.raw, task.address, name=task.name, options=AtLeastOnce())
        return ProtonTransactingSender(task, self._container, raw)

    def close(self) -> None:
        """Close it."""
        self.raw.close()


class ProtonSender:
    """A sender of proton."""

    def __init__(self, task: Producer, raw: Any, settled: bool) -> None:
        self.task = task
        self._raw = raw
        raw.carried = self
        self._settled = settled

    @property
    def credit(self) -> int:
        """What may be sent."""
        return int(self._raw.credit)

    def send(self, words: dict[str, Any], priority: int) -> None:
        """Send a message."""
        delivery: Any = self._raw.send(message_of(words, priority))
        if not self._settled:
            delivery.message = words["message"]

    def on_delivery(self, delivery: Any) -> None:
        """An outcome came."""
        if delivery.updated and delivery.settled and not self._settled:
            state = STATES.get(delivery.remote_state, f"state {delivery.remote_state}")
            self.task.on_outcome(delivery.message, state)
            delivery.settle()


class ProtonTransactingSender(TransactionHandler):
    """A sender of proton in transactions. It is told of the link to the coordinator, too."""

    def __init__(self, task: Transactor, container: Container, raw: Any) -> None:
        self.task = task
        self._container = container
        self._raw = raw
        self._now: Transaction | None = None
        raw.carried = self

    @property
    def credit(self) -> int:
        """What may be sent."""
        return int(self._raw.credit)

    def declare(self) -> None:
        """Begin a transaction."""
        self._now = self._container.declare_transaction(self._raw.connection, handler=self)

    def send(self, words: dict[str, Any], priority: int) -> None:
        """Send a message within it."""
        assert self._now is not None
        self._now.send(self._raw, message_of(words, priority))

    def conclude(self, commit: bool) -> None:
        """End it."""
        assert self._now is not None
        if commit:
            self._now.commit()
        else:
            self._now.abort()

    def on_delivery(self, delivery: Any) -> None:
        """The outcome of a message counts when its transaction ends."""
        if delivery.settled:
            delivery.settle()

    def on_transaction_declared(self, event: Any) -> None:
        self.task.on_declared()

    def on_transaction_declare_failed(self, event: Any) -> None:
        self.task.forget()

    def on_transaction_committed(self, event: Any) -> None:
        self.task.on_concluded(committed=True)

    def on_transaction_aborted(self, event: Any) -> None:
        self.task.on_concluded(committed=False)

    on_transaction_commit_failed = on_transaction_aborted

    def on_link_remote_close(self, event: Any) -> None:
        """The coordinator has gone: the broker is away."""
        link = event.link
        if self.task.link is self and link.state & proton.Endpoint.LOCAL_ACTIVE:
            link.close()
            self.task.on_detached(f"coordinator: {link.remote_condition or ''}")

    on_link_remote_detach = on_link_remote_close


class ProtonReceiver:
    """A receiver of proton."""

    def __init__(self, task: Consumer, raw: Any) -> None:
        self.task = task
        self._raw = raw
        raw.carried = self

    def close(self) -> None:
        """Detach."""
        self._raw.close()

    def flow(self, credit: int) -> None:
        """Give more credit."""
        self._raw.flow(credit)

    def drain(self) -> None:
        """Use up the credit that is given."""
        self._raw.drain(0)

    def is_drained(self) -> bool:
        """Whether nothing more can come."""
        return self._raw.credit == 0 and self._raw.current is None

    def answer(self, delivery: Any, state: str) -> None:
        """Settle with an outcome."""
        if state == MODIFIED:
            delivery.local.failed = True
        delivery.update(NUMBERS[state])
        delivery.settle()

    def on_delivery(self, delivery: Any) -> None:
        """A transfer came."""
        if delivery.aborted:
            delivery.settle()
            self.task.on_abort()
        elif delivery.readable and not delivery.partial:
            data = self._raw.recv(delivery.pending) or b""
            self._raw.advance()
            settled = bool(delivery.settled)
            if settled:
                delivery.settle()
            body = proton.Message()
            try:
                body.decode(data)
            except proton.ProtonException:
                self.task.on_damage(None if settled else delivery)
                return
            words: Any = body.properties
            words["correlation"] = body.correlation_id
            length = len(body.body) if isinstance(body.body, str) else -1
            self.task.on_message(words, length, None if settled else delivery)


class Capability(LinkOption):
    """A capability of a source."""

    def __init__(self, name: str) -> None:
        self._name = name

    def apply(self, link: Any) -> None:
        """Ask for it."""
        link.source.capabilities.put_object(proton.symbol(self._name))


def message_of(words: dict[str, Any], priority: int) -> proton.Message:
    """Durable for brokers, with a subject for exchanges, and what requests and replies have."""
    return proton.Message(
        body="x" * words["size"], properties=words, priority=priority, durable=True, subject=words["message"],
        address=words.get("to"), reply_to=words.get("reply_to"), correlation_id=words.get("answers"),
    )  # fmt: skip


def _domain(trusted: Path) -> proton.SSLDomain:
    """Of a client that checks the certificates of servers."""
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(trusted))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
    return domain


def _is_current(link: Any) -> bool:
    """Whether it is not one that its task has replaced."""
    task = link.carried.task
    return bool(task.link is link.carried)


class _Timer(proton.Handler):
    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self._action = action

    def on_timer_task(self, event: Any) -> None:
        self._action()
