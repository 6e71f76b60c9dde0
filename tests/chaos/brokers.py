"""Two Broker-J behind the routers of a run, which share a queue; one of them has the link routes and transactions."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.broker_j import BrokerJ
from tests.brokers.process import PASSWORD, USER
from tests.chaos.relay import Relay
from tests.chaos.workload import DEALS, QUEUE, ROUTED
from tests.kit.process import section

PLACES = {"broker-1": "C", "broker-2": "A"}
"""The router of each broker."""
PREFIX = "routed"
COMMON = section("address", prefix="queue", waypoint=True)


class Brokers:
    """The brokers by their names, each behind a wire of the same name, on stores that outlive them."""

    def __init__(self, folder: Path, relay: Relay) -> None:
        self.all = {name: BrokerJ(folder / name, durable=True) for name in PLACES}
        for name, broker in self.all.items():
            relay.wire(name, broker.port)
        self._relay = relay

    def configuration(self, router: str) -> str:
        """What a router needs for its brokers."""
        text = COMMON
        for name, place in PLACES.items():
            if place == router:
                text += self._connector(name) + _links(name)
        if router != PLACES["broker-1"]:
            text += _routes("broker-1")  # so that it knows of them while the broker is away
        return text

    def _connector(self, name: str) -> str:
        return section(
            "connector", name=name, role="route-container", host="127.0.0.1", port=self._relay.wires[name].port,
            saslMechanisms="PLAIN", saslUsername=USER, saslPassword=PASSWORD,
        )  # fmt: skip

    def start(self) -> None:
        """Start them, and make their queues."""
        for broker in self.all.values():
            broker.launch()
        for name, broker in self.all.items():
            broker.wait_ready()
            for queue in (QUEUE, ROUTED, DEALS) if name == "broker-1" else (QUEUE,):
                broker.create_queue(queue)

    def kill(self) -> None:
        """End them."""
        for broker in self.all.values():
            broker.kill()


def _links(broker: str) -> str:
    text = "".join(
        section("autoLink", name=f"{broker}.{direction}", address=QUEUE, direction=direction, connection=broker)
        for direction in ("in", "out")
    )
    return text + (_routes(broker) if broker == "broker-1" else "")


def _routes(broker: str) -> str:
    return section("linkRoute", prefix=PREFIX, connection=broker, direction="both") + section(
        "linkRoute", prefix="$coordinator", connection=broker, direction="in"
    )
