"""The expected knowledge of a mesh of routers, computed from its cables and its local consumers."""

from __future__ import annotations

import heapq
import itertools
import random
from typing import Any

from tests.simulation.full.network import Network, SimRouter

Links = dict[str, dict[str, int]]


def random_network(seed: int, count: int, extra: int, config: str = "") -> Network:
    """Routers on a random tree, not a deep one, with some cables more, of different latency and cost."""
    network = Network(seed)
    rng = random.Random(seed)
    names = [f"r{number:03d}" for number in range(count)]
    for name in names:
        network.router(name, config)
    pairs = [(names[number], names[rng.randrange(1 + number // 3)]) for number in range(1, count)]
    known = {frozenset(pair) for pair in pairs}
    while len(known) < count - 1 + extra:
        pair = tuple(rng.sample(names, 2))
        if frozenset(pair) not in known:
            known.add(frozenset(pair))
            pairs.append(pair)  # type: ignore[arg-type]
    for one, other in pairs:
        network.cable(one, other, rng.uniform(0.0005, 0.003), rng.choice([1, 1, 1, 1, 2, 3]))
    return network


def links_of(network: Network) -> Links:
    """Router → neighbour → cost, over the cables that work."""
    links: Links = {name: {} for name, router in network.routers.items() if router.alive}
    for cable in network.cables:
        if cable.works():
            for one, other in ((cable.one.name, cable.other.name), (cable.other.name, cable.one.name)):
                links[one][other] = min(cable.cost, links[one].get(other, cable.cost))
    return links


def distances(links: Links, start: str) -> dict[str, int]:
    """Cost of the cheapest path to each router that can be reached."""
    found: dict[str, int] = {}
    heap = [(0, start)]
    while heap:
        cost, name = heapq.heappop(heap)
        if name not in found:
            found[name] = cost
            for peer, more in links[name].items():
                heapq.heappush(heap, (cost + more, peer))
    return found


def local_addresses(router: SimRouter) -> frozenset[str]:
    """Keys of the mobile addresses that have consumers or an exchange here."""
    return frozenset(key for key, a in router.core.addresses.items() if key[0] == "M" and a.served_here())


def remote_addresses(core: Any) -> dict[str, frozenset[str]]:
    """Router → keys of the mobile addresses that it is known to have consumers for."""
    found: dict[str, set[str]] = {}
    for key, address in core.addresses.items():
        if key[0] == "M":
            for name in address.targets:
                found.setdefault(name, set()).add(key)
    return {name: frozenset(keys) for name, keys in found.items()}


def faults(network: Network) -> list[str]:
    """What is not as it should be in the routers' tables; empty when the mesh has converged."""
    links = links_of(network)
    local = {name: local_addresses(network.routers[name]) for name in links}
    found: list[str] = []
    for name in links:
        expected = distances(links, name)
        del expected[name]
        core = network.routers[name].core
        if core.nodes.keys() != expected.keys():
            found.append(f"{name} knows {len(core.nodes)} routers of {len(expected)}")
            continue
        if {other: node.cost for other, node in core.nodes.items()} != expected:
            found.append(f"{name} has wrong costs")
            continue
        if {o: keys for o, keys in local.items() if keys and o in expected} != remote_addresses(core):
            found.append(f"{name} has wrong addresses")
    return found


def path_changes(network: Network) -> list[float]:
    """When a router found other paths than before, in order."""
    lines = itertools.chain.from_iterable(router.lines for router in network.routers.values())
    return sorted(at for at, _, _, text in lines if text.startswith("Paths computed"))


def wrong_hops(network: Network) -> list[str]:
    """Next hops that are not the first step of a cheapest path."""
    links = links_of(network)
    costs = {name: distances(links, name) for name in links}
    found = []
    for name in links:
        for other, node in network.routers[name].core.nodes.items():
            hop = node.neighbour()
            if hop is None or hop.id not in links[name]:
                found.append(f"{name} → {other}: no neighbour")
            elif links[name][hop.id] + costs[hop.id][other] != costs[name][other]:
                found.append(f"{name} → {other}: by {hop.id}")
            elif hop.connection.over or hop.connection.node is not hop:
                found.append(f"{name} → {other}: by a connection that is gone")
    return found


def trees_broken(network: Network, origin: str) -> list[str]:
    """Routers that a message which entered at `origin` would not reach, or would reach twice, by valid origins."""
    reached: dict[str, int] = {}
    stack = [origin]
    while stack:
        name = stack.pop()
        nodes = network.routers[name].core.nodes
        allowed = [n for n in nodes.values() if name == origin or origin in n.valid_origins]
        for hop in {n.neighbour().id for n in allowed}:
            reached[hop] = reached.get(hop, 0) + 1
            if reached[hop] == 1:
                stack.append(hop)
    expected = distances(links_of(network), origin).keys() - {origin}
    return [f"{origin} → {name}: {reached.get(name, 0)} times" for name in expected if reached.get(name, 0) != 1]


def leftovers(network: Network) -> list[str]:
    """What must not be there when no client is left: addresses, deliveries, counts."""
    found = []
    for router in network.routers.values():
        if not router.alive:
            continue
        core = router.core
        if core.budget.kept or core.budget.full or core.budget.braked:
            found.append(f"{router.name}: {core.budget.kept} bytes wait, {len(core.budget.braked)} links are held")
        own = {"L$management", "M0$management"}
        for key, a in core.addresses.items():
            if key[0] != "R" and key not in own:
                found.append(f"{router.name}: address {key}")
            if a.pending or any(target.outstanding for target in a.targets.values()):
                found.append(f"{router.name}: deliveries of {key}")
        for link in core.links.values():
            under_way = link.queued or link.busy or link.backlog or link.mid_delivery
            if link.unsettled or link.queue or under_way:
                found.append(f"{router.name}: {link.name} is not idle")
            if not link.is_sender and link.outstanding:
                found.append(f"{router.name}: {link.name} did not give {link.outstanding} credit back")
        for conn in core.connections.values():
            waiting = [a.key for a in conn.waiting if a.pending]
            if waiting:
                found.append(f"{router.name}: connection {conn.id} waits for {waiting}")
            for session in conn.sessions.values():
                if session.unsettled_in.count or session.unsettled_out.count or session.holds:
                    found.append(f"{router.name}: session {session.channel} is not idle")
    return found
