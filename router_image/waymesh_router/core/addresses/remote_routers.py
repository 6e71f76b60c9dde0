"""Reachable remote routers and the addresses for which they have consumers. The control plane calls this."""

from __future__ import annotations

from waymesh_router.core.addresses.keys import ROUTER
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.model import Node, Target


class RemoteRouters:
    """Keeps `Address.targets` current."""

    def __init__(self, addresses: AddressTable, pending: PendingDeliveries) -> None:
        self._addresses = addresses
        self._pending = pending

    def node_up(self, router_id: str) -> None:
        """A remote router became reachable."""
        node = Node(router_id)
        self._addresses.nodes[router_id] = node
        node.address = self._addresses.get(ROUTER + router_id)
        node.address.targets[router_id] = Target(node)

    def node_down(self, router_id: str) -> None:
        """A remote router is no longer reachable."""
        if self._addresses.nodes.pop(router_id, None) is not None:
            for address in list(self._addresses.by_key.values()):
                if address.targets.pop(router_id, None) is not None:
                    self._addresses.refresh(address)

    def add_consumers(self, router_id: str, key: str, treatment: int) -> None:
        """A remote router has consumers for the address."""
        node = self._addresses.nodes.get(router_id)
        if node is None:
            return
        address = self._addresses.get(key, treatment)
        if router_id not in address.targets:
            address.targets[router_id] = Target(node)
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
        for address in list(self._addresses.by_key.values()):
            if not address.key.startswith(ROUTER) and address.targets.pop(router_id, None) is not None:
                self._addresses.refresh(address)

    def update_paths(self) -> None:
        """Next hops or costs have changed: update every address with remote consumers."""
        for address in list(self._addresses.by_key.values()):
            if address.targets:
                if address.pending is not None:
                    self._pending.await_credit(address)
                self._addresses.refresh(address)
