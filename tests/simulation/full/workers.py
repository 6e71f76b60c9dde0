"""Consumers that work on one message after the other, or on several at a time, and bursts of work for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.full.clients import ENCODED, Client, Crowd, Receiver, ReceiverPlan, Sender, SenderPlan
from tests.simulation.full.edges import edge_faults
from tests.simulation.full.ledger import ACCEPTED, Ledger
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.transfer import IncomingTransfer

BURST = 1e-6
"""Seconds between messages of a sender that has them all at once."""


IDLE_S = 30.0


class Worker(Receiver):
    """Settles each message after `delay` of its plan, a half more or less, and then begins with the next one.

    `at_once`: it works on so many at a time. `batch`: it settles so many together; fewer when it had nothing to do for
    IDLE_S.
    """

    batch = 1
    at_once = 1

    def take(self, transfer: IncomingTransfer) -> None:
        if not hasattr(self, "todo"):
            self.todo: deque[int] = deque()
            self.done: list[int] = []
            self.working = 0
        Receiver.take(self, transfer)

    def begin_answer(self, did: int) -> None:
        self.todo.append(did)
        self.work()

    def work(self) -> None:
        while self.todo and self.working < self.at_once:
            self.working += 1
            world = self.client.crowd.world
            world.after(self.plan.delay * world.rng.uniform(0.5, 1.5), self._finish, self.todo.popleft())

    def _finish(self, did: int) -> None:
        self.working -= 1
        self.done.append(did)
        if len(self.done) >= self.batch:
            self._settle()
        elif not self.todo:
            self.client.crowd.world.after(IDLE_S, self._settle_rest, self.done[-1])
        self.work()

    def _settle_rest(self, last: int) -> None:
        if self.done and self.done[-1] == last and not (self.todo or self.working):
            self._settle()

    def _settle(self) -> None:
        for did in self.done:
            receipt = self.open.pop(did, None)  # None: the link has ended
            if receipt is not None:
                receipt.outcome = ACCEPTED
                self.session.settle(did, ENCODED[ACCEPTED])
                self.return_credit()
        self.done.clear()
        self.client.crowd.wake()


class Shop:
    """Routers with workers of one address. `cables`: pairs of names with the latency. `without_demand`: names of
    routers that do not know demand. `edges`: names of edge routers with that of their interior router. `prepare` is
    called before the routers start."""

    def __init__(
        self,
        names: str,
        cables: dict[tuple[str, str], float],
        extra: str = "",
        without_demand: str = "",
        edges: dict[str, str] | None = None,
        prepare: Callable[[Network], object] = lambda _: None,
    ) -> None:
        self.network = Network()
        self.network.chunked = 0.0
        for name in names:
            self.network.router(name, extra)
        for (one, other), latency in cables.items():
            self.network.cable(one, other, latency)
        for name, interior in (edges or {}).items():
            self.network.edge(name, [interior]).extra = extra
        prepare(self.network)
        self.network.start()
        for name in without_demand:
            self.network.routers[name].router.mesh.engine.demand.known = False
        self.network.until(lambda: not (faults(self.network) or edge_faults(self.network)), 30.0, 0.1)
        self.ledger = Ledger(self.network)
        self.crowd = Crowd(self.network, self.ledger)
        self.workers: list[Any] = []

    def worker(
        self,
        router: str,
        delay: float,
        prefetch: int,
        address: str = "work",
        batch: int = 1,
        priority: int = 0,
        exclusive: bool = False,
        at_once: int = 1,
        says: bool = False,
    ) -> None:
        """A worker with its own connection. `says`: it tells its router how many messages it works on at a time."""
        client = self.crowd.client((self.network.routers | self.network.edges)[router])
        concurrency = at_once if says else 0
        plan = ReceiverPlan(prefetch, delay, 1.0, priority=priority, exclusive=exclusive, concurrency=concurrency)
        self.workers.append(client.attach(Worker, address, plan))
        self.network.run(0.2)
        self.workers[-1]().batch = batch
        self.workers[-1]().at_once = at_once

    def start(self, client: Client, count: int, address: str = "work") -> Sender:
        """Send so many messages as fast as the router takes them."""
        place = client.sender(address, SenderPlan(count, settled=0.0, pace=BURST))
        self.network.run(0.01)
        sender: Sender = place()
        return sender

    def burst(self, router: str, count: int, address: str = "work", limit: float = 600.0) -> float:
        """Have all that work done; seconds that it takes."""
        self.network.run(1.0)
        before = [worker().received for worker in self.workers]
        client = self.crowd.client(self.network.routers[router])
        sender = self.start(client, count, address)
        took = self.network.until(lambda: not (sender.left or sender.under_way), limit)
        self.shares = [worker().received - old for worker, old in zip(self.workers, before, strict=True)]
        assert sum(self.shares) == count
        assert {code for sent in self.ledger.sent for code in sent.outcomes} == {ACCEPTED}
        assert not self.ledger.unexpected
        client.close()
        return took
