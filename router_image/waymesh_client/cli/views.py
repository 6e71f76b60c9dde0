"""The tables of `waymesh stat`, one for each entity type. Columns and order are as in qdstat (Dispatch book 3.2.1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from waymesh_client.cli.cells import (
    address_class,
    address_phase,
    address_text,
    authentication,
    clock,
    commas,
    duration,
    plain,
    security,
    text_list,
    without_slash,
)

Row = Mapping[str, Any]
Table = tuple[str, list[str], list[list[str]]]
"""Title, headings and cells."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, the attributes it needs, and its text for one entity."""

    heading: str
    needs: tuple[str, ...]
    text: Callable[[Row], str]
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """One table. `sort` is the heading to sort by; `empty` is printed when there are no entities."""

    title: str
    entity_type: str
    columns: tuple[Column, ...]
    sort: str | None = None
    empty: str | None = None
    headline: Callable[[Sequence[Row]], str] | None = None
    belongs: Callable[[Row], bool] = lambda row: True
    """Whether a row belongs to the table."""
    further: Callable[[Iterable[Row]], Iterable[Table]] = lambda rows: ()
    """Creates further tables of the same rows, which are shown below."""
    hidden: tuple[str, ...] = ()
    """Attributes that only `further` needs."""
    last: Callable[[Row], bool] = lambda row: False
    """Whether a row is shown after the others."""

    def shown(self, verbose: bool) -> list[Column]:
        """The columns to show."""
        return [column for column in self.columns if verbose or not column.verbose]

    def attributes(self, verbose: bool) -> list[str]:
        """The attributes to request, without duplicates."""
        needed = [name for column in self.shown(verbose) for name in column.needs]
        return list(dict.fromkeys((*needed, *self.hidden)))

    def table(self, rows: Sequence[Row], verbose: bool, in_order: bool = False) -> Table:
        """Title, headings and cells of the table. `in_order`: the rows are already in the wanted order."""
        columns = self.shown(verbose)
        headings = [column.heading for column in columns]
        ordered = rows if in_order else sorted(rows, key=self.last)
        cells = [[column.text(row) for column in columns] for row in ordered]
        if self.sort is not None and not in_order:
            place = headings.index(self.sort)
            cells.sort(key=lambda line: line[place])
        title = self.title + (self.headline(rows) if self.headline is not None else "")
        return title, headings, cells


def _value(heading: str, name: str, text: Callable[[Any], str] = plain, *, verbose: bool = False) -> Column:
    return Column(heading, (name,), lambda row: text(row.get(name)), verbose)


def _whole(heading: str, needs: tuple[str, ...], text: Callable[[Row], str]) -> Column:
    return Column(heading, needs, text)


def _either(first: str, second: str) -> Callable[[Row], str]:
    return lambda row: plain(row.get(first) or row.get(second))


def _delayed(row: Row) -> str:
    return plain((row.get("deliveriesDelayed1Sec") or 0) + (row.get("deliveriesDelayed10Sec") or 0))


def _route(row: Row) -> str:
    """The link to a neighbour; "-" for this router and for routers that are not neighbours."""
    return plain(row.get("routerLink")) or "-" if not row.get("nextHop") else "-"


def _last_change(rows: Iterable[Row]) -> str:
    latest = max((float(row.get("lastTopoChange") or 0) for row in rows), default=0.0)
    if latest <= 1.0:
        return ""
    return time.strftime("\nLast Topology Change: %A %b %d %H:%M:%S %Y GMT", time.gmtime(latest))


CONNECTIONS = View(
    "Connections",
    "connection",
    (
        _value("id", "identity"),
        _value("host", "host"),
        _value("container", "container"),
        _value("role", "role"),
        _value("dir", "dir"),
        _whole("security", ("isEncrypted", "sasl", "sslProto", "sslCipher"), security),
        _whole("authentication", ("isAuthenticated", "sasl", "user"), authentication),
        _value("tenant", "tenant", without_slash),
        _value("last dlv", "lastDlvSeconds", duration),
        _value("uptime", "uptimeSeconds", duration),
    ),
)

EDGES = replace(
    CONNECTIONS,
    title="Edge Router Connections",
    columns=(*CONNECTIONS.columns, _value("active", "active", lambda value: "yes" if value else "no")),
    empty="Edge Router Connections\nNo Edge Router Connections found",
    belongs=lambda row: row.get("role") == "edge",
)

LINKS = View(
    "Router Links",
    "router.link",
    (
        _value("type", "linkType"),
        _value("dir", "linkDir"),
        _value("conn id", "connectionId"),
        _value("id", "identity"),
        _value("peer", "peer"),
        _value("class", "owningAddr", address_class),
        _value("addr", "owningAddr", address_text),
        _value("phs", "owningAddr", address_phase),
        _value("cap", "capacity"),
        _value("pri", "priority"),
        _value("undel", "undeliveredCount"),
        _value("unsett", "unsettledCount"),
        _value("deliv", "deliveryCount"),
        _value("presett", "presettledCount"),
        _value("psdrop", "droppedPresettledCount"),
        _value("acc", "acceptedCount"),
        _value("rej", "rejectedCount"),
        _value("rel", "releasedCount"),
        _value("mod", "modifiedCount"),
        _whole("delay", ("deliveriesDelayed1Sec", "deliveriesDelayed10Sec"), _delayed),
        _value("rate", "settleRate"),
        _value("stuck", "deliveriesStuck"),
        _value("cred", "creditAvailable"),
        _value("blkd", "zeroCreditSeconds", clock),
        _value("admin", "adminStatus", verbose=True),
        _value("oper", "operStatus", verbose=True),
        _value("name", "linkName", verbose=True),
    ),
    last=lambda row: row.get("linkType") != "endpoint",  # a router has dozens of links to each neighbour
)

