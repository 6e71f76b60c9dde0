"""Sends 1,000 messages to each address, and prints how many were accepted: `producer.py URL ADDRESS …`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

EACH = 1000
RATE_PER_S = 100
TICK_S = 0.1
SAY_S = 2.0


class Producer(MessagingHandler):  # type: ignore[misc]
    """One sender for each address. What is not accepted is sent again."""

    def __init__(self, url: str, addresses: list[str]) -> None:
        super().__init__()
        self.url = url
        self.left = Counter(dict.fromkeys(addresses, EACH))
        self.accepted = Counter(dict.fromkeys(addresses, 0))
        self.senders: list[Any] = []
        self.ticks = 0

    def on_start(self, event: Any) -> None:
        self.container = event.container
        connection = event.container.connect(self.url)
        self.senders = [event.container.create_sender(connection, address) for address in self.left]
        event.container.schedule(TICK_S, self)

    def on_timer_task(self, event: Any) -> None:
        for sender in self.senders:
            address = sender.target.address
            count = min(self.left[address], sender.credit, round(RATE_PER_S * TICK_S))
            for _ in range(count):
                sender.send(Message(body="a message", durable=False))
            self.left[address] -= max(count, 0)
        if self.ticks % round(SAY_S / TICK_S) == 0:
            self.say()
        self.ticks += 1
        event.container.schedule(TICK_S, self)

    def say(self) -> None:
        """Prints the accepted messages of each address, and whether these are all."""
        done = all(count == EACH for count in self.accepted.values())
        counts = ", ".join(f"{count} to {address}" for address, count in self.accepted.items())
        print(f"accepted: {counts}{' (finished)' if done else ''}", flush=True)

    def on_accepted(self, event: Any) -> None:
        self.accepted[event.sender.target.address] += 1

    def on_disconnected(self, event: Any) -> None:
        self.left = Counter({address: EACH - count for address, count in self.accepted.items()})

    def on_connection_closed(self, event: Any) -> None:
        sys.exit("the router closed the connection")  # Kubernetes starts the program again

    def on_rejected(self, event: Any) -> None:
        self.left[event.sender.target.address] += 1

    def on_released(self, event: Any) -> None:
        self.left[event.sender.target.address] += 1


if __name__ == "__main__":
    Container(Producer(sys.argv[1], sys.argv[2:])).run()
