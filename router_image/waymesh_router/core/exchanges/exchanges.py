"""The exchanges of a router and their bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.core.addresses.keys import bare_address, names_management, of_routers
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.exchanges.exchange import Binding, Exchange, NextHop
from waymesh_router.core.forwarding.own_messages import OwnMessages


class Exchanges:
    """Exchanges by name. An exchange cannot lead to another one of the same router, which prevents loops."""

    def __init__(self, context: CoreContext, addresses: AddressTable, messages: OwnMessages) -> None:
        self._context = context
        self._addresses = addresses
        self._messages = messages
        self.by_name: dict[str, Exchange] = {}

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Create an exchange. Raises ValueError; KeyError if another one has its address."""
        _check_address("address", attrs["address"])
        if attrs["alternateAddress"]:
            _check_address("alternateAddress", attrs["alternateAddress"])
        exchange = Exchange(attrs, self._context, self._addresses, self._messages)
        key = exchange.own.key
        owned = self._owned()
        if key in owned:
            raise KeyError(f"exchange {owned[key].name} has this address")
        for other in (*self.by_name.values(), exchange):
            if key in other.leads_to():
                raise ValueError(f"exchange {other.name} sends to this address: an exchange cannot send to another")
        self._check_hop(exchange.alternate)
        self.by_name[exchange.name] = exchange
        address = self._addresses.get(key)
        address.exchange = True
        if not address.consumers:
            self._context.control_plane.local_added(key, address.treatment)
        self._addresses.subscribe(key, exchange.take)

    def remove(self, name: str) -> None:
        """Delete an exchange and its bindings; incomplete messages are released when they are complete."""
        exchange = self.by_name.pop(name)
        key = exchange.own.key
        address = self._addresses.by_key[key]
        address.subscriber = None
        address.exchange = False
        if not address.consumers:
            self._context.control_plane.local_removed(key)
        self._addresses.refresh(address)

    def bind(self, attrs: Mapping[str, Any]) -> None:
        """Create a binding. Raises ValueError; KeyError if the exchange has an equal one."""
        exchange = self.by_name.get(attrs["exchangeName"])
        if exchange is None:
            raise ValueError(f"exchangeName: there is no exchange {attrs['exchangeName']}")
        _check_address("nextHopAddress", attrs["nextHopAddress"])
        hop = NextHop(attrs["nextHopAddress"], attrs["nextHopPhase"], self._context)
        self._check_hop(hop)
        binding = Binding(attrs["bindingKey"], hop)
        if any(one.key == binding.key and one.hop.key == hop.key for one in exchange.bindings.values()):
            raise KeyError(f"exchange {exchange.name} has a binding of this key to this address")
        exchange.keys.add(binding.key, binding)
        exchange.bindings[attrs["identity"]] = binding

    def unbind(self, attrs: Mapping[str, Any]) -> None:
        """Delete a binding."""
        exchange = self.by_name[attrs["exchangeName"]]
        binding = exchange.bindings.pop(attrs["identity"])
        exchange.keys.remove(binding.key, binding)

    def matched(self, attrs: Mapping[str, Any]) -> int:
        """The messages that matched a binding."""
        return self.by_name[attrs["exchangeName"]].bindings[attrs["identity"]].matched

    def _owned(self) -> dict[str, Exchange]:
        return {exchange.own.key: exchange for exchange in self.by_name.values()}

    def _check_hop(self, hop: NextHop | None) -> None:
        owner = self._owned().get(hop.key) if hop is not None else None
        if owner is not None:
            raise ValueError(f"{owner.own.to} is the address of exchange {owner.name}: exchanges cannot be next hops")


def _check_address(attribute: str, text: str) -> None:
    bare = bare_address(text)
    if not bare or of_routers(bare) or names_management(bare):
        raise ValueError(f"{attribute}: must be an address of clients, not {text!r}")
