"""Remote hosts of a user group: addresses, ranges of addresses, names and `*`. Dispatch book 3.6.3 and 3.6.4."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from waymesh_router.peers.numeric_address import Address, numeric_address

Resolve = Callable[[str], Iterable[str]]
"""Numeric addresses of a host name; raises ValueError if they cannot be found. The caller does the I/O."""

Addresses = Mapping[str, "Collection[str] | str"]
"""Numeric addresses by host name, or an error text for a name without addresses."""


class RemoteHosts:
    """Rules for the hosts that users may connect from. Without rules, no host is allowed."""

    __slots__ = ("_any", "_ranges")

    def __init__(self, rules: Iterable[str], resolve: Resolve) -> None:
        """Raises ValueError for a rule that is not an address, range, name or `*`, and for a name without addresses."""
        self._any = False
        self._ranges: list[tuple[Address, Address]] = []
        for rule in rules:
            if rule == "*":
                self._any = True
            else:
                self._ranges.extend(_ranges(rule, resolve))

    def allow(self, host: str) -> bool:
        """Whether the numeric address `host` is allowed. Only `*` allows text that is not an address."""
        if self._any:
            return True
        address = numeric_address(host)
        return address is not None and any(
            low.version == address.version and int(low) <= int(address) <= int(high) for low, high in self._ranges
        )


def is_name(rule: str) -> bool:
    """Whether the rule is a host name."""
    named: list[str] = []

    def resolve(name: str) -> Iterable[str]:
        named.append(name)
        return ()

    try:
        _ranges(rule, resolve)
    except ValueError:
        return False
    return bool(named)


def _ranges(rule: str, resolve: Resolve) -> list[tuple[Address, Address]]:
    if "*" in rule:
        raise ValueError(f"{rule!r}: * must stand alone")
    if "%" in rule:
        raise ValueError(f"{rule!r}: an address must not have a zone, because that of the client is not checked")
    single = numeric_address(rule)
    if single is not None:
        return [(single, single)]
    first, dash, last = rule.partition("-")
    low, high = numeric_address(first.strip()), numeric_address(last.strip())
    if dash and (low is not None or high is not None):
        if low is None or high is None or low.version != high.version or int(low) > int(high):
            raise ValueError(f"{rule!r}: must be two addresses of one family, the lower one first")
        return [(low, high)]
    if "/" in rule:
        raise ValueError(f"{rule!r}: a network is given as a range, first-last")
    if not rule or any(c.isspace() for c in rule) or rule.replace(".", "").isdigit() or ":" in rule:
        raise ValueError(f"{rule!r}: not an address, a range of addresses or a host name")
    addresses = (numeric_address(text) for text in resolve(rule))
    return [(address, address) for address in addresses if address is not None]
