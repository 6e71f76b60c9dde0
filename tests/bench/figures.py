"""The figures that are measured, their units and targets, and what the C router needs for the same."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kit.long_turns import CASES

COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"
FLOOR: Final = "floor"
"""Name under which the figures of the byte relay stand beside those of the engines."""


NATS: Final = "nats-server"
"""Name of the leanest message router that people run, measured beside ours."""
PEER: Final = "peer"
"""Another AMQP router (`PEER_ROUTER`), measured beside ours."""
REFERENCES: Final = (NATS, FLOOR, PEER)


@dataclass(frozen=True)
class Target:
    """At most so much is good; `of`: so many times what this reference (NATS or FLOOR) needs in the same run."""

    at_most: float
    of: str | None = None

    def __str__(self) -> str:
        return f"≤ {self.at_most:g}" + (f" × {self.of}" if self.of else "")


@dataclass(frozen=True)
class Figure:
    """One number. `targets` by engine; `c_router`: the C router, on another machine."""

    name: str
    title: str
    unit: str
    targets: Mapping[str, Target] = field(default_factory=dict)
    c_router: float | None = None
    digits: int = 2


def _cost(
    name: str, title: str, c_router: float | None = None, targets: Mapping[str, Target] | None = None
) -> Figure:
    return Figure(name, title, "µs/msg", targets or {}, c_router)


def _mesh(name: str, title: str, unit: str, target: float | None, c_router: float | None) -> Figure:
    targets = {} if target is None else {COMPILED: Target(target), INTERPRETED: Target(target)}
    return Figure(name, title, unit, targets, c_router, digits=4 if unit == "s" else 1)


_FEW: Final = {COMPILED: Target(3.0), INTERPRETED: Target(3.0)}
_FIVE: Final = {COMPILED: Target(5.0), INTERPRETED: Target(5.0)}
_HUNDRED: Final = {COMPILED: Target(100.0), INTERPRETED: Target(100.0)}
_FIFTH_MORE: Final = {COMPILED: Target(1.2), INTERPRETED: Target(1.2)}
_NO_MORE: Final = {COMPILED: Target(1.03), INTERPRETED: Target(1.03)}
_DOUBLE: Final = {COMPILED: Target(2.0), INTERPRETED: Target(2.0)}
_LEAN: Final = {COMPILED: Target(0.6, NATS), INTERPRETED: Target(10, NATS)}
_COPY: Final = {COMPILED: Target(1.3, FLOOR)}
_PACED: Final = {COMPILED: Target(1.5, FLOOR)}
_TRIP: Final = {COMPILED: Target(1.4, FLOOR)}


def _shares() -> list[Figure]:
    settings = {"default": "by default", "each-100th": "each 100th delivery"}
    rates = {"5k": "5,000/s", "10k": "10,000/s", "20k": "20,000/s", "full": "as fast as it goes"}
    return [
        Figure(f"telemetry-share-{rate}-{setting}", f"telemetry's share of the CPU, {how}, {fast}", "%", _FEW, digits=1)
        for setting, how in settings.items()
        for rate, fast in rates.items()
    ]


def _floods() -> list[Figure]:
    """By how much others wait longer during a flood: ratios of 99th percentiles."""
    floods = {
        "attaches": "10,000 attaches in one write",
        "attach-detach": "10,000 attaches and detaches",
        "queries": "10,000 QUERYs",
        "close": "a connection with 20,000 links closes",
        "session": "a session with 20,000 links ends",
        "begins": "32,767 begins",
    }
    attacks = {
        "churn": "1,000 connections a second that open and are dropped",
        "opens": "2,000 connections open at once",
        "silent": "10,000 connections that say nothing",
        "hellos": "500 TLS handshakes begin at once",
        "shakes": "TLS handshakes, 200 at once, over and over",
        "logins": "500 wrong passwords at once",
        "maps": "2,000 attaches with maps of 450 entries",
        "nesting": "2,000 attaches with lists within lists",
        "annotations": "5,000 messages with 15 kB of annotations",
        "growing": "annotations that grow until they are refused",
        "octets": "20,000 octets of frames, one at a time",
        "fragments": "200,000 transfers of one octet",
        "flows": "200,000 flows and dispositions of 2³¹ deliveries",
    }
    crowds = {
        "hang-up": "12 clients send 20,000 attaches each and hang up",
        "links": "12 clients attach 20,000 links each",
        "refused": "8 clients send 20,000 attaches each that are refused",
        "waiting": "messages of 4 KiB wait on 150 sessions",
    }
    stalls = {
        "after-sasl": "connections that stop after SASL",
        "unread": "12 clients ask for flows and read none",
        "requests": "30 management requests that never end",
        "gone": "messages wait of 50 clients that are gone",
        "copies": "copies wait for 100 consumers without credit",
        "edges": "messages of 100 edge routers wait for a consumer",
        "no-credit": "200,000 empty transfers without credit on a link route",
        "pings": "10 WebSockets send 100,000 pings each",
    }
    addresses = {"addresses": "100,000 addresses get consumers at a neighbour"}
    here, elsewhere = "ping-pong p99 during a flood by idle p99", "the same at another router, which is idle"
    beside = "ping-pong p99 during a flood by that at an idle router at the same time"
    return [
        *(
            Figure(f"flood-{name}", f"{here}: {what}", "×", _DOUBLE, digits=1)
            for name, what in (floods | addresses).items()
        ),
        *(Figure(f"attack-{name}", f"{here}: {what}", "×", digits=1) for name, what in attacks.items()),
        *(
            Figure(f"attack-beside-{name}", f"{beside}: {what}", "×", _DOUBLE, digits=1)
            for name, what in attacks.items()
        ),
        *(Figure(f"flood-machine-{name}", f"{elsewhere}: {what}", "×", digits=1) for name, what in floods.items()),
        *_kept(floods | attacks | crowds | stalls),
    ]


def _kept(floods: Mapping[str, str]) -> Iterator[Figure]:
    """Memory in use once a flood is over."""
    for name, what in floods.items():
        yield Figure(f"kept-{name}", f"memory after ten floods by that at the start: {what}", "×", _FIFTH_MORE)
        yield Figure(f"grows-{name}", f"memory after ten floods by that after two: {what}", "×", _NO_MORE)


def _streams() -> Iterator[Figure]:
    """Short messages beside long ones, see stream_beside.py."""
    half = {COMPILED: Target(1.5), INTERPRETED: Target(1.5)}
    for name, where in {"one": "over one hop", "two": "over two hops", "edge": "from an edge router"}.items():
        yield Figure(f"beside-{name}", f"ping-pong p99 beside long messages by p99 without, {where}", "×", half)
        yield Figure(f"beside-{name}-idle", f"ping-pong p99 without them, {where}", "µs", digits=0)
        yield Figure(f"beside-{name}-memory", f"memory of the largest router beside them, {where}", "MiB", digits=1)
    yield Figure("stream-cost", "CPU of two routers for messages of 10 MB", "µs/MB", digits=0)
    yield Figure(
        "stream-cost-three", "the same, three routers by two", "×", {COMPILED: Target(1.6), INTERPRETED: Target(1.6)}
    )


def _turns() -> list[Figure]:
    """CPU of the longest turn of the event loop with 100,000 of a thing; interpreted and with --quick, 20,000."""
    return [Figure(f"turn-{name}", case.title, "ms", {COMPILED: Target(5.0)}, digits=1) for name, case in CASES.items()]


def _tls() -> Iterator[Figure]:
    """Messages and handshakes over TLS, see tls.py."""
    for name, what in {"tls-100": "1 → 1, 100 B, unsettled, over TLS", "tls-10k": "the same, 10 kB"}.items():
        yield _cost(name, what)
        yield Figure(f"{name}-by-plain", f"{what}: by the cost without TLS", "×")
        yield Figure(
            f"{name}-by-relay", f"{what}: by that and what TLS adds to a relay in C", "×", {COMPILED: Target(1.25)}
        )
    for name, what in {"tls-handshake": "a TLS connection, closed at once", "tls-resumed": "the same, resumed"}.items():
        yield Figure(name, what, "µs", digits=0)
        yield Figure(f"{name}-by-relay", f"{what}: by a relay in C", "×", {COMPILED: Target(1.3)})
    for name, what in {"100": "100 B", "1k": "1 kB", "10k": "10 kB"}.items():
        title = f"one added thread, 1 → 1, {what}, unsettled, over TLS, by none"
        yield Figure(f"tls-thread-{name}", f"{title}: CPU of the thread that routes", "×", {COMPILED: Target(0.6)})
        yield Figure(f"tls-thread-{name}-all", f"{title}: CPU of all threads", "×")
    yield _mesh("tls-idle-connection", "memory of an idle connection over TLS", "kB", 40, None)


def _others() -> Iterator[Figure]:
    """Two hops over TLS, WebSocket, one long message."""
    hops = "two routers in a row over TLS, 100 B, unsettled, both routers"
    yield _cost("hops-2-tls", hops)
    yield Figure("hops-2-tls-by-plain", f"{hops}: by the cost without TLS", "×")
    web = "1 → 1, 100 B, unsettled, over WebSocket"
    yield _cost("ws-100", web)
    yield Figure("ws-100-by-tcp", f"{web}: by the cost over TCP", "×")
    yield Figure("stream-1gb", "one message of 1 GB (--stream-mb)", "µs/MB", digits=0)
    yield Figure("stream-1gb-memory", "the same: by how much the router's memory grows", "MiB", digits=1)


def _policy() -> list[Figure]:
    """What policy adds to a message, and what a decision on an attach takes: 10,000 a second are the target."""
    loads = {"plain": "no user-id", "user": "with user-id", "anonymous": "anonymous sender, with user-id"}
    addresses = {"name": "one of 20 names", "pattern": "one of 20 patterns", "denied": "denied"}
    return [
        *(Figure(f"policy-{load}", f"more CPU a message with policy: {what}", "%", _FIVE, digits=1)
          for load, what in loads.items()),
        *(Figure(f"policy-attach-{name}", f"decision of policy on an attach: {what}", "µs", _HUNDRED, digits=1)
          for name, what in addresses.items()),
    ]  # fmt: skip


def _extra(name: str, title: str) -> Figure:
    return Figure(name, f"more CPU a message: {title}", "%", _FEW, digits=1)


FIGURES: Final[Mapping[str, Figure]] = {
    figure.name: figure
    for figure in (
        _cost("pre-100", "1 → 1, 100 B, pre-settled", 4.0, _LEAN),
        _cost("uns-100", "1 → 1, 100 B, unsettled", 4.9, _LEAN),
        _cost("pre-10k", "1 → 1, 10 kB, pre-settled", 9.5, _COPY),
        _cost("uns-10k", "1 → 1, 10 kB, unsettled", 10.4, _COPY),
        _cost("uns-10x10", "10 → 10 on one address, unsettled", 6.3),
        _cost("credit4-50x50", "50 → 50 on one address, credit 4, unsettled", 12.3),
        _cost("pairs-100", "100 pairs, unsettled, as fast as they go"),
        _cost("multicast-1x10", "multicast 1 → 10, pre-settled, a copy"),
        _cost("paced-20k", "20,000/s on one pair, in 1 ms ticks", 5.8, _PACED),
        _cost("paced-100x50", "5,000/s over 100 pairs, in 1 ms ticks", 28.8, _PACED),
        _cost("spaced-20k", "20,000/s on one pair, each at its own time", targets=_PACED),
        _cost("hops-2", "two routers in a row, 100 B, unsettled, both routers", 9.2),
        Figure("rtt-p50", "ping-pong round trip, median", "µs", _TRIP, 42, 1),
        Figure("rtt-p99", "ping-pong round trip, 99th percentile", "µs", _TRIP, 50, 1),
        _mesh("start", "start to listening", "s", 0.5, None),
        _mesh("rss", "memory after start", "MiB", 45, None),
        _mesh("idle-connection", "memory of an idle connection", "kB", 12, 28),
        _mesh("idle-link", "memory of an idle receiver with an address of its own", "kB", 3, 6.7),
        _mesh("line-tables", "3-router line: all listen → all tables complete", "s", 0.5, 2.2),
        _mesh("line-message", "3-router line: all listen → first message across", "s", 0.6, 6.2),
        _mesh("line-tables-from-start", "3-router line: start → all tables complete", "s", None, 2.2),
        _mesh("line-message-from-start", "3-router line: start → first message across", "s", None, 6.2),
        _mesh("reach-credit", "consumer attaches at B → sender at A has credit", "s", 0.03, 0.55),
        _mesh("reach-gone", "consumer at B gone → credit withdrawn at A", "s", 0.03, 1.0),
        _mesh("kill-gap", "triangle, middle router killed: longest gap", "s", 0.1, 0.62),
        _mesh("kill-lost", "the same: pre-settled messages lost at 200/s", "msgs", 20, 120),
        *_shares(),
        _extra("telemetry-full-default", "telemetry as by default, as fast as it goes"),
        _extra("telemetry-paced-default", "the same, 20,000/s"),
        _extra("telemetry-full-each-100th", "telemetry, each 100th delivery, as fast as it goes"),
        _extra("telemetry-paced-each-100th", "the same, 20,000/s"),
        _mesh("autolinks-start", "start to listening with 10,000 autolinks configured", "s", None, None),
        _mesh("autolinks-active", "the same: listening → all active, with the queries that tell", "s", None, None),
        _mesh("autolink-memory", "memory of an active autolink with an address of its own", "kB", None, None),
        _mesh("link-routes-active", "1,000 link routes: listening → all active", "s", None, None),
        _mesh("link-route-memory", "memory of a link route", "kB", None, None),
        _mesh("link-route-lookup", "finding one of 1,000 link routes by an address", "µs", None, None),
        Figure("flood-idle-p50", "ping-pong of a client beside floods, while there is none, median", "µs", digits=0),
        Figure("flood-idle-p99", "the same, 99th percentile", "µs", digits=0),
        *_floods(),
        *_policy(),
        *_turns(),
        *_streams(),
        *_tls(),
        *_others(),
    )
}


@dataclass(frozen=True)
class Spread:
    """Repetitions of one figure, summed up."""

    values: tuple[float, ...]

    @property
    def low(self) -> float:
        """The least."""
        return min(self.values)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def high(self) -> float:
        """The greatest."""
        return max(self.values)


@dataclass
class Results:
    """All that a run gave: figures by engine (or FLOOR, or another router's label) and name."""

    meta: dict[str, Any]
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, engine: str, values: Mapping[str, float]) -> None:
        """Adds one repetition."""
        for name, value in values.items():
            self.figures.setdefault(engine, {}).setdefault(name, []).append(round(value, 6))

    def spread(self, engine: str, name: str) -> Spread | None:
        """The repetitions of a figure, None if it was not measured."""
        values = self.figures.get(engine, {}).get(name)
        return Spread(tuple(values)) if values else None

    def engines(self) -> list[str]:
        """What was measured, without what it is compared with."""
        return [engine for engine in self.figures if engine not in REFERENCES]

    def ratio(self, engine: str, name: str, reference: str) -> float | None:
        """The median of a figure by the reference's median in the same run; None where one of them is missing."""
        own, other = self.spread(engine, name), self.spread(reference, name)
        return own.median / other.median if own and other and other.median > 0 else None

    def holds(self, engine: str, figure: Figure) -> bool | None:
        """Whether a figure keeps its target; None where there is no target or nothing to judge it by."""
        target, spread = figure.targets.get(engine), self.spread(engine, figure.name)
        if target is None or spread is None:
            return None
        value = self.ratio(engine, figure.name, target.of) if target.of else spread.median
        return None if value is None else value <= target.at_most

    def missed(self) -> list[str]:
        """Figures whose median is above their target."""
        late = []
        for engine in self.engines():
            for figure in FIGURES.values():
                target = figure.targets.get(engine)
                if target is not None and self.holds(engine, figure) is False:
                    value = self.ratio(engine, figure.name, target.of) if target.of else self._median(engine, figure)
                    late.append(f"{engine} {figure.name}: {value:.{figure.digits}f}, target {target}")
        return late

    def _median(self, engine: str, figure: Figure) -> float | None:
        spread = self.spread(engine, figure.name)
        return spread.median if spread else None

    def as_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads."""
        return {"meta": self.meta, "figures": self.figures, "failures": self.failures, "notes": self.notes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Results:
        """Reads what `as_json` gave; what is missing is empty."""
        failures: Sequence[str] = data.get("failures", ())
        return cls(data.get("meta", {}), data.get("figures", {}), list(failures), list(data.get("notes", ())))
