"""Deliveries that wait at addresses without a consumer: thousands of them are released in portions. Decision 0057."""

from __future__ import annotations

from collections.abc import Callable

from waymesh_router.core.model import Address
from waymesh_router.core.portions import Portions

A_STEP = 64
"""Number of deliveries that a step releases."""
STEP_COST = 12


class Releases:
    """The addresses that still have such deliveries. One that gets a consumer meanwhile sends them to it."""

    def __init__(self, portions: Portions, release_some: Callable[[Address, int], bool]) -> None:
        """`release_some` releases up to a number of deliveries, the oldest ones. It returns whether it must be called
        again."""
        self._portions = portions
        self._release_some = release_some
        self._left: dict[Address, None] = {}

    def __str__(self) -> str:
        return "deliveries without a consumer"

    def begin(self, address: Address) -> None:
        """Release what waits at an address: the first ones now."""
        self._left[address] = None
        self._portions.begin(self)

    def step(self) -> int:
        """Release some deliveries of one address, see core/portions.py."""
        if not self._left:
            return 0
        address = next(iter(self._left))
        del self._left[address]
        if self._release_some(address, A_STEP):
            self._left[address] = None
        return STEP_COST
