"""Edge routers behind a few interior routers: what each of them must know, and the messages that this takes."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import random_network

FULL_MESH = 5
"""Up to so many interior routers all have links to each other."""
OPCODE = re.compile(rb"opcode\xa1.([A-Z]+)")


def edge_network(seed: int, interiors: int, edges: int) -> Network:
    """Each edge router has connectors to two interior routers, in turn for all."""
    if interiors > FULL_MESH:
        network = random_network(seed, interiors, interiors * 3 // 10)
    else:
        network = Network(seed)
        for number in range(interiors):
            network.router(f"i{number}")
        for one, other in itertools.combinations(list(network.routers), 2):
            network.cable(other, one)
    names = list(network.routers)
    for number in range(edges):
        first = number % interiors
        second = (first + 1 + number // interiors % (interiors - 1)) % interiors
        network.edge(f"e{number}", [names[first], names[second]], network.rng.uniform(0.0005, 0.01))
    return network


def interiors(network: Network) -> list[SimRouter]:
    return [router for router in network.routers.values() if router.alive]


def home(edge: SimRouter) -> str | None:
    """The interior router of the active uplink."""
    active = edge.core.uplink.active
    return None if active is None or active.remote is None else str(active.remote.container_id)


def known(network: Network, key: str, router: SimRouter) -> bool:
    """Whether an interior router can send to the address, by an edge router of its own or by another router."""
    address: Any = router.core.addresses.get(key)
    return address is not None and (address.served_here() or any(n in network.routers for n in address.targets))


def edge_faults(network: Network) -> list[str]:
    """What is not as it should be about edge routers; empty when each has an uplink, and all interiors know where."""
    alive = {router.name: router for router in interiors(network)}
    found: list[str] = []
    for name, edge in network.edges.items():
        at = home(edge)
        if at not in alive:
            found.append(f"{name} has no uplink")
            continue
        for router in alive.values():
            address = router.core.addresses.get("H" + name)
            here = address is not None and bool(address.consumers)
            if here != (router.name == at):
                found.append(f"{name} is {'' if here else 'not '}at {router.name}")
            elif not here and (address is None or list(address.targets) != [at]):
                found.append(f"{router.name} does not know that {name} is at {at}")
    return found


def unknown(network: Network, keys: Iterable[str]) -> list[str]:
    """Addresses that an interior router does not know yet."""
    alive = interiors(network)
    return [key for key in keys if not all(known(network, key, router) for router in alive)]


class ControlMessages:
    """Counts the messages of the control plane that interior routers send; to be made after the network's start."""

    def __init__(self, network: Network) -> None:
        self.count: Counter[str] = Counter()
        self.octets = 0
        for router in interiors(network):
            self._watch(router.router.mesh)

    def _watch(self, mesh: Any) -> None:
        send = mesh._send_control

        def counted(conn: object, message: bytes) -> None:
            found = OPCODE.search(message)
            self.count["?" if found is None else found[1].decode()] += 1
            self.octets += len(message)
            send(conn, message)

        mesh._send_control = counted

    def text(self) -> str:
        """What was counted since the last look."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.count.items()))
        text = f"{self.count.total()} control messages ({kinds}), {self.octets / 1000:.0f} kB"
        self.count.clear()
        self.octets = 0
        return text
