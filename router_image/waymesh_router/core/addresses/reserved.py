"""Addresses of the router itself that no client may use. Management shows them as Qpid Dispatch does.

Control messages between routers arrive on separate links, so these addresses are not in the address table: clients
cannot attach or send to them.
"""

from __future__ import annotations

from waymesh_router.core.addresses.keys import address_key
from waymesh_router.core.link_kinds import CLOSEST, FLOOD, MULTICAST
from waymesh_router.core.model import Address

HELLO_KEY = "Lqdhello"
_OF_EVERY_ROUTER = {"L$_management_internal": CLOSEST, "L$displayname": CLOSEST}
"""Services of Qpid Dispatch that Waymesh does not have."""
_OF_INTERIOR_ROUTERS = {
    HELLO_KEY: FLOOD,
    "Lqdrouter": FLOOD,
    "Tqdrouter": FLOOD,
    "Lqdrouter.ma": MULTICAST,
    "Tqdrouter.ma": MULTICAST,
}
RESERVED = frozenset({*_OF_EVERY_ROUTER, *_OF_INTERIOR_ROUTERS})
"""The keys, in every mode."""


class ReservedAddresses:
    """The reserved addresses of one router, by key, with the counts of its control messages."""

    def __init__(self, router_id: str, interior: bool) -> None:
        self._router_id = router_id
        services = _OF_EVERY_ROUTER | (_OF_INTERIOR_ROUTERS if interior else {})
        self.by_key = {key: Address(key, treatment) for key, treatment in services.items()}
        for key in _OF_INTERIOR_ROUTERS.keys() & self.by_key.keys():
            self.by_key[key].subscriber = _arrives_on_control_links

    def received(self, to: str) -> None:
        """Count a control message for this router; `to`: its address text."""
        address = self.by_key.get(address_key(to, self._router_id))
        if address is not None:
            address.to_process += 1

    def sent(self, to: str) -> None:
        """Count a control message from this router."""
        address = self.by_key.get(address_key(to, self._router_id))
        if address is not None:
            address.from_process += 1


def _arrives_on_control_links(_message: bytes, _link: object) -> None:
    """A subscriber that is never called. It makes management show that the router serves the address."""
