"""A mesh with many edge routers under virtual time: start, addresses, the loss of an interior router."""

from __future__ import annotations

import time

from tests.simulation.full.clients import Crowd, Receiver, ReceiverPlan, Sender, SenderPlan
from tests.simulation.full.edges import ControlMessages, edge_faults, edge_network, home, unknown
from tests.simulation.full.ledger import Ledger
from tests.simulation.full.network import Network

LIMIT_S = 60.0
STEP_S = 0.01
MESSAGES = 5


class EdgeRun:
    """One run: its phases are to be called in this order. `client_s`: latency of the clients."""

    def __init__(self, seed: int, interiors: int, edges: int) -> None:
        self.network: Network = edge_network(seed, interiors, edges)
        self.ledger = Ledger(self.network)
        self.crowd = Crowd(self.network, self.ledger)
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self._keys: list[str] = []
        self.network.start()
        self.messages = ControlMessages(self.network)

    def started(self) -> float:
        """Until each edge router has an uplink and all interiors know where it is; virtual seconds."""
        return self.network.until(lambda: not edge_faults(self.network), LIMIT_S, STEP_S)

    def addresses_known(self, each: int) -> float:
        """So many consumers at each edge router, each with an address of its own; until all interiors know them."""
        network = self.network
        for name, edge in network.edges.items():
            client = self.crowd.client(edge)
            for number in range(each):
                address = f"{name}/{number}"
                self._keys.append(f"M0{address}")
                client.receiver(address, ReceiverPlan(credit=50, faithful=1.0))
        return network.until(lambda: not unknown(network, self._keys), LIMIT_S, STEP_S)

    def one_more_address(self) -> tuple[float, float]:
        """One consumer more at an edge: seconds until all interiors know, until a producer at another has credit."""
        network = self.network
        names = list(network.edges)
        producer = self.crowd.client(network.edges[names[1]]).sender("late", SenderPlan(1, settled=0.0))
        consumer = self.crowd.client(network.edges[names[0]])
        network.run(0.5)
        before = network.now
        consumer.receiver("late", ReceiverPlan(faithful=1.0))
        known = network.until(lambda: not unknown(network, ["M0late"]), LIMIT_S)
        network.until(lambda: producer().credit_at < LIMIT_S + before, LIMIT_S)
        return known, producer().credit_at - before

    def exchange(self, pace: float) -> float:
        """Each edge router's producer sends to a consumer at another; until the first message has arrived at each."""
        network = self.network
        names = list(network.edges)
        for number, name in enumerate(names):
            to = f"{names[number - 1]}/0"
            self.crowd.client(network.edges[name]).sender(to, SenderPlan(MESSAGES, settled=0.0, size=100.0, pace=pace))
        sent = self.ledger.sent
        return network.until(lambda: len({m.address for m in sent if m.receipts}) >= len(names), LIMIT_S, STEP_S)

    def killed(self, name: str) -> tuple[int, float, float]:
        """An interior router is killed: how many edges lose their uplink, the time until all have one again and all
        interiors know where, and until all addresses are known everywhere."""
        network = self.network
        lost = [edge for edge in network.edges.values() if home(edge) == name]
        network.routers[name].crash()
        moved = network.until(lambda: not edge_faults(network), LIMIT_S, STEP_S)
        return len(lost), moved, moved + network.until(lambda: not unknown(network, self._keys), LIMIT_S, STEP_S)

    def finished(self) -> list[str]:
        """All messages have their outcome; what of them is wrong."""
        network = self.network
        network.until(lambda: all(client.idle for client in self.crowd.clients.values()), LIMIT_S, STEP_S)
        return self.ledger.violations([network.now])


def main(seed: int, interiors: int, edges: int, addresses: int) -> None:
    """Print what each phase took."""
    before = time.process_time()
    run = EdgeRun(seed, interiors, edges)

    def report(text: str) -> None:
        nonlocal before
        used, before = time.process_time() - before, time.process_time()
        print(f"{text}; {run.messages.text()}; {used:.0f} s of CPU", flush=True)

    report(f"start: {run.started():.2f} virtual s")
    report(f"{addresses * edges} addresses: known everywhere after {run.addresses_known(addresses):.2f} virtual s")
    known, credit = run.one_more_address()
    report(f"one address more: known after {known * 1000:.0f} virtual ms, credit elsewhere after {credit * 1000:.0f}")
    report(f"first message of each edge to another: after {run.exchange(0.05):.2f} virtual s")
    victim = list(run.network.routers)[-1]  # the loss of the first ones could divide the mesh
    lost, moved, again = run.killed(victim)
    report(f"{victim} killed, {lost} edges moved after {moved:.2f} virtual s, addresses known after {again:.2f}")
    wrong = run.finished()
    report(f"{len(run.ledger.sent)} messages, {len(wrong)} wrong")
    for what in wrong[:5]:
        print(what)
