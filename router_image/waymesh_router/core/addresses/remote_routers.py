"""Reachable remote routers and the addresses for which they have consumers. The control plane calls this.

What concerns all addresses happens in portions (core/portions.py). Meanwhile no delivery takes a path that has ended:
the choice of a path depends on `Target.stale` and `ConsumerChoice.paths`, which change at once.
"""

from __future__ import annotations

from waymesh_router.core.addresses.keys import ROUTER
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.model import Address, Node, Target
from waymesh_router.core.portions import Rounds

LOOK_COST, REFRESH_COST = 1, 4
"""Cost of a look at an address, and of `AddressTable.refresh`."""


class RemoteRouters:
    """Keeps `Address.targets` current."""

    def __init__(
        self, context: CoreContext, addresses: AddressTable, pending: PendingDeliveries, choice: ConsumerChoice
    ) -> None:
        self._addresses = addresses
        self._pending = pending
        self._choice = choice
        known = addresses.by_key
        self._lost = Rounds(context.portions, "addresses of lost routers", known, self._remove_stale)
        self._moved = Rounds(context.portions, "addresses with other paths", known, self._update_paths)

    def node_up(self, router_id: str) -> None:
        """A remote router became reachable."""
        node = Node(router_id)
        self._addresses.nodes[router_id] = node
        node.address = self._addresses.get(ROUTER + router_id)
        node.address.targets[router_id] = Target(node, node.address)

    def node_down(self, router_id: str) -> None:
        """A remote router is no longer reachable."""
        node = self._addresses.nodes.pop(router_id, None)
        if node is not None:
            self._lose_consumers(node)
            self.remove_consumers(router_id, ROUTER + router_id)
            self._lost.begin()

    def add_consumers(self, router_id: str, key: str, treatment: int) -> None:
        """A remote router has consumers for the address."""
        node = self._addresses.nodes.get(router_id)
        if node is None:
            return
        address = self._addresses.get(key, treatment)
        known = address.targets.get(router_id)
        if known is None or known.stale():
            address.targets[router_id] = Target(node, address)
            if address.pending is not None:
                self._pending.await_credit(address)
            self._addresses.refresh(address)

    def remove_consumers(self, router_id: str, key: str) -> None:
        """A remote router no longer has consumers for the address."""
        address = self._addresses.by_key.get(key)
        if address is not None and address.targets.pop(router_id, None) is not None:
            self._addresses.refresh(address)

    def flush_consumers(self, router_id: str) -> None:
        """Remove all consumers of a remote router."""
        node = self._addresses.nodes.get(router_id)
        if node is not None:
            self._lose_consumers(node)
            itself = None if node.address is None else node.address.targets.get(router_id)
            if itself is not None:
                itself.since = node.since
            self._lost.begin()

    def _lose_consumers(self, node: Node) -> None:
        node.since += 1
        self._choice.paths += 1

    def _remove_stale(self, key: str) -> int:
        """Remove the lost consumers of an address; returns the cost."""
        address = self._addresses.by_key.get(key)
        if address is None or not address.targets:
            return LOOK_COST
        cost = LOOK_COST + len(address.targets) // 4
        stale = [router_id for router_id, target in address.targets.items() if target.stale()]
        if not stale:
            return cost
        for router_id in stale:
            del address.targets[router_id]
        self._addresses.refresh(address)
        return cost + REFRESH_COST

    def update_paths(self) -> None:
        """Next hops or costs have changed: update every address with remote consumers."""
        self._choice.paths += 1
        self._moved.begin()

    def _update_paths(self, key: str) -> int:
        """Update an address; returns the cost."""
        address = self._addresses.by_key.get(key)
        if address is None or not address.targets or not _depends_on_paths(address):
            return LOOK_COST
        if address.pending is not None:
            self._pending.await_credit(address)
        self._addresses.refresh(address)
        return REFRESH_COST


def _depends_on_paths(address: Address) -> bool:
    """Whether something here waits for a path to the address, or has credit because of one."""
    waits = address.pending is not None or bool(address.producers)
    return waits or address.tracked is not None or address.primary is not None
