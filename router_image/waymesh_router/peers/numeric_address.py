"""Numeric addresses of peers and of configured hosts."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address


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
