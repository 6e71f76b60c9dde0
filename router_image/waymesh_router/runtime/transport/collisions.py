"""Listeners of a configuration that would listen on the same address."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from waymesh_router.management.identity import configured_name
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.transport.addresses import port_number
from waymesh_schema.config import ConfigEntry
from waymesh_schema.operator_names import of_operator

ANY = ""
"""All addresses of a version."""


def without_repeated_addresses(entries: Sequence[ConfigEntry]) -> tuple[list[ConfigEntry], list[str]]:
    """The configuration without listeners with a host and port that an earlier one has; and an error for each of them.

    As in Qpid Dispatch, the first one keeps working. Those of the operator are kept: their errors stop the start.
    """
    earlier: list[tuple[str, int, dict[str, str]]] = []
    kept, errors = [], []
    for entry in entries:
        if entry.type.name == "listener" and not of_operator(entry.attributes):
            name, port = configured_name("listener", entry.attributes), _port(entry)
            hosts = _hosts(entry)
            first = next((one for one, there, taken in earlier if there == port and _overlap(taken, hosts)), None)
            if first is not None:
                where = f"{entry.filename}:{entry.line}: listener {name}"
                errors.append(f"{where}: stays closed, because listener {first} has the same host and port")
                continue
            if port:
                earlier.append((name, port, hosts))
        kept.append(entry)
    return kept, errors


def _port(entry: ConfigEntry) -> int | None:
    """None if the system chooses the port, or there is none of that name."""
    try:
        return port_number("", entry.attributes["port"]) or None
    except HostError:
        return None  # the listener reports this


def _hosts(entry: ConfigEntry) -> dict[str, str]:
    """What it listens on, by address family: an address, a name, or ANY."""
    host, family = str(entry.attributes["host"] or ""), entry.attributes["socketAddressFamily"]
    families = [family] if family else ["IPv4", "IPv6"]
    if host.lower() == "localhost":
        return {family or "IPv4": "::1" if family == "IPv6" else "127.0.0.1"}
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return dict.fromkeys(families, host)  # a name, or empty: all addresses
    return {f"IPv{address.version}": ANY if address.is_unspecified else str(address)}


def _overlap(one: dict[str, str], other: dict[str, str]) -> bool:
    return any(one[way] == other[way] or ANY in (one[way], other[way]) for way in one.keys() & other.keys())
