"""Schedules in the simulation: one seed is one history, and a schedule that fails shrinks to a small one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping

from tests.chaos.history import Violation
from tests.chaos.mesh import shape
from tests.chaos.run import Options, Result, Run
from tests.chaos.schedule import Round, schedule
from tests.chaos.virtual import Virtual
from tests.chaos.workload import PLANS, Plan

PATIENCE_S = 300.0
"""Virtual seconds, as of real runs. What was written while a wire was slow comes at that rate: 256 kB at 2,000 B/s."""

DISKS = 0.3
"""The share of seeds whose routers have disks, which take two thirds more CPU time."""


def simulate(
    seed: int,
    rounds: list[Round],
    idle_s: int,
    say: Callable[[str], None] = lambda _: None,
    patience_s: float = PATIENCE_S,
    plans: Mapping[str, Plan] = PLANS,
) -> Result:
    """Carry out a schedule in virtual time. `plans`: the clients."""
    disks = random.Random(f"{seed}/disks").random() < DISKS or any(f.kind == "full" for f in itertools.chain(*rounds))
    place = Virtual(seed, idle_s, plans, disks=disks)
    result = Run(place, Options(patience_s=patience_s, rest_s=patience_s, say=say)).go(rounds)
    result.violations += [Violation("telemetry", "", text) for text in place.disk_faults]
    result.injected = place.injected
    return result


def schedule_of(
    seed: int, seconds: float, idle_s: int, plans: Mapping[str, Plan] = PLANS, *, apart: bool = False
) -> list[Round]:
    """The same as that of a run on real processes with these options, if it has these clients, too."""
    return schedule(seed, seconds, shape(plans, apart=apart), idle_s)


def shrink(rounds: list[Round], fails: Callable[[list[Round]], bool]) -> list[Round]:
    """A smaller schedule that still fails: rounds, then single faults, are left out as long as it does."""
    while True:
        smaller = next((fewer for fewer in _smaller(rounds) if fails(fewer)), None)
        if smaller is None:
            return rounds
        rounds = smaller


def _smaller(rounds: list[Round]) -> Iterator[list[Round]]:
    """Each schedule with one round less, the first ones first, then each with one fault less."""
    if len(rounds) > 1:
        for number in range(len(rounds)):
            yield rounds[:number] + rounds[number + 1 :]
    for number, planned in enumerate(rounds):
        if len(planned) > 1:
            for place in range(len(planned)):
                fewer = planned[:place] + planned[place + 1 :]
                yield [*rounds[:number], fewer, *rounds[number + 1 :]]
