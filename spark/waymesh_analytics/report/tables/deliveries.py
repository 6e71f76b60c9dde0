"""Tables from sampled deliveries: traffic, latency, outcomes, paths, balance."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from pyspark.sql import functions as F

from waymesh_analytics.report.statistics import cheapest_hops, jain
from waymesh_analytics.rollups.buckets import percentiles
from waymesh_analytics.rollups.definitions import FAILED, OTHERS, OUTCOMES
from waymesh_analytics.rollups.reader import Rollups, Row

from .rows import convert, merge, sort_rows, with_others
from .table import Count, Number, Share, Table, Text, make_table

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
ADDRESS = ("address", "phase")
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Deliveries of an address from one router to another."""

    address: Text | None
    phase: Count | None
    ingress: Text | None
    egress: Text | None
    samples: Count
    deliveries: Count
    bytes: Count
    mean_hops: Number
    queue_mean_us: Number | None
    queue_max_us: Count | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Settlement times of an address."""

    address: Text | None
    phase: Count | None
    samples: Count
    deliveries: Count
    mean_us: Number
    p50_us: Number
    p90_us: Number
    p95_us: Number
    p99_us: Number
    p999_us: Number
    max_us: Count


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How the deliveries of an address ended."""

    address: Text | None
    phase: Count | None
    samples: Count
    deliveries: Count
    accepted: Count
    rejected: Count
    released: Count
    modified: Count
    presettled: Count
    dropped: Count
    settled: Count
    lost: Count
    failed_share: Share


@dataclass(frozen=True, slots=True)
class HopInflation:
    """Actual hops between two routers compared to the cheapest path."""

    ingress: Text
    egress: Text
    deliveries: Count
    mean_hops: Number
    cheapest_hops: Count
    inflation: Number
    longer: Count
    longer_share: Share


