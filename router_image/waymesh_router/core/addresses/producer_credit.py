"""Credit of addresses with many producers: issued or withdrawn in portions."""

from __future__ import annotations

from collections.abc import Callable

from waymesh_router.core.model import Address, RouterLink
from waymesh_router.core.portions import COPIED, Portions

GRANT_COST = 2
"""Cost of the credit of one link, with the flow that follows."""


class ProducerCredit:
    """The producers whose credit must still follow a change of the consumers of their address."""

    def __init__(self, portions: Portions, update: Callable[[Address, RouterLink], None]) -> None:
        """`update` issues or withdraws the credit of a link, as the address is now."""
        self._portions = portions
        self._update = update
        self._left: dict[Address, list[RouterLink]] = {}  # last one first
        self._again: set[Address] = set()  # addresses that have changed since `_left` was filled

    def __str__(self) -> str:
        return "producers"

    def begin(self, address: Address) -> None:
        """Update the credit of all producers of an address: of the first ones now."""
        self._again.add(address)
        self._left.setdefault(address, [])
        self._portions.begin(self)

    def step(self) -> int:
        """Update the credit of one producer, see core/portions.py."""
        if not self._left:
            return 0
        address, left = next(iter(self._left.items()))
        if left:
            link = left.pop()
            if link.address is address and not link.over:
                self._update(address, link)
        elif address in self._again:
            self._again.discard(address)
            left.extend(reversed(address.producers))
            return 1 + len(left) // COPIED
        else:
            del self._left[address]
        return GRANT_COST
