"""A run: routers, relays, clients, the rounds of a schedule, and the verdict about what the clients wrote."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import planted
from tests.chaos.clients import Clients
from tests.chaos.events import Event, Fault, to_row
from tests.chaos.history import Violation, check
from tests.chaos.mesh import ChaosMesh
from tests.chaos.nemesis import Nemesis
from tests.chaos.relay import Relay
from tests.chaos.schedule import BREAKING, CALM_S, Round, text, to_rows
from tests.chaos.workload import PLANS, TERMS
from tests.kit.waiting import wait_until

LATE = frozenset({"loss", "hole", "waiting"})
"""Violations that are none yet while messages or outcomes are on their way."""


@dataclass(slots=True)
class Options:
    """`seconds`: no new round begins after so long; `idle_s`: the idle time-out of all connections; `patience_s`: until
    messages get through again after faults, and until all is at rest at the end: what takes longer, on the slowest
    machine, is a violation; `defect`: one of `planted.DEFECTS`, of all routers."""

    seed: int
    idle_s: int = 8
    seconds: float = 0.0
    patience_s: float = 300.0
    defect: str = ""
    say: Callable[[str], None] = print


@dataclass(slots=True)
class Result:
    """What a run has shown."""

    rounds: int = 0
    events: list[Event] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Run:
    """One run in a folder, which gets the configurations and logs of its routers."""

    def __init__(self, folder: Path, options: Options) -> None:
        self._options = options
        self._relay = Relay()
        places = {name: plan.router for name, plan in PLANS.items()}
        within = planted.words(options.defect) if options.defect else None
        self._mesh = ChaosMesh(folder, self._relay, places, options.idle_s, within)
        self._faults: list[Fault] = []
        self._losses: Counter[str] = Counter()
        self._began = time.monotonic()
        self._clients: Clients | None = None

    def go(self, rounds: Sequence[Round]) -> Result:
        """Carry out the rounds. What never recovers is a violation, too."""
        result = Result()
        try:
            self._mesh.start()
            self._clients = self._connect()
            self._recover()
            self._new_losses()
            # until then, attaches and routes spread: copies of what was sent before may not reach all consumers
            self._faults.append(Fault(self._began, time.monotonic(), "start", True))
            self._say("all clients are attached, and messages get through")
            self._rounds(rounds, result)
            self._end(result)
        except AssertionError as error:
            result.violations.append(Violation("recovery", "", str(error)))
            result.events = self._events()
        finally:
            if self._clients is not None:
                result.problems = list(self._clients.problems)
                self._clients.close()
            self._mesh.kill()
            self._relay.close()
        return result

    def _connect(self) -> Clients:
        ports = {name: self._relay.wires[name].port for name in PLANS}
        return Clients(PLANS, ports, self._options.seed, self._options.idle_s)

    def _rounds(self, rounds: Sequence[Round], result: Result) -> None:
        nemesis = Nemesis(self._mesh, self._say)
        begin = time.monotonic()
        for planned in rounds:
            if self._options.seconds and time.monotonic() > begin + self._options.seconds:
                break
            at = time.monotonic()
            nemesis.carry_out(planned)
            self._relay.heal()
            self._recover()
            lost = self._new_losses()
            breaks = bool(lost) or any(fault.kind in BREAKING for fault in planned)
            self._faults.append(Fault(at, time.monotonic(), "; ".join(map(str, planned)), breaks))
            result.rounds += 1
            self._say(f"round {result.rounds} is over: lost {lost}, {self._summary()}")
            calm = time.monotonic()
            wait_until(lambda calm=calm: time.monotonic() > calm + CALM_S)  # type: ignore[misc]
            self._look(calm)

    def _new_losses(self) -> list[str]:
        """What was lost since the last call: connections, by their wires, and routes between neighbours."""
        losses = Counter({"route": self._mesh.route_changes()}) + Counter(end.wire for end in self._relay.ends)
        new, self._losses = losses - self._losses, losses
        return sorted(new.elements())

    def _look(self, since: float) -> None:
        """If something was lost without a fault of the schedule, as on a machine that let a process wait for longer
        than a time-out, that is a fault: it lasts until all is well again."""
        lost = self._new_losses()
        if lost:
            self._recover()
            self._faults.append(Fault(since, time.monotonic(), f"lost {lost}", True))
            self._say(f"lost without a fault: {lost}")

    def _recover(self) -> None:
        """Wait until connections and routes are as at the start, and what is sent from then on gets through."""
        assert self._clients is not None
        clients, end = self._clients, time.monotonic() + self._options.patience_s
        wait_until(self._relay.is_whole, end - time.monotonic(), "one connection through each wire")
        wait_until(self._mesh.is_restored, end - time.monotonic(), "connectors and routes as at the start")
        wait_until(clients.are_attached, end - time.monotonic(), "all links of clients")
        now = time.monotonic()
        wait_until(
            lambda: not clients.sending or not clients.through.missing(now),
            end - now,
            lambda: f"messages of {clients.through.missing(now)}",
        )

    def _end(self, result: Result) -> None:
        """Let all come to rest: what the checker still misses may be on its way for a while."""
        assert self._clients is not None
        clients = self._clients
        at = time.monotonic()
        clients.finish()
        deadline = time.monotonic() + self._options.patience_s
        while True:
            now = time.monotonic()
            quiet = clients.are_done() and clients.are_attached()
            if quiet or now > deadline:
                self._look(at)
                result.events = self._events()
                result.violations = check(result.events, TERMS)
                if now > deadline or not LATE.intersection(found.kind for found in result.violations):
                    break
            wait_until(lambda now=now: time.monotonic() > now + 0.5)  # type: ignore[misc]
        self._say(f"at rest: {self._summary()}")

    def _events(self) -> list[Event]:
        return [*(list(self._clients.events) if self._clients is not None else ()), *self._faults]

    def _summary(self) -> str:
        assert self._clients is not None
        return f"{len(self._clients.events)} events"

    def _say(self, line: str) -> None:
        self._options.say(f"{time.monotonic() - self._began:7.2f} {line}")


def save(folder: Path, rounds: Sequence[Round], result: Result, options: Options) -> None:
    """What a look at a violation needs, beside the logs of the routers that are there."""
    (folder / "schedule.json").write_text(json.dumps(to_rows(rounds), indent=1), encoding="utf-8")
    (folder / "schedule.txt").write_text(text(rounds) + "\n", encoding="utf-8")
    (folder / "seed.txt").write_text(f"{options.seed}\n", encoding="utf-8")
    rows = (json.dumps(to_row(event)) for event in result.events)
    (folder / "events.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = [f"{one.kind} {one.message} {one.text}" for one in result.violations]
    (folder / "violations.txt").write_text("\n".join([*found, *result.problems]) + "\n", encoding="utf-8")
