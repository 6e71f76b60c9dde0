"""A broker with one queue of work, to which routers have incoming autolinks."""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.simulation.full.containers import Broker, PartyLink
from tests.simulation.full.network import Network
from tests.simulation.full.workers import Shop
from waymesh_amqp.message import Message, encode_message

AUTOLINK = "autoLink {\naddress: work\ndirection: in\nphase: 0\nconnection: broker\n}\n"
WAYPOINT = AUTOLINK.replace("phase: 0\n", "") + "address {\nprefix: work\nwaypoint: yes\n}\n"


class WorkBroker(Broker):
    """Its queue gives messages to the consumers with credit in turn, as brokers do."""

    def __init__(self, network: Network) -> None:
        Broker.__init__(self, network)
        self.shop: Any = None
        self.next_one = 0
        self.handed = 0
        self.most = 0
        """Most deliveries at once that it has given and that are not settled."""

    @property
    def queue(self) -> deque[bytes]:
        """What is left."""
        return self.queues.setdefault("work", deque())

    def fill(self, count: int) -> None:
        """Put work into the queue."""
        for _ in range(count):
            sent = self.shop.ledger.new("work", False, False)
            self.queue.append(encode_message(Message(body=sent.number.to_bytes(8, "big"), body_kind="data")))
        self.pump()

    def consumers(self) -> list[PartyLink]:
        return [party for party in self.links if party.link.is_sender and not party.gone and party.link.attached]

    def pump(self) -> None:
        consumers = self.consumers()
        while self.queue:
            n = len(consumers)
            order = [consumers[(self.next_one + i) % n] for i in range(n)]
            ready = next((party for party in order if party.link.ready()), None)
            if ready is None:
                return
            self.next_one = consumers.index(ready) + 1
            self.handed += 1
            self.most = max(self.most, self.unsettled())
            self.send(ready, self.queue.popleft())

    def on_credit(self, link: Any) -> None:
        self.pump()
        link.finish_drain()

    def unsettled(self) -> int:
        """Deliveries that it waits for."""
        return self.handed - len(self.states)


def queue_shop(
    names: str,
    cables: dict[tuple[str, str], float],
    served: str,
    extra: str = "",
    without_demand: str = "",
    latency: float = 0.001,
    edges: dict[str, str] | None = None,
    autolink: str = AUTOLINK,
) -> tuple[Shop, WorkBroker]:
    """Routers, of which those in `served` have an autolink to a broker. `latency`: one way, seconds. `edges`: edge
    routers with the name of their interior router. `autolink`: part of the configuration of those in `served`."""
    made: list[WorkBroker] = []

    def prepare(network: Network) -> None:
        broker = WorkBroker(network)
        made.append(broker)
        for name in served:
            router = (network.routers | network.edges)[name]
            router.extra += autolink
            broker.connector(router, extra=extra)
            router.cables["broker"].latency = latency

    shop = Shop(names, cables, without_demand=without_demand, edges=edges, prepare=prepare)
    made[0].shop = shop
    return shop, made[0]
