"""Listeners of a configuration that would listen on the same address."""

from __future__ import annotations

from collections.abc import Sequence

from waymesh_router.management.identity import configured_name
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.transport.addresses import port_number
from waymesh_schema.config import ConfigEntry
from waymesh_schema.operator_names import of_operator


def without_repeated_addresses(entries: Sequence[ConfigEntry]) -> tuple[list[ConfigEntry], list[str]]:
    """The configuration without listeners whose host and port an earlier one has; and an error for each of them.

    As in Qpid Dispatch, the first one keeps working. Those of the operator are kept: their errors stop the start.
    """
    first: dict[tuple[str, str, int], str] = {}
    kept, errors = [], []
    for entry in entries:
        if entry.type.name == "listener" and not of_operator(entry.attributes):
            name = configured_name("listener", entry.attributes)
            place = _place(entry)
            if place in first:
                where = f"{entry.filename}:{entry.line}: listener {name}"
                errors.append(f"{where}: stays closed, because listener {first[place]} has the same host and port")
                continue
            if place is not None:
                first[place] = name
        kept.append(entry)
    return kept, errors


def _place(entry: ConfigEntry) -> tuple[str, str, int] | None:
    """Address family, host and port; None if the system chooses the port, or there is none of that name."""
    attributes = entry.attributes
    try:
        port = port_number("", attributes["port"])
    except HostError:
        return None  # the listener reports this
    return (attributes["socketAddressFamily"] or "", attributes["host"], port) if port else None
