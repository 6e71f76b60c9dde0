"""Remote hosts of a user group. Dispatch book 3.6.3 and 3.6.4."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from waymesh_schema.host_rules import Address, Resolve, numeric_address, ranges

Addresses = Mapping[str, "Collection[str] | str"]
"""Numeric addresses by host name, or an error text for a name without addresses."""


class RemoteHosts:
    """Rules for the hosts that users may connect from. Without rules, no host is allowed."""

    __slots__ = ("_any", "_ranges")

    def __init__(self, rules: Iterable[str], resolve: Resolve) -> None:
        """Raises ValueError for a rule that is not an address, range, network, name or `*`, and for a name without
        addresses."""
        self._any = False
        self._ranges: list[tuple[Address, Address]] = []
        for rule in rules:
            if rule == "*":
                self._any = True
            else:
                self._ranges.extend(ranges(rule, resolve))

    def allow(self, host: str) -> bool:
        """Whether the numeric address `host` is allowed. Only `*` allows text that is not an address."""
        if self._any:
            return True
        address = numeric_address(host)
        return address is not None and any(
            low.version == address.version and int(low) <= int(address) <= int(high) for low, high in self._ranges
        )
