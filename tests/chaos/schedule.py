"""Random schedules of faults: pure, so that a seed and a shape always give the same one.

A schedule has rounds. In a round, faults begin at their times and may overlap. Then all of them are healed, the run
waits until messages get through everywhere again, and lets traffic go on for a calm time: what is sent in that time has
no excuse. The clock of a round begins with it, so that a slow machine stretches no fault into the next one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

ROUTER_KINDS = {"kill": 3, "restart": 1, "pause": 3}
WIRE_KINDS = {"cut": 4, "half-open": 2, "hold": 4, "delay": 2, "slow": 2}
"""Kinds of faults of a router, and of a wire (a TCP connection of routers or of a client), with their weights."""
APART_KINDS = {"loss": 3, "partition": 4, "far": 3, "reorder": 2, "rate": 1, "full": 1, "clock": 2}
"""Of a run in a network of its own: lost packets of a wire, lost packets of all wires of a router, a wire with much
delay and loss, packets in another order, less bandwidth for all, a full disk, and a wall clock that jumps."""
APART_SHARE = 0.5
TLS_KINDS = {"renew": 3, "expire": 3, "authority": 2}
"""Of a run over TLS: a router's key is replaced, and at the end its certificate; a router's certificate, or that of the
authority, has expired; another authority is trusted, too, and at the end it alone, with new certificates for all."""
TLS_SHARE = 0.4
ALL = "all"
"""The target of faults that concern all routers."""
JUMPS_S = (-86400.0, -3600.0, -5.0, 5.0, 3600.0, 86400.0)
BROKER_KINDS = ("kill", "pause")
BROKER_SHARE = 0.2
WAYS = ("both", "there", "back")
BREAKING = frozenset({"kill", "restart", "cut", "half-open"})
"""Faults in which connections are lost for certain. With the others it depends on their length."""
CALM_S = 4.0
RECOVERY_S = 6.0
"""What a round takes beside its faults, about, on a machine that does nothing else."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The targets: names of routers, of wires between routers and to clients, and of brokers, behind wires of the same
    name. `apart`: the wires whose packets can be lost, in a network of the run's own; `tls`: there are certificates."""

    routers: tuple[str, ...]
    mesh_wires: tuple[str, ...]
    client_wires: tuple[str, ...]
    brokers: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault. `at`: seconds after the begin of its round; `way`: of a wire, seen from who connects; `amount`: seconds
    of delay, or bytes a second."""

    at: float
    kind: str
    target: str
    seconds: float = 0.0
    way: str = "both"
    amount: float = 0.0

    def __str__(self) -> str:
        """E.g. `+1.2 s hold B-A there for 3.0 s`."""
        words = f"+{self.at:.1f} s {self.kind} {self.target}"
        words += f" {self.way}" if self.way != "both" else ""
        words += {
            "delay": f" by {self.amount:.2f} s",
            "far": f" by {self.amount:.2f} s each way",
            "reorder": f" by up to {self.amount:.3f} s",
            "clock": f" by {self.amount:+.0f} s",
            "loss": f" of {self.amount:.0%}",
            "scale": f" to {self.amount:.0f}",
            "slow": f" to {self.amount:.0f} B/s",
            "rate": f" to {self.amount:.0f} bit/s",
        }.get(self.kind, "")
        return words + (f" for {self.seconds:.1f} s" if self.seconds else "")


Round = tuple[Planned, ...]


def schedule(seed: int, seconds: float, shape: Shape, idle_s: float) -> list[Round]:
    """Rounds that take about that long. `idle_s`: the idle time-out of connections; some faults last longer."""
    rng = random.Random(seed)
    rounds: list[Round] = []
    taken = 0.0
    while taken < seconds:
        planned = _round(rng, shape, idle_s)
        rounds.append(planned)
        taken += max(fault.at + fault.seconds for fault in planned) + CALM_S + RECOVERY_S
    return rounds


def _round(rng: random.Random, shape: Shape, idle_s: float) -> Round:
    """One to three faults, no two of one target."""
    faults: dict[str, Planned] = {}
    at = 0.0
    for _ in range(rng.choice((1, 1, 2, 3))):
        fault = _fault(rng, shape, round(at, 1), idle_s)
        faults.setdefault(fault.target, fault)
        at += rng.uniform(0.0, 3.0)
    return tuple(faults.values())


def _fault(rng: random.Random, shape: Shape, at: float, idle_s: float) -> Planned:
    if shape.apart and rng.random() < APART_SHARE:
        return _apart(rng, shape, at)
    if shape.tls and rng.random() < TLS_SHARE:
        return _tls(rng, shape, at)
    if shape.brokers and rng.random() < BROKER_SHARE:
        return Planned(at, rng.choice(BROKER_KINDS), rng.choice(shape.brokers), _seconds(rng, 4.0))
    if rng.random() < 0.35:
        kind = rng.choices(list(ROUTER_KINDS), list(ROUTER_KINDS.values()))[0]
        longest = 10.0 if kind == "pause" else 3.0
        return Planned(at, kind, rng.choice(shape.routers), _seconds(rng, longest))
    kind = rng.choices(list(WIRE_KINDS), list(WIRE_KINDS.values()))[0]
    wires = shape.mesh_wires if rng.random() < 0.6 else shape.client_wires
    return wire_fault(rng, kind, rng.choice(wires), at, idle_s, shape.brokers)


def wire_fault(
    rng: random.Random, kind: str, target: str, at: float, idle_s: float, brokers: Sequence[str] = ()
) -> Planned:
    """A fault of a wire, of one of WIRE_KINDS."""
    way = rng.choice(WAYS)
    if kind == "cut":
        return Planned(at, kind, target)
    if kind == "half-open":
        way = rng.choice(WAYS[1:])
        # a broker expects no frames while nothing happens: its own half would stay for good
        return Planned(at, kind, target, way="there" if target in brokers else way)
    if kind == "hold":
        beyond = rng.random() < 0.3
        return Planned(at, kind, target, round(1.6 * idle_s, 1) if beyond else _seconds(rng, 0.4 * idle_s), way)
    amount = round(rng.uniform(0.02, 0.3), 2) if kind == "delay" else float(rng.choice((2000, 10000, 50000)))
    return Planned(at, kind, target, _seconds(rng, 5.0), way, amount)


def _apart(rng: random.Random, shape: Shape, at: float) -> Planned:
    """A fault that needs a network, disks and clocks of its own."""
    kind = rng.choices(list(APART_KINDS), list(APART_KINDS.values()))[0]
    wire, router, way = rng.choice(shape.apart), rng.choice(shape.routers), rng.choice(WAYS)
    match kind:
        case "loss":
            return Planned(at, kind, wire, _seconds(rng, 8.0), way, round(rng.uniform(0.01, 0.3), 2))
        case "far":
            return Planned(at, kind, wire, _seconds(rng, 12.0), amount=round(rng.uniform(0.25, 1.0), 2))
        case "reorder":
            return Planned(at, kind, wire, _seconds(rng, 6.0), amount=round(rng.uniform(0.005, 0.1), 3))
        case "rate":
            return Planned(at, kind, ALL, _seconds(rng, 5.0), amount=float(rng.choice((500_000, 4_000_000))))
        case "clock":
            return Planned(at, kind, router, _seconds(rng, 4.0), amount=rng.choice(JUMPS_S))
        case "partition":
            return Planned(at, kind, router, _seconds(rng, 12.0), way)
    return Planned(at, kind, router, _seconds(rng, 4.0))


def _tls(rng: random.Random, shape: Shape, at: float) -> Planned:
    """A fault of certificates."""
    kind = rng.choices(list(TLS_KINDS), list(TLS_KINDS.values()))[0]
    targets = {"renew": shape.routers, "expire": (*shape.routers, ALL), "authority": (ALL,)}
    return Planned(at, kind, rng.choice(targets[kind]), _seconds(rng, 6.0))


def _seconds(rng: random.Random, longest: float) -> float:
    return round(rng.uniform(min(1.0, longest), longest), 1)


def to_rows(rounds: Sequence[Round]) -> list[list[dict[str, object]]]:
    """For a file of JSON."""
    return [[asdict(fault) for fault in planned] for planned in rounds]


def from_rows(rows: list[list[dict[str, object]]]) -> list[Round]:
    """Rounds of such a file. Raises TypeError for fields that a fault does not have."""
    return [tuple(Planned(**fault) for fault in planned) for planned in rows]  # type: ignore[arg-type]


def text(rounds: Sequence[Round]) -> str:
    """A line for each round."""
    lines = (f"round {number}: " + "; ".join(map(str, planned)) for number, planned in enumerate(rounds, 1))
    return "\n".join(lines)
