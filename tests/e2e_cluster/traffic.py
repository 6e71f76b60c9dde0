"""A client that lives in a pod: sends numbered messages, or receives them, through any reconnect, and counts.

    python traffic.py send --url amqp://mesh:5672 --address orders --rate 300 [--count N]
    python traffic.py receive --url amqp://mesh:5672 --address orders [--delay S]

It runs until SIGTERM (or until --count messages are accepted). A sender goes on until it has sent --at-least messages,
then waits for what is unsettled. Every message
that was not accepted is sent again, the same number. The last line on stdout is a JSON object: a sender's with
`accepted` (all numbers below it were), `resent`, `connections`; a receiver's with `ranges` ([first, last] pairs of the
numbers received), `received`, `duplicates`, `connections`. `longest_gap` is the longest time in seconds without an
accepted or received message after the first. All settings of the library have their default values: no heartbeats
(--heartbeat SECONDS has some), and its own delays between tries to connect.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from proton import Message
from proton.handlers import IOHandler, MessagingHandler
from proton.reactor import Container

TICK_S = 0.02
GIVE_UP_S = 60.0
"""How long a sender that was told to stop waits for outcomes."""


class Transports(IOHandler):
    """As in tests/kit/crowd.py, which a pod does not have: proton 0.40 fails when the timer of a connection is due in
    the moment in which the connection ends."""

    def on_selectable_expired(self, event: Any) -> None:
        if event.selectable._transport is not None:
            super().on_selectable_expired(event)


class Client(MessagingHandler):
    """What both sides share: the connection, the clock, the end."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(auto_accept=False, prefetch=0, auto_settle=True)
        self.options = options
        self.connections = 0
        self.stopping: float | None = None
        self.connection: Any = None
        self.moved_at = 0.0
        self.longest_gap = 0.0

    def moved(self) -> None:
        """A message was accepted or received."""
        now = time.monotonic()
        if self.moved_at:
            self.longest_gap = max(self.longest_gap, now - self.moved_at)
        self.moved_at = now

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connect(event.container)
        event.container.schedule(TICK_S, self)

    def connect(self, container: Any) -> None:
        """Connect, and attach the link."""
        self.connection = container.connect(self.options.url, heartbeat=self.options.heartbeat or None)
        self.attach(container)

    def attach(self, container: Any) -> None:
        raise NotImplementedError

    def on_connection_opened(self, event: Any) -> None:
        self.connections += 1
        print(f"connected to {event.connection.remote_container}", file=sys.stderr, flush=True)

    def on_timer_task(self, event: Any) -> None:
        if self.tick(time.monotonic()):
            self.container.stop()
            return
        event.container.schedule(TICK_S, self)

    def tick(self, now: float) -> bool:
        """Called often; True ends the client."""
        raise NotImplementedError

    def stop(self, *_: object) -> None:
        """SIGTERM: come to an end."""
        self.stopping = time.monotonic()

    # A link that is refused or detached (the router is on its way out) is tried again with the next connection.
    def on_link_error(self, event: Any) -> None:
        self.lost_link(event)

    def on_link_closed(self, event: Any) -> None:
        self.lost_link(event)

    def lost_link(self, event: Any) -> None:
        event.link.close()
        event.connection.close()

    def on_connection_error(self, event: Any) -> None:
        print(f"closed: {event.connection.remote_condition}", file=sys.stderr, flush=True)

    def on_connection_closed(self, event: Any) -> None:
        self.again(event)

    def on_disconnected(self, event: Any) -> None:
        print("disconnected", file=sys.stderr, flush=True)

    def again(self, event: Any) -> None:
        """The peer closed in order: the library reconnects only after failures, so start anew."""
        event.connection.close()
        self.connect(event.container)