NODES = View(
    "Routers in the Network",
    "router.node",
    (
        _value("router-id", "id"),
        _value("next-hop", "nextHop", lambda value: plain(value or "-")),
        _whole("link", ("nextHop", "routerLink", "lastTopoChange"), _route),
        _value("ver", "protocolVersion", verbose=True),
        _value("cost", "cost", verbose=True),
        _value("neighbors", "linkState", text_list, verbose=True),
        _value("valid-origins", "validOrigins", text_list, verbose=True),
    ),
    sort="router-id",
    empty="Router is Standalone or Edge - No Router List",
    headline=_last_change,
)

ADDRESSES = View(
    "Router Addresses",
    "router.address",
    (
        _value("class", "name", address_class),
        _value("addr", "name", address_text),
        _value("phs", "name", address_phase),
        _value("distrib", "distribution"),
        _value("pri", "priority", lambda value: "-" if value is None or value < 0 else plain(value), verbose=True),
        _value("in-proc", "inProcess", commas),
        _value("local", "subscriberCount", commas),
        _value("remote", "remoteCount", commas),
        _value("cntnr", "containerCount", commas),
        _value("in", "deliveriesIngress", commas),
        _value("out", "deliveriesEgress", commas),
        _value("thru", "deliveriesTransit", commas),
        _value("fallback", "deliveriesRedirectedToFallback", commas, verbose=True),
        _value("expired", "expiredDeliveries", commas, verbose=True),
        _value("to-proc", "deliveriesToContainer", commas),
        _value("from-proc", "deliveriesFromContainer", commas),
    ),
    sort="addr",
)

AUTOLINKS = View(
    "AutoLinks",
    "router.config.autoLink",
    (
        _value("addr", "address"),
        _value("dir", "direction"),
        _value("phs", "phase"),
        _value("extAddr", "externalAddress"),
        _value("link", "linkRef"),
        _value("status", "operStatus"),
        _value("lastErr", "lastError"),
    ),
    sort="addr",
    empty="AutoLinks\nNo AutoLinks found",
)

LINK_ROUTES = View(
    "Link Routes",
    "router.config.linkRoute",
    (
        _whole("address", ("prefix", "pattern"), _either("prefix", "pattern")),
        _value("dir", "direction"),
        _value("distrib", "distribution"),
        _value("status", "operStatus"),
        _value("add-ext-prefix", "addExternalPrefix", verbose=True),
        _value("del-ext-prefix", "delExternalPrefix", verbose=True),
    ),
    sort="address",
    empty="Link Routes\nNo Link Routes found",
)

VHOSTS = View(
    "Vhosts",
    "vhost",
    tuple(
        _value(name, name)
        for name in (
            "hostname",
            "maxConnections",
            "maxConnectionsPerUser",
            "maxConnectionsPerHost",
            "maxMessageSize",
            "allowUnknownUser",
        )
    ),
    sort="hostname",
    empty="Vhosts\nNo Vhosts found",
)


def _groups(rows: Iterable[Row]) -> Iterable[Table]:
    """A table of settings for each user group."""
    for row in rows:
        for name, settings in (row.get("groups") or {}).items():
            cells = [[key, plain(value)] for key, value in settings.items() if value is not None]
            yield f"Vhost '{plain(row.get('hostname'))}' UserGroup '{name}'", ["attr", "value"], cells


def _users(rows: Iterable[Row]) -> Iterable[Table]:
    """The open connections of each user and from each host of all vhosts, if there are any."""
    for title, heading, attribute in (
        ("Vhost User Stats", "user", "perUserState"),
        ("Vhost Host Stats", "host", "perHostState"),
    ):
        found = [
            [plain(row.get("hostname")), key, plain(number)]
            for row in rows
            for key, number in (row.get(attribute) or {}).items()
        ]
        if found:
            yield title, ["vhost", heading, "connections"], sorted(found)


VHOST_GROUPS = View(
    "Vhost Groups",
    "vhost",
    (_value("vhost", "hostname"), _value("groups", "groups", lambda groups: ", ".join(groups or {}))),
    sort="vhost",
    empty="Vhost Groups\nNo Vhost Groups found",
    further=_groups,
)
VHOST_STATS = View(
    "Vhost Stats",
    "vhostStats",
    (
        _value("hostname", "hostname"),
        *(
            _value(name, name)
            for name in (
                "connectionsApproved",
                "connectionsDenied",
                "connectionsCurrent",
                "sessionDenied",
                "senderDenied",
                "receiverDenied",
                "maxMessageSizeDenied",
            )
        ),
    ),
    sort="hostname",
    empty="Vhost Stats\nNo Vhost Stats found",
    further=_users,
    hidden=("perUserState", "perHostState"),
)

OBJECTS = View(
    "Objects",
    "allocator",
    (
        _value("type", "typeName"),
        _value("size", "typeSize", commas),
        _value("batch", "transferBatchSize", verbose=True),
        _value("thread-max", "localFreeListMax", verbose=True),
        _value("total", "totalAllocFromHeap", commas),
        _value("in-threads", "heldByThreads", commas),
        _value("rebal-in", "batchesRebalancedToThreads", verbose=True),
        _value("rebal-out", "batchesRebalancedToGlobal", verbose=True),
    ),
    sort="type",
)
"""Columns about pools are only in the wide table: routers of Waymesh have no pools."""
