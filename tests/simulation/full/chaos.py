"""Random clients on a random mesh while links fail, routers die and clients come and go."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.simulation.full.clients import Client, Crowd, Receiver, ReceiverPlan, Sender, SenderPlan
from tests.simulation.full.ledger import Ledger
from tests.simulation.full.network import Cable, Network, SimRouter
from tests.simulation.full.oracle import faults, path_changes

DISTRIBUTIONS = ("closest", "balanced", "multicast")
ADDRESSES = "".join(f"address {{\nprefix: {name}\ndistribution: {name}\n}}\n" for name in DISTRIBUTIONS)
"""Configuration: an address `closest/x` is of distribution closest, and so on."""


@dataclass(frozen=True)
class Weather:
    """How often it happens in a virtual second: cables cut, dropped, silenced, routers killed, clients replaced."""

    cut: float = 0.0
    drop: float = 0.0
    silence: float = 0.0
    crash: float = 0.0
    client: float = 0.0
    outage_s: float = 0.3
    """Mean time until a cut cable or a dead router is back."""


class Chaos:
    """The workload of one run. `names`: addresses for each distribution; `priorities`: of consumers."""

    def __init__(
        self, network: Network, seed: int, names: int = 2, size: float = 100.0, priorities: tuple[int, ...] = ()
    ) -> None:
        self.network = network
        self.rng = random.Random(seed)
        self.ledger = Ledger(network)
        self.crowd = Crowd(network, self.ledger)
        self.clients: list[Client] = []
        self.addresses = [f"{kind}/{number}" for kind in DISTRIBUTIONS for number in range(names)]
        self.size = size
        self.priorities = priorities
        self.stormy = False

    def violations(self, faultless: bool = False) -> list[str]:
        """What became of messages and should not have."""
        return self.ledger.violations(path_changes(self.network), faultless)

    # ---- clients
    def place(self) -> SimRouter:
        return self.rng.choice([router for router in self.network.routers.values() if router.alive])

    def join(self, client: Client) -> Client:
        self.clients.append(client)
        return client

    def new_client(self) -> Client:
        frame = self.rng.choice((512, 4096, 65536))
        return self.join(self.crowd.client(self.place(), frame, self.rng.uniform(0.0001, 0.001)))

    def add_receiver(self, address: str) -> None:
        rng = self.rng
        plan = ReceiverPlan(rng.choice((1, 5, 50, 300)), rng.choice((0.0005, 0.003, 0.03)), second=rng.random() < 0.2)
        if self.priorities:
            plan = replace(plan, priority=rng.choice(self.priorities))
        self.new_client().receiver(address, plan)

    def add_sender(self, address: str, count: int) -> None:
        multicast = address.startswith("multicast")
        settled = self.rng.choice((0.0, 0.3, 1.0))
        size, pace = self.rng.choice((10.0, self.size)), self.rng.choice((0.001, 0.004))
        plan = SenderPlan(count, multicast, settled, size, pace)
        self.new_client().sender(address, plan, anonymous=self.rng.random() < 0.3)

    def populate(self, receivers: int, senders: int, count: int) -> None:
        """For each address so many receivers and senders, the latter with `count` messages each."""
        for address in self.addresses:
            for _ in range(receivers):
                self.add_receiver(address)
            for _ in range(senders):
                self.add_sender(address, count)

    # ---- weather
    def storm(self, weather: Weather, seconds: float) -> None:
        """Let things happen for this long."""
        self.stormy = True
        for rate, what in (
            (weather.cut, self._cut),
            (weather.drop, self._drop),
            (weather.silence, self._silence),
            (weather.crash, self._crash),
            (weather.client, self._replace),
        ):
            if rate:
                self._next(rate, what, weather)
        self.network.run(seconds)
        self.stormy = False

    def _next(self, rate: float, what: object, weather: Weather) -> None:
        self.network.after(self.rng.expovariate(rate), self._happen, rate, what, weather)

    def _happen(self, rate: float, what: object, weather: Weather) -> None:
        if self.stormy:
            what(self.rng.expovariate(1 / weather.outage_s))  # type: ignore[operator]
            self._next(rate, what, weather)

    def _cable(self) -> Cable:
        return self.rng.choice(self.network.cables)

    def _cut(self, outage: float) -> None:
        cable = self._cable()
        cable.cut()
        self.network.after(outage, cable.mend)

    def _drop(self, outage: float) -> None:
        self._cable().drop()

    def _silence(self, outage: float) -> None:
        cable = self._cable()
        cable.silence()
        self.network.after(outage * 10, cable.mend)

    def _crash(self, outage: float) -> None:
        router = self.place()
        if sum(other.alive for other in self.network.routers.values()) > 2:
            router.crash()
            self.network.after(outage, router.start)

    def _replace(self, outage: float) -> None:
        """A client leaves, one way or the other, and one of its kind comes."""
        here = [client for client in self.clients if not client.gone and client.links]
        if not here:
            return
        client = self.rng.choice(here)
        self.clients.remove(client)
        link = client.links[0]
        client.kill() if self.rng.random() < 0.5 else client.close()
        if isinstance(link, Receiver):
            self.add_receiver(link.address)
        elif isinstance(link, Sender):
            self.add_sender(link.to, max(link.left, 5))

    # ---- the end
    def calm_down(self, limit: float = 60.0) -> None:
        """Until the mesh is whole again, then until every message that can be sent has its outcome."""
        network = self.network
        network.until(lambda: all(router.alive for router in network.routers.values()), limit, 0.1)
        network.until(lambda: all(cable.works() for cable in network.cables) and not faults(network), limit, 0.1)
        for address in self.addresses:
            self.add_receiver(address)
        network.until(lambda: all(client.idle for client in self.clients), limit, 0.1)

    def all_leave(self) -> None:
        """Every client goes, half of them without a word."""
        for client in list(self.crowd.clients.values()):
            client.kill() if self.rng.random() < 0.5 else client.close()