class Sender(Client):
    """Numbers 0, 1, 2 … at a rate; one that was not accepted goes again."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.sender: Any = None
        self.next = 0
        self.again_first: deque[int] = deque()
        self.pending: dict[int, Any] = {}
        self.accepted = 0
        self.resent = 0
        self.started = time.monotonic()
        self.allowance = 0.0
        self.last = self.started

    def attach(self, container: Any) -> None:
        self.sender = container.create_sender(self.connection, self.options.address)
        self.give_back(list(self.pending))

    def give_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.pending.pop(number, None)
            self.again_first.append(number)

    def tick(self, now: float) -> bool:
        self.allowance = min(self.allowance + (now - self.last) * self.options.rate, self.options.rate)
        self.last = now
        self.send_what_may_go()
        count = self.options.count
        if count and self.accepted >= count:
            return True
        if self.stopping is None or self.sends_more():
            return False
        return (not self.pending and not self.again_first) or now - self.stopping > GIVE_UP_S

    def sends_more(self) -> bool:
        """Whether new numbers are due."""
        if self.options.count:
            return bool(self.next < self.options.count)
        return self.stopping is None or bool(self.next < self.options.at_least)

    def send_what_may_go(self) -> None:
        while self.sender is not None and self.sender.credit > 0 and self.allowance >= 1:
            if self.again_first:
                number = self.again_first.popleft()
                self.resent += 1
            elif self.sends_more():
                number = self.next
                self.next += 1
            else:
                return
            self.allowance -= 1
            delivery = self.sender.send(Message(id=number, durable=True, body={"number": number}))
            delivery.number = number
            self.pending[number] = delivery

    def on_sendable(self, event: Any) -> None:
        self.send_what_may_go()

    def on_accepted(self, event: Any) -> None:
        if self.pending.get(event.delivery.number) == event.delivery:
            del self.pending[event.delivery.number]
            self.accepted += 1
            self.moved()

    def on_released(self, event: Any) -> None:
        self.refused(event)

    def on_rejected(self, event: Any) -> None:
        self.refused(event)

    def refused(self, event: Any) -> None:
        if self.pending.get(event.delivery.number) == event.delivery:
            self.give_back([event.delivery.number])

    def on_disconnected(self, event: Any) -> None:
        super().on_disconnected(event)
        for delivery in self.pending.values():
            delivery.abort()  # what the library has not written yet it would send by the next connection, as we do
        self.give_back(list(self.pending))

    def report(self) -> dict[str, Any]:
        left = len(self.pending) + len(self.again_first)
        return {
            "accepted": self.accepted,
            "sent": self.next,
            "left": left,
            "resent": self.resent,
            "connections": self.connections,
            "longest_gap": round(self.longest_gap, 3),
        }


class Receiver(Client):
    """Takes and accepts all that comes."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.receiver: Any = None
        self.numbers: set[int] = set()
        self.duplicates = 0
        self.late: deque[tuple[float, Any]] = deque()

    def attach(self, container: Any) -> None:
        self.receiver = container.create_receiver(self.connection, self.options.address)

    def on_link_opened(self, event: Any) -> None:
        event.link.flow(self.options.credit - event.link.credit)

    def on_message(self, event: Any) -> None:
        self.moved()
        number = int(event.message.id)
        self.duplicates += number in self.numbers
        self.numbers.add(number)
        self.late.append((time.monotonic() + self.options.delay, event.delivery))
        if not self.options.delay:
            self.settle_due(time.monotonic())

    def settle_due(self, now: float) -> None:
        while self.late and self.late[0][0] <= now:
            _, delivery = self.late.popleft()
            link = delivery.link
            self.accept(delivery)
            if link is not None:
                link.flow(1)

    def on_disconnected(self, event: Any) -> None:
        super().on_disconnected(event)
        self.late.clear()

    def tick(self, now: float) -> bool:
        self.settle_due(now)
        return self.stopping is not None

    def report(self) -> dict[str, Any]:
        return {
            "received": len(self.numbers),
            "ranges": ranges(sorted(self.numbers)),
            "duplicates": self.duplicates,
            "connections": self.connections,
            "longest_gap": round(self.longest_gap, 3),
        }


def ranges(numbers: list[int]) -> list[list[int]]:
    """Sorted numbers as [first, last] pairs."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["send", "receive"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--at-least", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--heartbeat", type=float, default=0.0)
    parser.add_argument("--credit", type=int, default=100)
    options = parser.parse_args()
    client: Sender | Receiver = Sender(options) if options.what == "send" else Receiver(options)
    signal.signal(signal.SIGTERM, client.stop)
    Container(client, global_handler=Transports()).run()
    print(json.dumps(client.report()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
