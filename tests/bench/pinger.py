"""`python -m tests.bench.pinger PORT [PORT]`: sends a message to the router at the second port and back, each
millisecond, until its standard input ends. A port is written by `secured.port_text`.

Then it prints all round trips as JSON: pairs of the monotonic time at which one was due, and seconds from that time to
its answer. Those that would have been due while one was still under way are counted as if they had waited with it: a
router that stands still for 100 ms so shows as a hundred late trips, not as a single one.
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Final

from tests.bench.rawclient import ATTACH, FLOW, TRANSFER, RawClient
from tests.bench.secured import port_of
from tests.kit import frames

PERIOD_S: Final = 0.001
MANY: Final = 2**31 - 1


class Player:
    """One side: it receives at an address of its own and sends to that of the other side."""

    def __init__(self, port: int, here: str) -> None:
        self.client = RawClient(port, f"ping-{here}")
        self.client.send(frames.attach_receiver("in", 0, address=f"ping.{here}"))
        self.client.send(frames.credit(MANY, 0, incoming_window=MANY))
        self.client.wait(ATTACH, 1)
        self._sent = 0

    def aim(self, there: str) -> None:
        """Attach the sender, once the other side receives."""
        self.client.send(frames.attach_sender("out", 1, address=f"ping.{there}"))
        self.client.wait(FLOW, 1)

    def send(self) -> None:
        """One message, settled."""
        self.client.send(frames.transfer(self._sent, handle=1, settled=True))
        self._sent += 1

    def receive(self) -> None:
        """Wait for the next one."""
        self.client.wait(TRANSFER, self.client.seen[TRANSFER] + 1)


def main(port: int, there: int) -> None:
    """Ping until nobody wants it any more."""
    ping, pong = Player(port, "ping"), Player(there, "pong")
    ping.aim("pong")
    pong.aim("ping")
    trips: list[tuple[float, float]] = []
    due = time.monotonic()
    sys.stdout.write("\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        ping.send()
        pong.receive()
        pong.send()
        ping.receive()
        now = time.monotonic()
        while due <= now:
            trips.append((due, now - due))
            due += PERIOD_S
    json.dump(trips, sys.stdout)


if __name__ == "__main__":
    main(port_of(sys.argv[1]), port_of(sys.argv[-1]))
