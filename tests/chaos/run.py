"""A run: the rounds of a schedule, carried out where it takes place, and the verdict about what the clients wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.chaos.client import Group
from tests.chaos.events import Event, Fault, to_row
from tests.chaos.history import Violation, check
from tests.chaos.schedule import BREAKING, CALM_S, Planned, Round, text, to_rows
from tests.chaos.workload import TERMS

LOOK_S = 0.5
LATE = frozenset({"loss", "hole", "waiting", "torn"})
"""Violations that are none yet while messages or outcomes are on their way."""


class Place(Protocol):
    """Where a run takes place: on real processes, or in the simulation."""

    @property
    def group(self) -> Group:
        """The clients, once it has started."""

    def start(self) -> None:
        """Start routers, then clients. Raises AssertionError if the routers do not find each other."""

    def close(self) -> None:
        """End all of it."""

    def finish(self) -> None:
        """Let clients send nothing new."""

    def now(self) -> float:
        """Seconds of the clock of all events."""

    def rest(self, seconds: float) -> None:
        """Let time pass."""

    def until(self, condition: Callable[[], object], limit_s: float, what: str | Callable[[], str]) -> None:
        """Wait for a condition; AssertionError when it does not hold in time."""

    def begin(self, fault: Planned) -> None:
        """Bring a fault about."""

    def end(self, fault: Planned) -> None:
        """Take it back."""

    def heal(self) -> None:
        """Take back all that is left of faults of wires."""

    def are_wires_whole(self) -> bool:
        """Whether there is one connection through each wire."""

    def are_routes_restored(self) -> bool:
        """Whether connections and routes of routers are as at the start."""

    def losses(self) -> Counter[str]:
        """What was lost so far: connections, by their wires, and routes between neighbours."""


@dataclass(slots=True)
class Options:
    """`seconds`: no new round begins after so long; `patience_s`: until messages get through again after faults;
    `rest_s`: until all is at rest at the end. What takes longer, on the slowest machine, is a violation."""

    seconds: float = 0.0
    patience_s: float = 300.0
    rest_s: float = 300.0
    say: Callable[[str], None] = print


@dataclass(slots=True)
class Result:
    """What a run has shown. `lost`: of each round, what was lost until all was well again, as of `Place.losses`."""

    rounds: int = 0
    lost: list[list[str]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    """In the simulation: how often what went wrong beside the faults of the schedule."""


class Run:
    """One run at a place."""

    def __init__(self, place: Place, options: Options) -> None:
        self._place = place
        self._options = options
        self._faults: list[Fault] = []
        self._losses: Counter[str] = Counter()
        self._began = place.now()
        self._started = False

    def go(self, rounds: Sequence[Round]) -> Result:
        """Carry out the rounds. What never recovers is a violation, too."""
        result = Result()
        place = self._place
        try:
            place.start()
            self._started = True
            self._recover()
            self._new_losses()
            # until then, attaches and routes spread: copies of what was sent before may not reach all consumers
            self._faults.append(Fault(self._began, place.now(), "start", True))
            self._say("all clients are attached, and messages get through")
            self._rounds(rounds, result)
            self._end(result)
        except AssertionError as error:
            result.violations.append(Violation("recovery", "", str(error)))
            result.events = self._events()
        finally:
            if self._started:
                result.problems = list(place.group.problems)
            place.close()
        return result

    def _rounds(self, rounds: Sequence[Round], result: Result) -> None:
        place = self._place
        begin = place.now()
        for planned in rounds:
            if self._options.seconds and place.now() > begin + self._options.seconds:
                break
            at = place.now()
            self._carry_out(planned)
            place.heal()
            self._recover()
            lost = self._new_losses()
            breaks = bool(lost) or any(fault.kind in BREAKING for fault in planned)
            self._faults.append(Fault(at, place.now(), "; ".join(map(str, planned)), breaks))
            result.rounds += 1
            result.lost.append(lost)
            self._say(f"round {result.rounds} is over: lost {lost}, {self._summary()}")
            calm = place.now()
            place.rest(CALM_S)
            self._look(calm)

    def _carry_out(self, planned: Round) -> None:
        """All faults of a round, each at its time, until the last one is over."""
        place = self._place
        began = place.now()
        steps: list[tuple[float, Planned, bool]] = []
        for fault in planned:
            steps.append((fault.at, fault, True))
            if fault.seconds:
                steps.append((fault.at + fault.seconds, fault, False))
        for at, fault, begins in sorted(steps, key=lambda step: step[0]):
            place.rest(began + at - place.now())
            self._say(f"{'begin' if begins else 'end  '} {fault}")
            (place.begin if begins else place.end)(fault)

    def _new_losses(self) -> list[str]:
        """What was lost since the last call: connections, by their wires, and routes between neighbours."""
        losses = self._place.losses()
        new, self._losses = losses - self._losses, losses
        return sorted(new.elements())

    def _look(self, since: float) -> None:
        """If something was lost without a fault of the schedule, as on a machine that let a process wait for longer
        than a time-out, that is a fault: it lasts until all is well again."""
        lost = self._new_losses()
        if lost:
            self._recover()
            self._faults.append(Fault(since, self._place.now(), f"lost {lost}", True))
            self._say(f"lost without a fault: {lost}")

    def _recover(self) -> None:
        """Wait until connections and routes are as at the start, and what is sent from then on gets through."""
        place, group = self._place, self._place.group
        end = place.now() + self._options.patience_s
        place.until(place.are_wires_whole, end - place.now(), "one connection through each wire")
        place.until(place.are_routes_restored, end - place.now(), "connectors and routes as at the start")
        place.until(group.are_attached, end - place.now(), "all links of clients")
        now = place.now()
        place.until(
            lambda: not group.sending or not group.through.missing(now),
            end - now,
            lambda: f"messages of {group.through.missing(now)}",
        )

    def _end(self, result: Result) -> None:
        """Let all come to rest: what the checker still misses may be on its way for a while."""
        place, group = self._place, self._place.group
        at = place.now()
        place.finish()
        deadline = at + self._options.rest_s
        while True:
            now = place.now()
            quiet = group.are_done() and group.are_attached()
            if quiet or now > deadline:
                self._look(at)
                group.collect()
                result.events = self._events()
                result.violations = check(result.events, TERMS)
                if now > deadline or not LATE.intersection(found.kind for found in result.violations):
                    break
            place.rest(LOOK_S)
        self._say(f"at rest: {self._summary()}")

    def _events(self) -> list[Event]:
        return [*(self._place.group.events if self._started else ()), *self._faults]

    def _summary(self) -> str:
        return f"{len(self._place.group.events)} events"

    def _say(self, line: str) -> None:
        self._options.say(f"{self._place.now() - self._began:7.2f} {line}")


def save(folder: Path, rounds: Sequence[Round], result: Result, seed: int) -> None:
    """What a look at a violation needs, beside the logs of the routers that are there."""
    (folder / "schedule.json").write_text(json.dumps(to_rows(rounds), indent=1), encoding="utf-8")
    (folder / "schedule.txt").write_text(text(rounds) + "\n", encoding="utf-8")
    (folder / "seed.txt").write_text(f"{seed}\n", encoding="utf-8")
    rows = (json.dumps(to_row(event)) for event in result.events)
    (folder / "events.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = [f"{one.kind} {one.message} {one.text}" for one in result.violations]
    (folder / "violations.txt").write_text("\n".join([*found, *result.problems]) + "\n", encoding="utf-8")
