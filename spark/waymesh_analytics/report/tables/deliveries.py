"""What the samples of deliveries say: who talks to whom, how long it takes, how it ends."""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import functions as F

from waymesh_analytics.report.statistics import cheapest_hops, jain
from waymesh_analytics.rollups.buckets import percentiles
from waymesh_analytics.rollups.definitions import OUTCOMES
from waymesh_analytics.rollups.reader import Rollups, Row

from .rows import merged, ordered
from .table import COUNT, NUMBER, SHARE, TEXT, Table, columns, fill, fill_from

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
ADDRESS = ("address", "phase")


def _half(rollups: Rollups, half: str) -> list[Row]:
    return [row for row in rollups.flows if row["half"] == half]


def traffic(rollups: Rollups) -> Table:
    """Who sends where: address × router of entry × router of exit."""
    table = Table(
        "traffic",
        "Traffic matrix",
        "Deliveries that left the mesh, by address, the router where they came in and the one where they went out.",
        columns(
            address=TEXT,
            phase=COUNT,
            ingress=TEXT,
            egress=TEXT,
            samples=COUNT,
            deliveries=COUNT,
            bytes=COUNT,
            mean_hops=NUMBER,
            queue_mean_us=NUMBER,
            queue_max_us=COUNT,
        ),
    )
    keys = (*ADDRESS, "ingress", "egress")
    flows = ({**row, "steps": (row["hops"] or 0) * row["deliveries"]} for row in _half(rollups, "out"))
    rows = merged(flows, keys, ("samples", "deliveries", "bytes", "steps", "queue_us"), ("queue_max_us",))
    for row in rows:
        count = row["deliveries"]
        row["mean_hops"] = row["steps"] / count
        row["queue_mean_us"] = None if row["queue_us"] is None else row["queue_us"] / count
    return fill_from(table, ordered(rows, ("deliveries",), keys))


def latency(rollups: Rollups) -> Table:
    """How long settlement takes."""
    table = Table(
        "latency",
        "Settlement latency",
        "From the arrival of a delivery at its first router to its outcome there, by one clock. Percentiles are right "
        "to 1.6 %.",
        columns(
            address=TEXT,
            phase=COUNT,
            samples=COUNT,
            deliveries=COUNT,
            mean_us=NUMBER,
            p50_us=NUMBER,
            p90_us=NUMBER,
            p95_us=NUMBER,
            p99_us=NUMBER,
            p999_us=NUMBER,
            max_us=COUNT,
        ),
    )
    sums = [F.sum(name).alias(name) for name in ("samples", "deliveries")]
    buckets: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    samples: dict[tuple[str, int], int] = defaultdict(int)
    for row in rollups.rows("latency", (*ADDRESS, "bucket"), *sums):
        key = (row["address"], row["phase"])
        buckets[key][row["bucket"]] = row["deliveries"]
        samples[key] += row["samples"]
    rows = []
    for row in merged(_half(rollups, "in"), ADDRESS, ("settles", "settle_us"), ("settle_max_us",)):
        key = (row["address"], row["phase"])
        if buckets[key]:
            mean, most = row["settle_us"] / row["settles"], row["settle_max_us"]
            found = [min(value, most) for value in percentiles(buckets[key], SHARES)]
            rows.append((*key, samples[key], row["settles"], mean, *found, most))
    return fill(table, sorted(rows, key=lambda row: (-row[8], str(row[0]), row[1] or 0)))


def outcomes(rollups: Rollups) -> Table:
    """How deliveries end."""
    table = Table(
        "outcomes",
        "Settlement outcomes",
        "What became of the deliveries that clients sent. settled: without an outcome; lost: its sender was.",
        columns(
            address=TEXT,
            phase=COUNT,
            samples=COUNT,
            deliveries=COUNT,
            **dict.fromkeys(OUTCOMES, COUNT),
            failed_share=SHARE,
        ),
    )
    rows = merged(_half(rollups, "in"), ADDRESS, ("samples", "deliveries", *OUTCOMES))
    for row in rows:
        failed = sum(row[name] for name in ("rejected", "released", "modified", "dropped"))
        row["failed_share"] = failed / row["deliveries"]
    return fill_from(table, ordered(rows, ("deliveries",), ADDRESS))


def hops(rollups: Rollups) -> Table:
    """How much longer ways are than they had to be."""
    table = Table(
        "hops",
        "Hop inflation",
        "Steps that deliveries took between two routers, beside those of the cheapest way over all links that the "
        "routers knew in this time.",
        columns(
            ingress=TEXT,
            egress=TEXT,
            deliveries=COUNT,
            mean_hops=NUMBER,
            cheapest_hops=COUNT,
            inflation=NUMBER,
            longer=COUNT,
            longer_share=SHARE,
        ),
    )
    graph: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rollups.rows("edges", ("dest", "neighbour"), F.min("cost").alias("cost")):
        graph[row["dest"]][row["neighbour"]] = row["cost"]
    flows: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in merged(_half(rollups, "out"), ("ingress", "egress", "hops"), ("deliveries",)):
        if row["hops"] is not None:
            flows[row["ingress"], row["egress"]][row["hops"]] = row["deliveries"]
    ways = {source: cheapest_hops(graph, source) for source in {ingress for ingress, _ in flows}}
    rows = []
    for (ingress, egress), by_steps in flows.items():
        least = ways[ingress].get(egress)
        if ingress == egress or least is None:
            continue
        count = sum(by_steps.values())
        mean = sum(steps * deliveries for steps, deliveries in by_steps.items()) / count
        longer = sum(deliveries for steps, deliveries in by_steps.items() if steps > least)
        rows.append((ingress, egress, count, mean, least, mean / least, longer, longer / count))
    return fill(table, sorted(rows, key=lambda row: (-round(row[6], 3), row[0], row[1])))


def talkers(rollups: Rollups) -> Table:
    """Who sends and receives most."""
    table = Table(
        "talkers",
        "Top talkers",
        "Deliveries by the container that sent them (side in) or received them (side out).",
        columns(address=TEXT, phase=COUNT, side=TEXT, container=TEXT, samples=COUNT, deliveries=COUNT, bytes=COUNT),
    )
    keys = (*ADDRESS, "half", "container")
    sums = [F.sum(name).alias(name) for name in ("samples", "deliveries", "bytes")]
    rows = ordered(rollups.rows("flow", keys, *sums), ("deliveries",), keys)
    return fill_from(table, ({**row, "side": row["half"]} for row in rows))


def balance(talkers: Table, traffic: Table) -> Table:
    """How evenly the deliveries of an address are shared out."""
    table = Table(
        "balance",
        "Balance",
        "Jain's index of what the consumers, and the routers, of an address received: 1 is even, 1/n is all to one of "
        "n. Consumers without any delivery are not seen.",
        columns(
            address=TEXT,
            phase=COUNT,
            deliveries=COUNT,
            consumers=COUNT,
            consumers_jain=SHARE,
            routers=COUNT,
            routers_jain=SHARE,
        ),
    )
    consumers: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    routers: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in talkers.dicts():
        if row["side"] == "out":
            consumers[row["address"], row["phase"]][str(row["container"])] += row["deliveries"]
    for row in traffic.dicts():
        routers[row["address"], row["phase"]][str(row["egress"])] += row["deliveries"]
    rows = []
    for key, shares in consumers.items():
        got, passed = list(shares.values()), list(routers[key].values()) or [0.0]
        rows.append((*key, sum(got), len(got), jain(got), len(passed), jain(passed)))
    return fill(table, sorted(rows, key=lambda row: (row[4], str(row[0]), row[1] or 0)))
