"""What clients see of the entities. Those that may only read (`management: read`) see no reply addresses of others.

The name of a dynamic source is the only protection of the replies that its client gets: whoever knows it can send some.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from waymesh_router.core.addresses.keys import LOCAL
from waymesh_router.core.attaching import TEMPORARY_NODE
from waymesh_router.management.adapters import Attributes, EntityAdapter
from waymesh_router.management.errors import not_found

FOR_READER = "waymeshForReader"
"""Property of a request that a router passes on to another one for a client that may only read."""
LINK_ROUTE = "router.connection.linkRoute"
HIDDEN = f"{LOCAL}{TEMPORARY_NODE}*******"
_NAMES = ("identity", "name", "key", "owningAddr")
_OWNER = "connectionId"
_RANDOM = re.compile(rf"(?<={re.escape(TEMPORARY_NODE)})[\w+-]+", re.ASCII)
"""The part of a reply address that cannot be guessed, wherever it stands in a text."""


def adapters_for_reader(adapters: Mapping[str, EntityAdapter], connection: str) -> dict[str, EntityAdapter]:
    """The adapters for a client with this connection, whose own reply addresses it sees at its links; "" for none.

    Its requests only read, except that edge routers and containers create and delete link routes to themselves.
    """
    hiding = (name for name in ("router.address", "router.link") if name in adapters)
    found = adapters_for_client(adapters, connection)
    return {**found, **{name: _HidesReplies(adapters[name], connection) for name in hiding}}


def log_for_reader(
    recent: Callable[[int | None], Sequence[Sequence[Any]]],
) -> Callable[[int | None], Sequence[Sequence[Any]]]:
    """The recent log lines for a client that may only read: lines of links name the reply addresses of all clients."""
    return lambda limit: [
        [_RANDOM.sub("*******", value) if isinstance(value, str) else value for value in line] for line in recent(limit)
    ]


def adapters_for_client(adapters: Mapping[str, EntityAdapter], connection: str) -> dict[str, EntityAdapter]:
    """The adapters for a client with this connection, which has link routes of its own ("": none)."""
    own = {LINK_ROUTE: _OwnLinkRoutes(adapters[LINK_ROUTE], connection)} if LINK_ROUTE in adapters else {}
    return {**adapters, **own}


class _OwnLinkRoutes(EntityAdapter):
    """Link routes of a connection; those of others do not exist for it. Source: protocol/edge.md "Link routes"."""

    def __init__(self, all_: EntityAdapter, connection: str) -> None:
        super().__init__(all_.entity_type)
        self._all = all_
        self._connection = connection

    def rows(self, now: float) -> Iterable[Attributes]:
        return (row for row in self._all.rows(now) if row.get(_OWNER) == self._connection)

    def create(self, attributes: Attributes) -> str:
        return self._all.create(attributes)

    def delete(self, identity: str) -> None:
        if self.find("identity", identity, 0.0) is None:
            raise not_found(f"no entity with identity={identity}")
        self._all.delete(identity)


class _HidesReplies(EntityAdapter):
    """Shows HIDDEN instead of reply addresses. It only reads."""

    def __init__(self, shown: EntityAdapter, connection: str) -> None:
        super().__init__(shown.entity_type)
        self._shown = shown
        self._connection = connection

    def rows(self, now: float) -> Iterable[Attributes]:
        return (self._row(row) for row in self._shown.rows(now))

    def find(self, key: str, value: str, now: float) -> Attributes | None:
        row = self._shown.find(key, value, now)
        return None if row is None else self._row(row)

    def select(self, names: Sequence[str], now: float, start: int, stop: int | None) -> Iterator[list[Any]]:
        places = [place for place, name in enumerate(names) if name in _NAMES]
        for row in self._shown.select([*names, _OWNER], now, start, stop):
            owner = row.pop()
            for place in places:
                row[place] = self._value(row[place], owner)
            yield row

    def _row(self, row: Attributes) -> Attributes:
        return {**row, **{name: self._value(row[name], row.get(_OWNER)) for name in _NAMES if name in row}}

    def _value(self, value: Any, owner: Any) -> Any:
        secret = isinstance(value, str) and value.startswith(LOCAL + TEMPORARY_NODE)
        return HIDDEN if secret and (not owner or owner != self._connection) else value
