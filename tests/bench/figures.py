"""The figures that are measured, their units and targets, and what the C router needs for the same."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"
FLOOR: Final = "floor"
"""Name under which the figures of the byte relay stand beside those of the engines."""


@dataclass(frozen=True)
class Figure:
    """One number. `targets` by engine (at most so much is good); `c_router`: the C router, on another machine."""

    name: str
    title: str
    unit: str
    targets: Mapping[str, float] = field(default_factory=dict)
    c_router: float | None = None
    digits: int = 2


def _cost(name: str, title: str, compiled: float | None, c_router: float | None = None, **more: float) -> Figure:
    targets = dict(more) if compiled is None else {COMPILED: compiled, **more}
    return Figure(name, title, "µs/msg", targets, c_router)


def _mesh(name: str, title: str, unit: str, target: float | None, c_router: float | None) -> Figure:
    targets = {} if target is None else {COMPILED: target, INTERPRETED: target}
    return Figure(name, title, unit, targets, c_router, digits=4 if unit == "s" else 1)


def _shares() -> list[Figure]:
    settings = {"default": "by default", "each-100th": "each 100th delivery"}
    rates = {"5k": "5,000/s", "10k": "10,000/s", "20k": "20,000/s", "full": "as fast as it goes"}
    return [
        Figure(f"telemetry-share-{rate}-{setting}", f"telemetry's share of the CPU, {how}, {fast}", "%", _FEW, digits=1)
        for setting, how in settings.items()
        for rate, fast in rates.items()
    ]


_FEW: Final = {COMPILED: 3.0, INTERPRETED: 3.0}


def _extra(name: str, title: str) -> Figure:
    return Figure(name, f"more CPU a message: {title}", "%", _FEW, digits=1)


FIGURES: Final[Mapping[str, Figure]] = {
    figure.name: figure
    for figure in (
        _cost("pre-100", "1 → 1, 100 B, pre-settled", 0.4, 4.0, interpreted=8),
        _cost("uns-100", "1 → 1, 100 B, unsettled", 0.4, 4.9, interpreted=8),
        _cost("pre-10k", "1 → 1, 10 kB, pre-settled", 2.5, 9.5),
        _cost("uns-10k", "1 → 1, 10 kB, unsettled", 2.5, 10.4),
        _cost("uns-10x10", "10 → 10 on one address, unsettled", None, 6.3),
        _cost("credit4-50x50", "50 → 50 on one address, credit 4, unsettled", 2.5, 12.3),
        _cost("pairs-100", "100 pairs, unsettled, as fast as they go", 2.0),
        _cost("multicast-1x10", "multicast 1 → 10, pre-settled, a copy", 0.3),
        _cost("paced-20k", "20,000/s on one pair, in 1 ms ticks", 5.0, 5.8),
        _cost("paced-100x50", "5,000/s over 100 pairs, in 1 ms ticks", 20.0, 28.8),
        _cost("spaced-20k", "20,000/s on one pair, each at its own time", None),
        _cost("hops-2", "two routers in a row, 100 B, unsettled, both routers", 1.0, 9.2),
        Figure("rtt-p50", "ping-pong round trip, median", "µs", {COMPILED: 35}, 42, 1),
        Figure("rtt-p99", "ping-pong round trip, 99th percentile", "µs", {COMPILED: 45}, 50, 1),
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
        """What was measured, without the floor."""
        return [engine for engine in self.figures if engine != FLOOR]

    def missed(self) -> list[str]:
        """Figures whose median is above their target."""
        late = []
        for engine in self.engines():
            for figure in FIGURES.values():
                target, spread = figure.targets.get(engine), self.spread(engine, figure.name)
                if target is not None and spread is not None and spread.median > target:
                    late.append(f"{engine} {figure.name}: {spread.median:.{figure.digits}f} > {target:g} {figure.unit}")
        return late

    def as_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads."""
        return {"meta": self.meta, "figures": self.figures, "failures": self.failures, "notes": self.notes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Results:
        """Reads what `as_json` gave; what is missing is empty."""
        failures: Sequence[str] = data.get("failures", ())
        return cls(data.get("meta", {}), data.get("figures", {}), list(failures), list(data.get("notes", ())))
