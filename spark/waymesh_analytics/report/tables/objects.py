"""Tables from the counters and states of links, routers, addresses, connections, autolinks and link routes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import functions as F

from waymesh_analytics.rollups.definitions import (
    ADDRESS_COUNTERS,
    CONNECTION_KEYS,
    LINK_KEYS,
    OTHERS,
)
from waymesh_analytics.rollups.reader import MOST_ROWS, STARVED_S, Rollups
from waymesh_analytics.store.schemas import HOUR

from .rows import convert, merge, sort_rows, with_others
from .table import Count, Table, Text, Time, make_table

FLAPS = 3
"""An autolink that was lost this often is flapping."""


@dataclass(frozen=True, slots=True)
class Link:
    """A client's link."""

    state: Text
    router: Text
    boot: Count
    link_id: Count
    container: Text | None
    name: Text | None
    dir: Text | None
    address: Text | None
    deliveries: Count | None
    presettled: Count | None
    dropped_presettled: Count | None
    accepted: Count | None
    rejected: Count | None
    released: Count | None
    modified: Count | None
    delayed_1s: Count | None
    delayed_10s: Count | None
    zero_credit_s: Count | None
    undelivered: Count | None
    unsettled: Count | None
    stuck: Count | None


@dataclass(frozen=True, slots=True)
class Router:
    """A boot of a router."""

    router: Text
    boot: Count
    mesh: Text | None
    version: Text | None
    uptime_s: Count | None
    presettled: Count | None
    dropped_presettled: Count | None
    accepted: Count | None
    rejected: Count | None
    released: Count | None
    modified: Count | None
    ingress: Count | None
    egress: Count | None
    transit: Count | None
    ingress_route_container: Count | None
    egress_route_container: Count | None
    fallback: Count | None
    delayed_1s: Count | None
    delayed_10s: Count | None
    cpu_us: Count | None
    connections: Count | None
    links: Count | None
    addresses: Count | None
    stuck: Count | None
    blocked_links: Count | None
    unsettled: Count | None
    rss: Count | None
    loop_lag_us: Count | None


@dataclass(frozen=True, slots=True)
class Address:
    """An address, at all routers."""

    address: Text
    phase: Count | None
    distribution: Text | None
    ingress: Count | None
    egress: Count | None
    transit: Count | None
    to_container: Count | None
    from_container: Count | None
    subscribers: Count | None
    producers: Count | None
    pending: Count | None


@dataclass(frozen=True, slots=True)
class Connection:
    """The connections of a container to a router."""

    router: Text
    container: Text | None
    host: Text | None
    dir: Text | None
    role: Text | None
    user: Text | None
    sasl: Text | None
    tls_proto: Text | None
    opened: Count
    closed: Count
    failed: Count
    error: Text | None


@dataclass(frozen=True, slots=True)
class AutoLink:
    """An autolink at a router."""

    state: Text
    router: Text
    name: Text
    address: Text | None
    dir: Text | None
    container: Text | None
    connection: Text | None
    ups: Count
    downs: Count
    failures: Count
    last_state: Text | None
    last_error: Text | None
    last: Time | None


@dataclass(frozen=True, slots=True)
class LinkRoute:
    """A link route at a router."""

    router: Text
    name: Text
    pattern: Text | None
    dir: Text | None
    downs: Count
    last_state: Text | None
    last: Time | None


def links(rollups: Rollups) -> Table[Link]:
    """Every link of a client: counters, and whether it is stuck or starved."""
    waiting = _waiting(rollups)
    found = [row for row in rollups.links if row["type"] == "endpoint"]
    for row in found:
        starved = any(
            hour["waited"] or (hour[HOUR], hour["address"], hour["phase"]) in waiting for hour in row["idle"]
        )
        row["state"] = "stuck" if (row["stuck"] or 0) > 0 else "starved" if starved else ""
        row["rank"] = ("", "starved", "stuck").index(row["state"])
    return make_table(
        "links",
        "Links",
        "Counters in this time. stuck: deliveries unsettled for more than 10 s; starved: no credit for "
        f"{STARVED_S} s or more in an hour in which deliveries waited. The last four columns are maxima. At most "
        f"{MOST_ROWS:,} links: first those that are stuck or were long without credit.",
        Link,
        convert(Link, sort_rows(found, ("rank", "stuck", "zero_credit_s"), LINK_KEYS)),
    )


