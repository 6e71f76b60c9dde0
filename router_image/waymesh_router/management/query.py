"""QUERY: rows of many entities, read and encoded in slices so that the router serves its connections in between.

Source: AMQP Management (draft 9), 3.2.1 QUERY.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from waymesh_amqp.codec_encode import encode_into, pack_compound
from waymesh_amqp.codec_values import Raw
from waymesh_router.management.adapters import EntityAdapter
from waymesh_router.management.conditions import Columns, Order, parse_where
from waymesh_router.management.errors import bad_request, not_found
from waymesh_router.management.request import Request
from waymesh_schema.entities import EntityType

ROWS_A_SLICE = 16
"""Rows read and encoded in one slice, which takes a few tenths of a millisecond."""
_LIST = 0xC0
_HIDDEN = "*******"


class Query:
    """A QUERY in progress. `step` reads some rows; `body` is the reply's body once all rows are read.

    The rows are the entities of all types that exist when the query arrives, with the configuration of that moment:
    they do not show later changes. An entity that ends meanwhile is shown with its last values.
    """

    def __init__(
        self, request: Request, kind: EntityType | None, adapters: Sequence[EntityAdapter], now: float
    ) -> None:
        """Raises ManagementError for unknown attribute names and for an invalid `where` or `orderBy`."""
        types = _types(kind, adapters)
        self._names = _names(request, kind, types)
        columns = Columns((one.attributes for one in types), _former_names(types))
        where, order = request.properties.get("where"), request.properties.get("orderBy")
        self._test = parse_where(where, columns) if where else None
        self._rows: _InOrder | _AsRead = _AsRead(request) if not order else _InOrder(request, Order(order, columns))
        start, stop = 0, None
        if len(adapters) == 1 and not where and not order:  # no need to read the rows before the first wanted one
            start, self._rows = request.offset, _AsRead(replace(request, offset=0))
            stop = None if request.count is None else request.offset + request.count
        names = [*columns.names, *self._names]
        self._first = len(columns.names)
        self._several = len(adapters) > 1
        self._left = chain.from_iterable([_select(one, names, now, start, stop) for one in adapters])

    def step(self) -> bool:
        """Read some rows; returns whether there may be more. Errors of the adapter are raised."""
        read = 0
        for row in islice(self._left, ROWS_A_SLICE):
            read += 1
            if self._wanted(row) and self._rows.add(row, row[self._first :]):
                return False
        return read == ROWS_A_SLICE

    def _wanted(self, row: list[Any]) -> bool:
        """Of several types, entities that have none of the attributes are left out, as in Dispatch."""
        if self._several and all(value is None for value in row[self._first :]):
            return False
        return self._test is None or bool(self._test(row))

    def body(self) -> dict[str, Any]:
        """The body of the reply, with the encoded rows."""
        count, encoded = self._rows.encoded()
        results = bytearray()
        pack_compound(results, _LIST, count, encoded)
        return {"attributeNames": self._names, "results": Raw(results)}


class _AsRead:
    """Rows in the order of reading, from the offset on."""

    def __init__(self, request: Request) -> None:
        self._skip = request.offset
        self._wanted = request.count
        self._count = 0
        self._encoded = bytearray()

    def add(self, _keys: Sequence[Any], row: list[Any]) -> bool:
        """Add a row; returns whether it was the last one requested."""
        if self._skip:
            self._skip -= 1
            return False
        encode_into(self._encoded, row)
        self._count += 1
        return self._count == self._wanted

    def encoded(self) -> tuple[int, bytearray]:
        """How many rows there are, and the rows."""
        return self._count, self._encoded


class _InOrder:
    """Rows in the requested order. Each row is inserted when it is read, so that no turn of the event loop sorts all;
    rows after the last one requested are dropped."""

    def __init__(self, request: Request, order: Order) -> None:
        self._order = order
        self._offset = request.offset
        self._most = sys.maxsize if request.count is None else request.offset + request.count
        self._read = 0
        self._rows: list[tuple[Any, int, bytearray]] = []

    def add(self, keys: Sequence[Any], row: list[Any]) -> bool:
        """Add a row; `keys`: the values to sort by. Never returns True: the row read last may come first."""
        encoded = bytearray()
        encode_into(encoded, row)
        self._read += 1  # rows with equal keys stay in the order in which they were read
        insort(self._rows, (self._order.key(keys), self._read, encoded))
        if len(self._rows) > self._most:
            self._rows.pop()
        return False

    def encoded(self) -> tuple[int, bytearray]:
        """How many rows there are, and the rows."""
        rows = self._rows[self._offset :]
        return len(rows), bytearray(b"").join(encoded for _, _, encoded in rows)


def without_secrets(kind: EntityType, row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an entity of this type, those that are hidden masked."""
    return {
        name: _HIDDEN if value is not None and name in kind.attributes and kind.attributes[name].hidden else value
        for name, value in row.items()
    }


def shown(kind: EntityType, row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an entity in a reply, as in Dispatch: with their former names, too, and of a log module only
    those that were set."""
    found = without_secrets(kind, row)
    found |= {old: found[new] for old in old_names((kind,)) if (new := kind.deprecated_names[old]) in found}
    return found if kind.name != "log" else {name: value for name, value in found.items() if value is not None}


def _types(kind: EntityType | None, adapters: Sequence[EntityAdapter]) -> list[EntityType]:
    """The types whose attributes may be named: those with an adapter or, if there are none, the requested one."""
    return [adapter.entity_type for adapter in adapters] or ([] if kind is None else [kind])


def _former_names(types: Sequence[EntityType]) -> dict[str, str]:
    return {old: new for one in types for old, new in one.deprecated_names.items()}


def _names(request: Request, kind: EntityType | None, types: Sequence[EntityType]) -> list[str]:
    """The requested names, or all. Raises 404 for a name that no queried type has, as Dispatch does."""
    asked = request.body.get("attributeNames") or []
    if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
        raise bad_request("'attributeNames' must be a list of strings")
    known = dict.fromkeys(name for one in types for name in one.attributes)
    renamed = _former_names(types)
    if len(asked) > len(known) + len(renamed):  # each name adds a value to every row
        raise bad_request(f"'attributeNames' has {len(asked)} names, more than there are attributes")
    unknown = [str(name) for name in asked if name not in known and name not in renamed]
    if unknown:
        raise not_found(f"unknown attributes {unknown}" + (f" for type {kind.name}" if kind else ""))
    return [str(name) for name in asked] or [*known, *old_names(types)]


def old_names(types: Sequence[EntityType]) -> list[str]:
    """Former names that scripts for Dispatch read in rows and replies: `dir` and `addr` of autolinks, link routes."""
    found = {old for one in types for old, new in one.deprecated_names.items() if new in ("direction", "address")}
    return sorted(found)


def _select(
    adapter: EntityAdapter, names: Sequence[str], now: float, start: int, stop: int | None
) -> Iterator[list[Any]]:
    """Rows of values in the order of `names`, which may be former names of attributes. Secrets are not shown."""
    kind = adapter.entity_type
    current = [kind.deprecated_names.get(name, name) for name in names]
    hidden = [n for n, name in enumerate(current) if name in kind.attributes and kind.attributes[name].hidden]
    return _masked(adapter.select(current, now, start, stop), hidden)


def _masked(rows: Iterator[list[Any]], hidden: Sequence[int]) -> Iterator[list[Any]]:
    for row in rows:
        for position in hidden:
            if row[position] is not None:
                row[position] = _HIDDEN
        yield row
