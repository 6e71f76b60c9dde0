"""Receives from each address, and accepts: `consumer.py URL ADDRESS …`."""

from __future__ import annotations

import sys
from typing import Any

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Consumer(MessagingHandler):  # type: ignore[misc]
    """One receiver for each address; the library accepts what arrives, and connects again after a failure."""

    def __init__(self, url: str, addresses: list[str]) -> None:
        super().__init__(prefetch=100)
        self.url = url
        self.addresses = addresses
        self.received = 0

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self.url)
        for address in self.addresses:
            event.container.create_receiver(connection, address)

    def on_connection_opened(self, event: Any) -> None:
        print(f"connected to {event.connection.remote_container}", flush=True)

    def on_connection_closed(self, event: Any) -> None:
        sys.exit("the router closed the connection")  # Kubernetes starts the program again

    def on_message(self, event: Any) -> None:
        self.received += 1
        if self.received % 100 == 0:
            print(f"{self.received} received", flush=True)


if __name__ == "__main__":
    Container(Consumer(sys.argv[1], sys.argv[2:])).run()
