"""Numbered messages from a client on one router to a client on another, and a count of those that arrived.

The two clients are ordinary AMQP 1.0 clients (python-qpid-proton) with separate connections. They use its events and
raw payloads instead of its MessagingHandler, which costs several times as much per message.
"""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass, field

from proton import Delivery, Event, Handler, Link, Message, Receiver, Sender
from proton.reactor import AtLeastOnce, AtMostOnce, Container

WINDOW = 1000
"""Credit of the receiver, and the maximum number of unsettled messages."""
TOP_UP = WINDOW // 4
IDLE_TIMEOUT_S = 10.0
HEAD = Message(body=bytes(8)).encode()[:-8]
"""The encoded message up to its body, which is eight bytes with its number."""


@dataclass
class Account:
    """The sent messages and their outcomes. `longest_gap_s` is the longest time without an arrival."""

    sent: int = 0
    settled: int = 0
    again: int = 0
    received: int = 0
    duplicated: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    longest_gap_s: float = 0.0
    error: str = ""
    seen: set[int] = field(default_factory=set)

    def arrived(self, number: int, now: float) -> None:
        """A message has arrived."""
        if self.last_at:
            self.longest_gap_s = max(self.longest_gap_s, now - self.last_at)
        self.first_at = self.first_at or now
        self.last_at = now
        self.received += 1
        if number in self.seen:
            self.duplicated += 1
        self.seen.add(number)

    @property
    def lost(self) -> int:
        """Number of sent messages that have not arrived."""
        return self.sent - len(self.seen)

    @property
    def rate(self) -> float:
        """Messages per second."""
        seconds = self.last_at - self.first_at
        return self.received / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to send: source, destination, number (or duration), maximum rate, pre-settled or not."""

    sender_url: str
    receiver_url: str
    address: str
    count: int
    presettled: bool = False
    rate: float = 0.0


class Traffic(Handler):
    """Carries out an order. `run` blocks; other threads may read `account` meanwhile; `enough` ends an order early."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self.order = order
        self.account = Account()
        self.enough = threading.Event()
        self.done = threading.Event()
        self._waiting: list[int] = []
        self._under_way: dict[str, int] = {}
        self._ended = False
        self._moved_at = self._began = time.monotonic()
        self._taken = 0

    def run(self) -> Account:
        """Send all messages, wait until all have arrived or no more arrive; returns the account."""
        self._container = Container(self)
        try:
            self._container.run()
        finally:
            self.done.set()
        return self.account

    # --- connections and links ---

    def on_reactor_init(self, event: Event) -> None:
        """Attach the receiver first: the sender gets credit when the mesh knows about the consumer."""
        container, order = self._container, self.order
        self._receiving = container.connect(order.receiver_url, allowed_mechs="ANONYMOUS", reconnect=False)
        self._sending = container.connect(order.sender_url, allowed_mechs="ANONYMOUS", reconnect=False)
        self._receiver: Receiver = container.create_receiver(self._receiving, order.address)
        self._receiver.flow(WINDOW)
        kind = AtMostOnce() if order.presettled else AtLeastOnce()
        self._sender: Sender = container.create_sender(self._sending, order.address, options=kind)
        container.schedule(0.1, self)

    def on_timer_task(self, event: Event) -> None:
        """End an order without progress; send the next messages if a rate is set."""
        if self._finished():
            return
        if time.monotonic() - self._moved_at > IDLE_TIMEOUT_S:
            self._end(f"nothing has moved for {IDLE_TIMEOUT_S:g} s")
            return
        self._send()
        self._container.schedule(0.02 if self.order.rate else 0.25, self)

    def on_transport_error(self, event: Event) -> None:
        """A connection failed."""
        self._end(f"connection lost: {event.transport.condition if event.transport else ''}")

    def on_connection_remote_close(self, event: Event) -> None:
        """A router closed a connection."""
        if event.connection is not None and not self._ended:
            self._end(f"connection closed: {event.connection.remote_condition}")

    def on_link_remote_close(self, event: Event) -> None:
        """A router detached a link."""
        if event.link is not None and not self._ended:
            self._end(f"link detached: {event.link.remote_condition}")

    # --- messages ---

    def on_link_flow(self, event: Event) -> None:
        """The sender has credit."""
        self._send()

    def on_delivery(self, event: Event) -> None:
        """A message has arrived, or the outcome of one."""
        delivery = event.delivery
        if delivery is None or self._ended:
            return
        link = delivery.link
        if not link.is_receiver:
            self._on_outcome(delivery)
        elif delivery.readable and not delivery.partial:
            self._on_message(link, delivery)
        self._finished()

    def _on_message(self, link: Link, delivery: Delivery) -> None:
        assert isinstance(link, Receiver)
        data = link.recv(delivery.pending)
        link.advance()
        self._moved_at = time.monotonic()
        self.account.arrived(struct.unpack(">Q", (data or b"")[-8:])[0], self._moved_at)
        if not self.order.presettled:
            delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        self._taken += 1
        if self._taken >= TOP_UP:
            link.flow(self._taken)
            self._taken = 0
            self._send()

    def _on_outcome(self, delivery: Delivery) -> None:
        """Send a message that was not accepted again."""
        if not delivery.settled:
            return
        number = self._under_way.pop(delivery.tag, None)
        accepted = delivery.remote_state == Delivery.ACCEPTED
        delivery.settle()
        if number is None:
            return
        self._moved_at = time.monotonic()
        if accepted:
            self.account.settled += 1
        else:
            self.account.again += 1
            self._waiting.append(number)
            self._send()

    def _send(self) -> None:
        credit = self._sender.credit
        while credit > 0 and self._may_send():
            credit -= 1
            number = self._waiting.pop() if self._waiting else self._next()
            delivery = self._sender.delivery(self._sender.delivery_tag())
            self._sender.stream(HEAD + struct.pack(">Q", number))
            self._sender.advance()
            if self.order.presettled:
                delivery.settle()
            else:
                self._under_way[delivery.tag] = number

    def _next(self) -> int:
        self.account.sent += 1
        return self.account.sent - 1

    def _may_send(self) -> bool:
        if self._waiting:
            return True
        account, order = self.account, self.order
        if account.sent >= order.count or self.enough.is_set() or account.sent - len(account.seen) >= WINDOW:
            return False
        return not order.rate or account.sent < (time.monotonic() - self._began) * order.rate

    def _finished(self) -> bool:
        account, order = self.account, self.order
        all_sent = account.sent >= order.count or self.enough.is_set()
        all_settled = order.presettled or not (self._under_way or self._waiting)
        if all_sent and all_settled and not account.lost:
            self._end("")
        return self._ended

    def _end(self, error: str) -> None:
        if not self._ended:
            self._ended = True
            self.account.error = error
            self._sending.close()
            self._receiving.close()
