"""How soon clients with messages under way are spread over routers that were added, and what it costs their messages.

    python -m tests.bench.balance --clients 300 --under-way 10 --work 2
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.kit.crowd import Crowd, Traffic
from tests.kit.local_mode import DEADLINE_S, Up, mesh_up
from tests.kit.waiting import wait_until

MANIFEST = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 3
  listeners: [{name: amqp, port: 5672}]
"""
BEFORE, AFTER = 3, 5
ALIKE = 1.3
OLDER_S = 8.0
"""Clients are older than the added routers by so much at least, as ages are whole seconds."""


def measure(up: Up, crowd: Crowd, seconds: float) -> None:
    """Add routers, and print each five seconds how the clients are spread."""
    wait_until(lambda: len(crowd.places) == crowd.count, DEADLINE_S, "all are connected")
    crowd.begin()
    connected = time.monotonic()
    wait_until(lambda: time.monotonic() > connected + OLDER_S, what="clients that are older than the added routers")
    print(f"{len(crowd.accepted) / OLDER_S:.0f} messages a second")
    up.edit(f"size: {BEFORE}", f"size: {AFTER}")
    up.wait_for(f"mesh is ready: {AFTER} routers")
    began = shown = time.monotonic()
    balanced = 0.0
    while time.monotonic() < began + seconds:
        if time.monotonic() >= shown:
            print(f"{shown - began:4.0f} s: {sum(crowd.moves.values())} moved, clients of routers: {crowd.spread()}")
            shown += 5
        alike = len(crowd.places) == crowd.count and crowd.largest() <= ALIKE * crowd.count / AFTER
        if not balanced and alike:
            balanced = time.monotonic() - began
        time.sleep(0.05)
    crowd.finish()
    wait_until(crowd.settled, DEADLINE_S, "all messages are accepted")
    lost = [message for message in crowd.accepted if not crowd.received[message]]
    twice = sum(times > 1 for times in crowd.received.values())
    print(f"no router with more than {ALIKE} times its share after {balanced:.1f} s" if balanced else "not balanced")
    print(f"{sum(crowd.moves.values())} moved, {sum(times > 1 for times in crowd.moves.values())} of them twice")
    print(f"{len(crowd.accepted)} messages accepted, {len(lost)} lost, {twice} received twice, {crowd.cut} cut off")


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.balance", description=__doc__)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--under-way", type=int, default=10, help="messages of each client that are always under way")
    parser.add_argument("--work", type=float, default=2.0, help="seconds until a receiver accepts a message")
    parser.add_argument("--gap", type=float, default=0.0, help="seconds until a sender sends the next one")
    parser.add_argument("--alone", action="store_true", help="each client sends to itself, not to the next one")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    traffic = Traffic(asked.under_way, asked.work, asked.gap, ring=not asked.alone)
    with tempfile.TemporaryDirectory() as folder, mesh_up(Path(folder), MANIFEST, "mesh is ready: 3 routers") as up:
        with Crowd(asked.clients, lambda: up.urls("mesh", AFTER), traffic) as crowd:
            measure(up, crowd, asked.seconds)


if __name__ == "__main__":
    main()
