"""Rules for hosts: addresses, ranges and networks, names and `*`. Dispatch book 3.6.3 and 3.6.4.

Networks (10.0.0.0/8, 192.168.1.*) are an extension of Waymesh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from .convert import names
from .errors import SchemaError

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Iterable[str]]
"""Numeric addresses of a host name; raises ValueError if they cannot be found. The caller does the I/O."""
_ANY_WORDS = re.compile(r"(?:[0-9]{1,3}\.){1,3}(?:\*\.){0,2}\*")
"""An IPv4 address whose last words are `*`; it must have four words in all."""


def numeric_address(text: str) -> Address | None:
    """Parse an address, which may have a zone; None if the text is not an address.

    IPv4 addresses that an IPv6 socket reports (::ffff:a.b.c.d) become IPv4.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def is_name(rule: str) -> bool:
    """Whether the rule is a host name."""
    named: list[str] = []

    def resolve(name: str) -> Iterable[str]:
        named.append(name)
        return ()

    try:
        ranges(rule, resolve)
    except ValueError:
        return False
    return bool(named)


def ranges(rule: str, resolve: Resolve) -> list[tuple[Address, Address]]:
    """First and last address of each range of a rule other than `*`. Raises ValueError for a rule that is not an
    address, range, network or name, and for a name without addresses."""
    if "%" in rule:
        raise ValueError(f"{rule!r}: an address must not have a zone, because that of the client is not checked")
    if "*" in rule:
        return [_all_words(rule)]
    single = numeric_address(rule)
    if single is not None:
        return [(single, single)]
    first, dash, last = (part.strip() for part in rule.partition("-"))
    if dash and (numeric_address(first) is not None or numeric_address(last) is not None):
        return [_between(rule, first, last)]
    if "/" in rule:
        return [_network(rule)]
    if not rule or any(c.isspace() for c in rule) or rule.replace(".", "").isdigit() or ":" in rule:
        raise ValueError(f"{rule!r}: not an address, a range of addresses or a host name")
    addresses = (numeric_address(text) for text in resolve(rule))
    return [(address, address) for address in addresses if address is not None]


def _all_words(rule: str) -> tuple[Address, Address]:
    if _ANY_WORDS.fullmatch(rule) is None or rule.count(".") != 3:
        raise ValueError(f"{rule!r}: * must stand alone, or for the last of four words of an address (192.168.1.*)")
    return _between(rule, rule.replace("*", "0"), rule.replace("*", "255"))


def _network(rule: str) -> tuple[Address, Address]:
    address, _, length = rule.partition("/")
    try:
        network = ip_network(rule) if length.isdigit() and length.isascii() else None
    except ValueError as error:
        if numeric_address(address) is not None and "host bits" in str(error):
            first = ip_network(rule, strict=False)
            raise ValueError(f"{rule!r}: has bits beyond the length of its prefix; write {first}") from None
        network = None
    if network is None:
        raise ValueError(f"{rule!r}: not a network, such as 10.0.0.0/8")
    return _between(rule, str(network[0]), str(network[-1]))


def _between(rule: str, first: str, last: str) -> tuple[Address, Address]:
    low, high = numeric_address(first), numeric_address(last)
    if low is None or high is None or low.version != high.version or int(low) > int(high):
        raise ValueError(f"{rule!r}: must be two addresses of one family, the lower one first")
    return low, high


def check_remote_hosts(groups: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the remoteHosts of the user groups of a vhost, without looking up names; raises SchemaError.

    No rule of the schema: a router starts with a vhost of its policy folder, or of an operator, that has such hosts,
    and denies all clients of this vhost.
    """
    for group, settings in groups.items():
        for rule in names(settings["remoteHosts"] or ""):
            if rule != "*":
                try:
                    ranges(rule, lambda name: ())
                except ValueError as error:
                    raise SchemaError("vhost", f"groups.{group}.remoteHosts", str(error)) from None
