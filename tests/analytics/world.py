"""A mesh of three routers over three hours with known traffic and one fault of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.analytics.export import HOUR_US, RouterExport
from waymesh_schema.telemetry import ORDERLY_STOP

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
ORDERS, NEWS = 40, 20
ORDERS_WEIGHT = 2.0
LOST_LINKS = 3
"""Records of links that A dropped, as it says itself."""
LOST_DELIVERIES = 5
"""Records of deliveries that B made last and that never arrived."""
JUMP_MS = 5000


def build(root: Path) -> None:
    """Write the export."""
    a, b = RouterExport(root, "A"), RouterExport(root, "B")
    c, again = RouterExport(root, "C"), RouterExport(root, "C", boot_us=90 * MINUTE_US)
    _orders(a, b)
    _news(a, c)
    _links(a, b, c)
    _autolinks(a, b)
    _events(a, b, c)
    _topology(a, b, c)
    _connections(a)
    _routers(a, b, c, again)
    for router in (a, b, c, again):
        router.write()


def settle_us(number: int) -> int:
    """Of the delivery to orders with this number."""
    return 1000 * (number + 1)


def by_hour(count: int) -> list[int]:
    """Numbers of deliveries in the order of their times."""
    return sorted(range(count), key=lambda number: (number % 3, number))


def _delivery(router: RouterExport, number: int, **values: object) -> None:
    at = (number % 3) * HOUR_US + 10 * MINUTE_US + number * SECOND_US
    base = {"sid": number + 1, "phase": 0, "priority": 4, "ingress": "A", "streaming": False, "presettled": False}
    router.put("delivery", at, **{**base, **values})


def _orders(a: RouterExport, b: RouterExport) -> None:
    """p1 at A to c1 (30) and c2 (10) at B, all accepted, each sample for two."""
    for number in by_hour(ORDERS):
        same = {"address": "orders", "outcome": "accepted", "size": 100, "weight": ORDERS_WEIGHT}
        _delivery(a, number, half="in", hops=0, producer="p1", settle_us=settle_us(number), queue_us=5, **same)
        consumer = "c2" if number % 4 == 3 else "c1"
        way = {"egress": "B", "path": "A|B", "hops": 1, "consumer": consumer}
        _delivery(b, number, half="out", settle_us=500, queue_us=number, **way, **same)
    b.lose("delivery", LOST_DELIVERIES)


def news_outcome(number: int) -> str:
    """Of the delivery to news with this number."""
    return {0: "rejected", 1: "rejected", 2: "released", 3: "modified", 4: "presettled"}.get(number, "accepted")


def _news(a: RouterExport, c: RouterExport) -> None:
    """p2 at A to c3 at C; five go by way of B."""
    for number in by_hour(NEWS):
        same = {"address": "news", "outcome": news_outcome(number), "size": 10, "weight": 1.0}
        _delivery(a, number, half="in", hops=0, producer="p2", settle_us=64, queue_us=0, **same)
        path = "A|B|C" if number < 5 else "A|C"
        way = {"egress": "C", "path": path, "hops": path.count("|"), "consumer": "c3"}
        _delivery(c, number, half="out", settle_us=40, queue_us=0, **way, **same)


def _link(router: RouterExport, at: int, number: int, event: str = "interval", **values: object) -> None:
    base: dict[str, object] = {"type": "endpoint", "role": "normal", "dir": "out", "address": "orders", "phase": 0}
    base["stuck"] = 0
    base |= {"deliveries": 0, "accepted": 0, "zero_credit_s": 0, "undelivered": 0, "unsettled": 0, "conn_id": number}
    router.put("link", at, event=event, link_id=number, **{**base, **values})


def _links(a: RouterExport, b: RouterExport, c: RouterExport) -> None:
    _link(b, 0, 7, "attach", container="c1")
    for hour in range(3):
        count = 10 * (hour + 1)
        _link(b, hour * HOUR_US + 30 * MINUTE_US, 7, container="c1", deliveries=count, accepted=count)
    _link(b, MINUTE_US, 8, "attach", container="c2")
    _link(b, HOUR_US + MINUTE_US, 8, container="c2", deliveries=10, unsettled=3, stuck=3)
    _link(c, MINUTE_US, 9, "attach", container="slow", address="news")
    _link(c, 20 * MINUTE_US, 9, container="slow", address="news", zero_credit_s=400, undelivered=12)
    _link(c, MINUTE_US, 10, "attach", container="idle", address="quiet")
    _link(c, 20 * MINUTE_US, 10, container="idle", address="quiet", zero_credit_s=1100)
    _link(a, MINUTE_US, 1, "attach", container="p1", dir="in")
    a.lose("link", LOST_LINKS)
    # Attached before the first record that is left of it: what it carried until then is not of these hours.
    _link(a, 5 * MINUTE_US, 2, container="p2", dir="in", address="news", deliveries=1000)
    _link(a, 65 * MINUTE_US, 2, "detach", container="p2", dir="in", address="news", deliveries=1020)
    between: dict[str, Any] = {"type": "inter-router", "role": "inter-router", "address": None}
    _link(a, MINUTE_US, 3, "attach", container="B", **between)
    _link(a, 150 * MINUTE_US, 3, container="B", deliveries=70, **between)
    # B counts ten more, which A recorded before its records were lost.
    _link(b, MINUTE_US, 11, "attach", container="A", dir="in", **between)
    _link(b, 150 * MINUTE_US, 11, container="A", dir="in", deliveries=80, dropped_presettled=2, **between)


def _autolinks(a: RouterExport, b: RouterExport) -> None:
    base = {"address": "queue", "dir": "in", "phase": 1, "container": "broker"}
    state: str | None = None
    for number, after in enumerate(["inactive", "attaching", *["active", "failed", "attaching"] * 4, "active"]):
        error = "amqp:resource-deleted: gone" if after == "failed" else None
        a.put("autolink", number * MINUTE_US, name="flappy", last_error=error, **base, **{"from": state, "to": after})
        state = after
    b.put("autolink", 0, name="steady", **base, **{"from": "attaching", "to": "active"})
    for hour in (1, 2):
        b.put("autolink", hour * HOUR_US, name="steady", **base, **{"from": "active", "to": "active"})
    b.put("autolink", 0, name="dead", last_error="no such queue", **base, **{"from": "attaching", "to": "failed"})
    b.put("linkroute", 0, name="route", pattern="q.#", dir="both", **{"from": None, "to": "inactive"})
    b.put("linkroute", MINUTE_US, name="route", pattern="q.#", dir="both", **{"from": "inactive", "to": "active"})
    b.put("linkroute", 2 * MINUTE_US, name="route", pattern="q.#", dir="both", **{"from": "active", "to": "inactive"})


def _change(at: int, *heard: tuple[RouterExport, int]) -> None:
    for number, (router, after_ms) in enumerate(heard):
        values = {"severity": "info", "object": router.name, "detail": {"change_id": str(number)}}
        router.put("event", at + after_ms * 1000, event="topology.change", **values)
    for number, (router, after_ms) in enumerate(heard):
        detail = {"change_id": str(number), "changes": "1", "duration_us": str(2000 + 1000 * after_ms)}
        values = {"severity": "info", "object": router.name, "detail": detail}
        router.put("event", at + after_ms * 1000 + 5 * SECOND_US, event="topology.converged", **values)


def _events(a: RouterExport, b: RouterExport, c: RouterExport) -> None:
    _change(10 * SECOND_US, (a, 0), (b, 20), (a, 100), (c, 150))
    _change(80 * MINUTE_US, (b, 0), (a, 70))
    _change(100 * MINUTE_US, (a, 0), (b, 30), (c, 40))
    for minute in range(3):
        detail = {"user": "eve", "address": "secret"}
        a.put("event", minute * MINUTE_US, event="policy.denied", severity="warning", object="eve", detail=detail)
    for minute in range(2):
        b.put("event", minute * MINUTE_US, event="link.refused", severity="warning", object="link-7", detail={})
    down = {"event": "connection.down", "severity": "warning"}
    for router, other, error in ((b, "C", "closed by the peer"), (a, "C", ORDERLY_STOP)):
        detail = {"role": "inter-router", "connection": "3", "error": f"amqp:connection:forced: {error}"}
        router.put("event", 85 * MINUTE_US, object=other, detail=detail, **down)
    b.put("event", 0, event="log.warning", severity="warning", object="ROUTER", detail={"text": "careful"})


def _topology(a: RouterExport, b: RouterExport, c: RouterExport) -> None:
    neighbours = {"A": {"B": 1, "C": 1}, "B": {"A": 1, "C": 1}, "C": {"A": 1, "B": 1}}
    for router in (a, b, c):
        for dest, costs in neighbours.items():
            cost = int(dest != router.name)
            router.put("node", 10 * SECOND_US, dest=dest, cost=cost, neighbours=costs, gone=False)


def _connections(a: RouterExport) -> None:
    base = {"container": "p1", "host": "10.0.0.1", "dir": "in", "role": "normal", "user": "anonymous"}
    a.put("connection", SECOND_US, event="open", conn_id=1, properties={"product": "test"}, **base)
    a.put("connection", MINUTE_US, event="interval", conn_id=1, properties={}, **base)
    a.put("connection", 2 * MINUTE_US, event="close", conn_id=1, error="amqp:connection:forced: bye", **base)
    a.put("connection", 3 * MINUTE_US, event="open", conn_id=2, **base)


def _routers(a: RouterExport, b: RouterExport, c: RouterExport, again: RouterExport) -> None:
    for hour in range(3):
        at = hour * HOUR_US + 59 * MINUTE_US
        base = {"version": "0.1.0", "mode": "interior", "connections": 2}
        counters = {"ingress": 60 * (hour + 1), "cpu_us": 1000 * (hour + 1)}
        a.put("router", at, records=dict(a.seqs), dropped={"link": LOST_LINKS}, **counters, **base)
        b.put("router", at, egress=40 * (hour + 1), records=dict(b.seqs), dropped={}, **base)
    a.put("address", MINUTE_US, address="orders", phase=0, distribution="balanced", ingress=10, pending=0)
    base = {"address": "orders", "phase": 0, "distribution": "balanced"}
    a.put("address", 150 * MINUTE_US, ingress=80, pending=4, **base)
    b.put("address", 150 * MINUTE_US, address="orders", phase=0, distribution="balanced", egress=80, subscribers=2)
    c.put("router", 59 * MINUTE_US, version="0.1.0", records=dict(c.seqs), dropped={})
    again.put("router", 100 * MINUTE_US, version="0.1.0", records={}, dropped={})
    again.skew_us = JUMP_MS * 1000
    again.put("router", 110 * MINUTE_US, version="0.1.0", records={"router": 1}, dropped={})
