"""Clients that reconnect to another router when theirs drains, like clients behind a Kubernetes Service."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.full.clients import Client, Crowd, ReceiverPlan, Sender, SenderPlan
from tests.simulation.full.network import SimRouter

RETRY_S = 0.02


class Migrant:
    """A client with one link. `home`: the router it is connected to, the next of `routers` when that one refuses."""

    def __init__(self, crowd: Crowd, routers: Sequence[SimRouter], attach: Callable[[Client], object]) -> None:
        self.crowd = crowd
        self.routers = list(routers)
        self.attach = attach
        self.moves = 0
        self.client = self._connect()
        crowd.world.after(RETRY_S, self._look)

    @property
    def home(self) -> SimRouter:
        return self.routers[0]

    def _connect(self) -> Client:
        client = self.crowd.client(self.routers[0])
        if not client.gone:
            self.attach(client)
        return client

    def _look(self) -> None:
        if self.client.gone:
            self.moves += 1
            self.routers.append(self.routers.pop(0))
            self.client = self._connect()
        self.crowd.world.after(RETRY_S, self._look)


class MovingSender(Migrant):
    """Sends its messages until each one was accepted, those without an answer or released once more."""

    def __init__(self, crowd: Crowd, routers: Sequence[SimRouter], address: str, plan: SenderPlan) -> None:
        self.address = address
        self.plan = plan
        self.links: list[Callable[[], Sender]] = []
        super().__init__(crowd, routers, self._send)

    def _send(self, client: Client) -> None:
        left = self.plan.count - self.sent
        if left > 0:
            plan = SenderPlan(left, self.plan.multicast, self.plan.settled, self.plan.size, self.plan.pace)
            self.links.append(client.sender(self.address, plan))

    @property
    def sent(self) -> int:
        """Messages that were handed to a router."""
        return sum(link().plan.count - link().left for link in self.links if link_is_there(link))


class MovingReceiver(Migrant):
    """Takes messages wherever it is."""

    def __init__(self, crowd: Crowd, routers: Sequence[SimRouter], address: str, plan: ReceiverPlan) -> None:
        super().__init__(crowd, routers, lambda client: client.receiver(address, plan))


def link_is_there(link: Callable[[], Sender]) -> bool:
    """Whether the link of a client that was to attach it has come to be."""
    try:
        link()
    except IndexError:
        return False
    return True