def _waiting(rollups: Rollups) -> set[tuple[str, str, int]]:
    """The hours, addresses and phases in which deliveries waited at any router."""
    return {(hour, row["address"], row["phase"]) for row in rollups.addresses for hour in row["waited"]}


def routers(rollups: Rollups) -> Table[Router]:
    """Counters and resource use of each boot of a router."""
    return make_table(
        "routers",
        "Routers",
        "Counters in this time, one row for each boot of a router; the other columns are maxima.",
        Router,
        convert(Router, sort_rows(rollups.routers, (), ("router", "boot"))),
    )


def addresses(rollups: Rollups) -> Table[Address]:
    """The counters of each address at all routers, which are not sampled."""
    maxima = ("subscribers", "producers", "pending")
    rows = merge(rollups.addresses, ("address", "phase"), ADDRESS_COUNTERS, ("distribution", *maxima))
    return make_table(
        "addresses",
        "Addresses",
        "Counters of all routers in this time, not sampled. subscribers, producers and pending: the maximum at one "
        "router.",
        Address,
        convert(Address, sort_rows(rows, ("ingress",), ("address", "phase"))),
    )


def connections(rollups: Rollups) -> Table[Connection]:
    """Which containers connected, and how often their connections failed."""
    names = ("opened", "closed", "failed")
    sums = [F.sum(name).alias(name) for name in names]
    order = [F.desc("failed"), F.desc("opened")]
    rows = rollups.rows("connections", CONNECTION_KEYS, *sums, F.max("error").alias("error"), first=order)
    rows = with_others(rows, lambda: rollups.rows("connections", ("router",), *sums), ("router",), names)
    return make_table(
        "connections",
        "Connections",
        "Connections opened and closed in this time. failed: closed with an error. Where there are very many "
        f"containers, those with few connections are one row, {OTHERS}.",
        Connection,
        convert(Connection, sort_rows(rows, ("failed", "opened"), CONNECTION_KEYS)),
    )


def autolinks(rollups: Rollups) -> Table[AutoLink]:
    """How stable autolinks were."""
    texts = [F.max(name).alias(name) for name in ("address", "dir", "container", "connection")]
    sums = [F.sum(name).alias(name) for name in ("ups", "downs", "failures")]
    latest = F.max_by("state", F.struct("boot", "last_seq")).alias("last_state")
    failed = F.when(F.col("last_error").isNotNull(), F.struct("boot", "error_seq"))
    error = F.max_by("last_error", failed).alias("last_error")
    last = F.max("last_ts").alias("last")
    rows = rollups.rows("autolinks", ("router", "name"), *texts, *sums, latest, error, last)
    for row in rows:
        down = row["last_state"] not in ("active", "removed")
        row["state"] = "flapping" if row["downs"] >= FLAPS else "down" if down else ""
    return make_table(
        "autolinks",
        "Autolinks",
        f"How often each became active (ups), was lost (downs) or failed. flapping: lost {FLAPS} times or more.",
        AutoLink,
        convert(AutoLink, sort_rows(rows, ("downs", "failures"), ("router", "name"))),
    )


def linkroutes(rollups: Rollups) -> Table[LinkRoute]:
    """How stable link routes were."""
    rows = rollups.rows(
        "linkroutes",
        ("router", "name"),
        F.max("pattern").alias("pattern"),
        F.max("dir").alias("dir"),
        F.sum("downs").alias("downs"),
        F.max_by("state", F.struct("boot", "last_seq")).alias("last_state"),
        F.max("last_ts").alias("last"),
    )
    return make_table(
        "linkroutes",
        "Link routes",
        "How often each was lost (downs), and its last state.",
        LinkRoute,
        convert(LinkRoute, sort_rows(rows, ("downs",), ("router", "name"))),
    )
