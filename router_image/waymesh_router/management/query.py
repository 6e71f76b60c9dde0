"""QUERY: rows of many entities, read and encoded in slices so that the router serves its connections in between.

Source: AMQP Management (draft 9), 3.2.1 QUERY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from waymesh_amqp.codec_encode import encode_into, pack_compound
from waymesh_amqp.codec_values import Raw
from waymesh_router.management.adapters import EntityAdapter
from waymesh_router.management.errors import bad_request, not_found
from waymesh_router.management.request import Request
from waymesh_schema.entities import EntityType

ROWS_A_SLICE = 16
"""Rows that are read and encoded in one go: a few tenths of a millisecond."""
_LIST = 0xC0
_HIDDEN = "*******"


class Query:
    """One QUERY under way. `step` reads some rows; `body` is the reply's body once all rows are read.

    Each type's entities are those that exist when the walk reaches the type. An entity that ends while the query is
    under way is shown with its last values.
    """

    def __init__(
        self, request: Request, kind: EntityType | None, adapters: Sequence[EntityAdapter], now: float
    ) -> None:
        """Raises ManagementError for attribute names that are not known."""
        self._names = _names(request, kind, adapters)
        self._encoded = bytearray()
        self._count = 0
        stop = None if request.count is None else request.offset + request.count
        if len(adapters) == 1:
            self._rows = _select(adapters[0], self._names, now, request.offset, stop)
        else:
            rows = (row for adapter in adapters for row in _select(adapter, self._names, now, 0, None))
            self._rows = islice(rows, request.offset, stop)

    def step(self) -> bool:
        """Read some rows. True: there may be more. Raises what the adapter raises."""
        read = 0
        for row in islice(self._rows, ROWS_A_SLICE):
            encode_into(self._encoded, row)
            read += 1
        self._count += read
        return read == ROWS_A_SLICE

    def body(self) -> dict[str, Any]:
        """The body of the reply; its rows are encoded already."""
        results = bytearray()
        pack_compound(results, _LIST, self._count, self._encoded)
        return {"attributeNames": self._names, "results": Raw(results)}


def without_secrets(kind: EntityType, row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an entity of this type, those that are hidden masked."""
    return {
        name: _HIDDEN if value is not None and name in kind.attributes and kind.attributes[name].hidden else value
        for name, value in row.items()
    }


def _names(request: Request, kind: EntityType | None, adapters: Sequence[EntityAdapter]) -> list[str]:
    """Names asked for, or all there are. Raises 404 for a name that no queried type has, as Dispatch does."""
    asked = request.body.get("attributeNames") or []
    if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
        raise bad_request("'attributeNames' must be a list of strings")
    types = [adapter.entity_type for adapter in adapters]
    if kind is not None:
        types.append(kind)
    known = dict.fromkeys(name for one in types for name in one.attributes)
    renamed = {old: new for one in types for old, new in one.deprecated_names.items()}
    unknown = [str(name) for name in asked if name not in known and name not in renamed]
    if unknown:
        raise not_found(f"unknown attributes {unknown}" + (f" for type {kind.name}" if kind else ""))
    return [str(name) for name in asked] or list(known)


def _select(
    adapter: EntityAdapter, names: Sequence[str], now: float, start: int, stop: int | None
) -> Iterator[list[Any]]:
    """Rows of values in the order of `names`, which may be former names of attributes. Secrets are not shown."""
    kind = adapter.entity_type
    current = [kind.deprecated_names.get(name, name) for name in names]
    hidden = [n for n, name in enumerate(current) if name in kind.attributes and kind.attributes[name].hidden]
    for row in adapter.select(current, now, start, stop):
        for position in hidden:
            if row[position] is not None:
                row[position] = _HIDDEN
        yield row
