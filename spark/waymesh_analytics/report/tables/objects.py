"""What the counters of links, routers, addresses and connections say."""

from __future__ import annotations

from pyspark.sql import functions as F

from waymesh_analytics.rollups.definitions import (
    ADDRESS_COUNTERS,
    CONNECTION_KEYS,
    LINK_COUNTERS,
    LINK_KEYS,
    LINK_TEXTS,
    ROUTER_COUNTERS,
    ROUTER_GAUGES,
)
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.store.schemas import HOUR

from .rows import merged, ordered
from .table import COUNT, TEXT, TIME, Column, Table, columns, fill_from

STARVED_S = 10
"""A link without credit for so long, while deliveries wait, is starved."""
FLAPS = 3
"""An autolink that was lost so often flaps."""


def links(rollups: Rollups) -> Table:
    """Every link of a client: what passed, and what is wrong with it."""
    inside = rollups.inside
    worst = ("zero_credit_s", "undelivered", "unsettled", "stuck")
    idle = inside & (F.col("dir") == "out") & (F.col("zero_credit_s") >= STARVED_S)
    place = F.struct(HOUR, "address", "phase", (F.col("undelivered") > 0).alias("waited"))
    rows = rollups.totals(
        "links",
        LINK_COUNTERS,
        F.max(inside & F.col("fresh")),
        *[F.max(name).alias(name) for name in LINK_TEXTS],
        *[F.max(F.when(inside, F.col(name))).alias(name) for name in worst],
        F.collect_set(F.when(idle, place)).alias("idle"),
    )
    table = Table(
        "links",
        "Links",
        f"Counters in this time. stuck: deliveries unsettled for more than 10 s; starved: no credit for {STARVED_S} s "
        "or more in an hour in which deliveries waited. The last four columns are the greatest values seen.",
        (
            *columns(state=TEXT, router=TEXT, boot=COUNT, link_id=COUNT),
            *columns(container=TEXT, name=TEXT, dir=TEXT, address=TEXT),
            *[Column(name, COUNT) for name in (*LINK_COUNTERS, *worst)],
        ),
    )
    waiting = _waiting(rollups)
    found = [row for row in rows if row["type"] == "endpoint"]
    for row in found:
        starved = any(there["waited"] or tuple(there)[:3] in waiting for there in row["idle"])
        row["state"] = "stuck" if (row["stuck"] or 0) > 0 else "starved" if starved else ""
        row["rank"] = ("", "starved", "stuck").index(row["state"])
    return fill_from(table, ordered(found, ("rank", "stuck", "zero_credit_s"), LINK_KEYS))


def _waiting(rollups: Rollups) -> set[tuple[str, str, int]]:
    """Where deliveries waited, at any router: hour, address and phase."""
    place = (HOUR, "address", "phase")
    found = rollups.rows("addresses", place, F.max("pending").alias("pending"), where=F.col("pending") > 0)
    return {(row[HOUR], row["address"], row["phase"]) for row in found}


def routers(rollups: Rollups) -> Table:
    """What each router did and needed."""
    table = Table(
        "routers",
        "Routers",
        "Counters in this time, one row for each start of a router; the other columns are the greatest values seen.",
        (
            *columns(router=TEXT, boot=COUNT, version=TEXT, uptime_s=COUNT),
            *[Column(name, COUNT) for name in (*ROUTER_COUNTERS, *ROUTER_GAUGES)],
        ),
    )
    most = [F.max(F.when(rollups.inside, F.col(name))).alias(name) for name in ("uptime_s", *ROUTER_GAUGES)]
    version = F.max("version").alias("version")
    rows = rollups.totals("routers", ROUTER_COUNTERS, rollups.started_inside, version, *most)
    return fill_from(table, ordered(rows, (), ("router", "boot")))


def addresses(rollups: Rollups) -> Table:
    """What passed by each address, by the counters of all routers: no sampling."""
    most = ("subscribers", "producers", "pending")
    table = Table(
        "addresses",
        "Addresses",
        "Counters of all routers in this time, not sampled; subscribers, producers and pending: the most at one.",
        (
            *columns(address=TEXT, phase=COUNT, distribution=TEXT),
            *[Column(n, COUNT) for n in (*ADDRESS_COUNTERS, *most)],
        ),
    )
    each = rollups.totals(
        "addresses",
        ADDRESS_COUNTERS,
        rollups.started_inside,
        F.max("distribution").alias("distribution"),
        *[F.max(F.when(rollups.inside, F.col(name))).alias(name) for name in most],
    )
    rows = merged(each, ("address", "phase"), ADDRESS_COUNTERS, ("distribution", *most))
    return fill_from(table, ordered(rows, ("ingress",), ("address", "phase")))


def connections(rollups: Rollups) -> Table:
    """Who connected, and how often it ended."""
    table = Table(
        "connections",
        "Connections",
        "Opened and closed in this time; failed: closed with an error.",
        (*[Column(name) for name in CONNECTION_KEYS], *columns(opened=COUNT, closed=COUNT, failed=COUNT, error=TEXT)),
    )
    sums = [F.sum(name).alias(name) for name in ("opened", "closed", "failed")]
    rows = rollups.rows("connections", CONNECTION_KEYS, *sums, F.max("error").alias("error"))
    return fill_from(table, ordered(rows, ("failed", "opened"), CONNECTION_KEYS))


def autolinks(rollups: Rollups) -> Table:
    """Which autolinks came and went."""
    table = Table(
        "autolinks",
        "Autolinks",
        f"How often each was gained, lost and refused. flapping: lost {FLAPS} times or more.",
        columns(
            state=TEXT,
            router=TEXT,
            name=TEXT,
            address=TEXT,
            dir=TEXT,
            container=TEXT,
            connection=TEXT,
            ups=COUNT,
            downs=COUNT,
            failures=COUNT,
            last_state=TEXT,
            last_error=TEXT,
            last=TIME,
        ),
    )
    texts = [F.max(name).alias(name) for name in ("address", "dir", "container", "connection")]
    sums = [F.sum(name).alias(name) for name in ("ups", "downs", "failures")]
    latest = F.max_by("state", F.struct("boot", "last_seq")).alias("last_state")
    failed = F.when(F.col("last_error").isNotNull(), F.struct("boot", "error_seq"))
    error = F.max_by("last_error", failed).alias("last_error")
    last = F.max("last_ts").alias("last")
    rows = rollups.rows("autolinks", ("router", "name"), *texts, *sums, latest, error, last)
    for row in rows:
        gone = row["last_state"] not in ("active", "removed")
        row["state"] = "flapping" if row["downs"] >= FLAPS else "down" if gone else ""
    return fill_from(table, ordered(rows, ("downs", "failures"), ("router", "name")))


def linkroutes(rollups: Rollups) -> Table:
    """Which link routes came and went."""
    table = Table(
        "linkroutes",
        "Link routes",
        "How often each was lost, and the state that it was left in.",
        columns(router=TEXT, name=TEXT, pattern=TEXT, dir=TEXT, downs=COUNT, last_state=TEXT, last=TIME),
    )
    rows = rollups.rows(
        "linkroutes",
        ("router", "name"),
        F.max("pattern").alias("pattern"),
        F.max("dir").alias("dir"),
        F.sum("downs").alias("downs"),
        F.max_by("state", F.struct("boot", "last_seq")).alias("last_state"),
        F.max("last_ts").alias("last"),
    )
    return fill_from(table, ordered(rows, ("downs",), ("router", "name")))