@dataclass(frozen=True, slots=True)
class Talker:
    """What a container sent to or received from an address."""

    address: Text | None
    phase: Count | None
    side: Text
    container: Text | None
    samples: Count
    deliveries: Count
    bytes: Count


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly the deliveries of an address were distributed."""

    address: Text | None
    phase: Count | None
    deliveries: Count
    consumers: Count
    consumers_jain: Share
    routers: Count
    routers_jain: Share


def _half(rollups: Rollups, half: str) -> list[Row]:
    return [row for row in rollups.flows if row["half"] == half]


def traffic(rollups: Rollups) -> Table[Traffic]:
    """Address × ingress router × egress router."""
    keys = (*ADDRESS, "ingress", "egress")
    flows = ({**row, "steps": (row["hops"] or 0) * row["deliveries"]} for row in _half(rollups, "out"))
    rows = merge(flows, keys, ("samples", "deliveries", "bytes", "steps", "queue_us"), ("queue_max_us",))
    for row in rows:
        count = row["deliveries"]
        row["mean_hops"] = row["steps"] / count
        row["queue_mean_us"] = None if row["queue_us"] is None else row["queue_us"] / count
    return make_table(
        "traffic",
        "Traffic matrix",
        "Deliveries that left the mesh, by address, ingress router and egress router.",
        Traffic,
        convert(Traffic, sort_rows(rows, ("deliveries",), keys)),
    )


def latency(rollups: Rollups) -> Table[Latency]:
    """Percentiles of the time to settlement."""
    sums = [F.sum(name).alias(name) for name in ("samples", "deliveries")]
    buckets: dict[Address, dict[int, float]] = defaultdict(dict)
    samples: dict[Address, int] = defaultdict(int)
    for row in rollups.rows("latency", (*ADDRESS, "bucket"), *sums):
        key = (row["address"], row["phase"])
        buckets[key][row["bucket"]] = row["deliveries"]
        samples[key] += row["samples"]
    rows = []
    for row in merge(_half(rollups, "in"), ADDRESS, ("settles", "settle_us"), ("settle_max_us",)):
        key = (row["address"], row["phase"])
        if buckets[key]:
            longest = row["settle_max_us"]
            p50, p90, p95, p99, p999 = (min(value, longest) for value in percentiles(buckets[key], SHARES))
            rows.append(
                Latency(
                    *key,
                    samples=samples[key],
                    deliveries=row["settles"],
                    mean_us=row["settle_us"] / row["settles"],
                    p50_us=p50,
                    p90_us=p90,
                    p95_us=p95,
                    p99_us=p99,
                    p999_us=p999,
                    max_us=longest,
                )
            )
    return make_table(
        "latency",
        "Settlement latency",
        "Time from the arrival of a delivery at its ingress router to its settlement there, measured by one clock. The "
        "error of percentiles is at most 1.6 %.",
        Latency,
        sorted(rows, key=lambda row: (-row.p99_us, str(row.address), row.phase or 0)),
    )


def outcomes(rollups: Rollups) -> Table[Outcomes]:
    """How deliveries ended, by address."""
    rows = merge(_half(rollups, "in"), ADDRESS, ("samples", "deliveries", *OUTCOMES))
    for row in rows:
        row["failed_share"] = sum(row[name] for name in FAILED) / row["deliveries"]
    return make_table(
        "outcomes",
        "Settlement outcomes",
        "Outcomes of the deliveries that clients sent. settled: settled without an outcome; lost: the sender "
        "disconnected first.",
        Outcomes,
        convert(Outcomes, sort_rows(rows, ("deliveries",), ADDRESS)),
    )


def hops(rollups: Rollups) -> Table[HopInflation]:
    """How much longer paths were than necessary."""
    graph: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rollups.edges:
        graph[row["dest"]][row["neighbour"]] = row["cost"]
    flows: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in merge(_half(rollups, "out"), ("ingress", "egress", "hops"), ("deliveries",)):
        if row["hops"] is not None:
            flows[row["ingress"], row["egress"]][row["hops"]] = row["deliveries"]
    cheapest = {source: cheapest_hops(graph, source) for source in {ingress for ingress, _ in flows}}
    rows = []
    for (ingress, egress), by_hops in flows.items():
        least = cheapest[ingress].get(egress)
        if ingress == egress or least is None:
            continue
        count = sum(by_hops.values())
        mean = sum(number * deliveries for number, deliveries in by_hops.items()) / count
        longer = sum(deliveries for number, deliveries in by_hops.items() if number > least)
        row = {"deliveries": count, "mean_hops": mean, "cheapest_hops": least, "inflation": mean / least}
        row |= {"longer": longer, "longer_share": longer / count}
        rows.append({"ingress": ingress, "egress": egress, **row})
    return make_table(
        "hops",
        "Hop inflation",
        "Hops that deliveries took between two routers, compared to the cheapest path over all links that the routers "
        "knew in this time.",
        HopInflation,
        convert(HopInflation, sort_rows(rows, ("longer",), ("ingress", "egress"))),
    )


def talkers(rollups: Rollups) -> Table[Talker]:
    """The containers that sent and received most."""
    keys = (*ADDRESS, "half", "container")
    names = ("samples", "deliveries", "bytes")
    sums = [F.sum(name).alias(name) for name in names]
    rows = rollups.rows("flow", keys, *sums, first=[F.desc("deliveries")])
    sides = (*ADDRESS, "half")
    rows = with_others(rows, lambda: merge(rollups.flows, sides, names), sides, names)
    rows = sort_rows(rows, ("deliveries",), keys)
    return make_table(
        "talkers",
        "Top talkers",
        "Deliveries by the container that sent them (side in) or received them (side out). Where there are very many "
        f"containers, those with few deliveries are one row, {OTHERS}.",
        Talker,
        convert(Talker, ({**row, "side": row["half"]} for row in rows)),
    )


def balance(talkers: Table[Talker], traffic: Table[Traffic]) -> Table[Balance]:
    """How evenly the deliveries of each address were distributed."""
    consumers: dict[tuple[str | None, int | None], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    routers: dict[tuple[str | None, int | None], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for talker in talkers.rows:
        if talker.side == "out" and talker.container != OTHERS:
            consumers[talker.address, talker.phase][str(talker.container)] += talker.deliveries
    for flow in traffic.rows:
        routers[flow.address, flow.phase][str(flow.egress)] += flow.deliveries
    rows = []
    for key, shares in consumers.items():
        received, passed = list(shares.values()), list(routers[key].values()) or [0.0]
        rows.append(
            Balance(
                *key,
                deliveries=round(sum(received)),
                consumers=len(received),
                consumers_jain=jain(received),
                routers=len(passed),
                routers_jain=jain(passed),
            )
        )
    return make_table(
        "balance",
        "Balance",
        "Jain's fairness index of the deliveries to the consumers, and by egress routers, of an address: 1 is even, "
        "1/n means that one of n received everything. Consumers without any delivery are not counted.",
        Balance,
        sorted(rows, key=lambda row: (row.consumers_jain, str(row.address), row.phase or 0)),
    )
