"""A setup for link routes: routers in a line, the last one with a broker, a client at the first one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.simulation.full.containers import Broker, Party, PartyLink
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.states import OPENED
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import validate_create

ROUTE = "linkRoute {\nprefix: b2\ndirection: %s\nconnection: broker\n}\n"
BOTH = ROUTE % "in" + ROUTE % "out"


class Scene:
    """Routers in a line, the last one with a broker; a client at the first one."""

    def __init__(self, names: str = "A", extra: str = BOTH, others: str = "", chunked: float = 0.1) -> None:
        network = self.network = Network()
        network.chunked = chunked
        for name in names:
            network.router(name, extra if name == names[-1] else others)
        for one, other in pairwise(names):
            network.cable(one, other)
        self.first = network.routers[names[0]]
        self.last = network.routers[names[-1]]
        self.broker = Broker(network)
        self.broker.connector(self.last)
        network.start()
        network.until(lambda: not faults(network) and bool(self.broker.conns), 2.0)
        network.run(0.2)
        self.client, self.session = self.connect("client")

    def connect(self, name: str, router: SimRouter | None = None) -> tuple[Party, Any]:
        client = Party(self.network, name)
        conn = client.dial(router or self.first)
        self.network.until(lambda: conn.state == OPENED, 1.0)
        return client, conn.open_session()

    def until(self, condition: Any, limit: float = 2.0) -> None:
        self.network.until(condition, limit)

    def sender(self, address: str | None = "b2.queue", **over: Any) -> PartyLink:
        link = self.client.sender(self.session, address, **over)
        self.until(lambda: link.link.credit > 0 or link.gone)
        return link

    def receiver(self, address: str = "b2.queue", credit: int = 10, **over: Any) -> PartyLink:
        link = self.client.receiver(self.session, address, credit, **over)
        self.until(lambda: link.attach is not None)
        return link


def statuses(router: SimRouter) -> list[str]:
    adapter = router.router.agent.adapters["router.config.linkRoute"]
    return [row["operStatus"] for row in adapter.rows(router.world.now)]


def validated(**attributes: Any) -> dict[str, Any]:
    return validate_create(entity_type("linkRoute"), attributes)
