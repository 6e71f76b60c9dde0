"""Runs in the simulation: promises are kept, each planted defect is found, and a failing schedule becomes small."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.chaos.__main__ import fails_alike
from tests.chaos.events import Event, Fault, Received
from tests.chaos.planted import DEFECTS, FOUND_BY
from tests.chaos.schedule import Planned, Round
from tests.chaos.simulated import schedule_of, shrink, simulate
from tests.chaos.workload import PLANS, TICKS, WITHOUT_BROKERS, Plan, Receives, Sends
from waymesh_amqp.connection import Connection
from waymesh_router.core.forwarding import multicast
from waymesh_router.core.model import RouterLink
from waymesh_router.core.settlement.interruptions import Interruptions
from waymesh_router.runtime.spool import files
from waymesh_router.runtime.spool.spool import RecordCounter

IDLE_S = 8
LOOK: list[Round] = [
    (
        Planned(0.0, "hold", "taker-b", 1.0),
        Planned(0.2, "delay", "C-B", 1.0, "both", 0.1),
        Planned(0.8, "cut", "taker-b"),
    ),
    (Planned(0.0, "hold", "taker-b", 2.5), Planned(0.0, "hold", "taker-e", 2.5)),
]
"""Consumers are lost, and messages wait for each other."""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_promises_are_kept(seed: int) -> None:
    rounds = schedule_of(seed, 20, IDLE_S)
    result = simulate(seed, rounds, IDLE_S)
    assert result.violations == []
    assert result.rounds == len(rounds)


def test_promises_are_kept_with_fallback_an_exchange_and_a_tenant() -> None:
    rounds = schedule_of(5, 5, IDLE_S, WITHOUT_BROKERS)
    result = simulate(5, rounds, IDLE_S, plans=WITHOUT_BROKERS)
    assert result.violations == []
    got = {event.link.split(".")[0] for event in result.events if isinstance(event, Received)}
    assert {"fallback", "taker-x", "taker-t"} <= got


def test_schedules_of_real_networks_run_here_too() -> None:
    rounds: list[Round] = [
        (Planned(0.0, "partition", "B", 5.0, "there"), Planned(0.0, "far", "E-A", 4.0, amount=0.5)),
        (Planned(0.0, "reorder", "A-C", 2.0, amount=0.05), Planned(0.0, "clock", "A", 1.0, amount=-5.0)),
    ]
    result = simulate(4, rounds, IDLE_S)
    assert result.violations == []
    faults = [event for event in result.events if isinstance(event, Fault) and event.what != "start"]
    assert [fault.breaks for fault in faults] == [True, False]  # routes were lost by the partition


@pytest.mark.parametrize(("days", "found"), [(1, set()), (-1, set()), (20, {"outcome"})])
def test_a_clock_that_jumps_ends_no_message_before_its_time(days: float, found: set[str]) -> None:
    """Messages expire ten days after they were sent, by the clock of each router."""
    held = [Planned(0.0, "hold", f"taker-{name}", 2.0) for name in "bce"]
    rounds: list[Round] = [(*held, *(Planned(0.5, "clock", name, 3.0, amount=days * 86400) for name in "ABC"))]
    assert {violation.kind for violation in simulate(1, rounds, IDLE_S).violations} == found


FAULTY: list[Round] = [
    (Planned(0.0, "kill", "B", 1.0), Planned(0.3, "full", "A", 8.0), Planned(0.5, "clock", "C", 2.0, amount=3600.0)),
    (Planned(0.0, "kill", "A", 1.0), Planned(0.5, "hold", "E-B", 2.0)),
    (Planned(0.0, "kill", "E", 1.0), Planned(0.0, "kill", "C", 1.0)),
]
"""Crashes, a full disk and a clock, beside what is injected all the time."""
SEAMS = {
    *("short read", "overtaking write", "crash within a write", "clock jump", "full disk", "slow disk", "short write"),
}


def test_each_seam_has_faults_which_are_counted() -> None:
    injected: Counter[str] = Counter()
    for seed in (1, 5):
        result = simulate(seed, FAULTY, IDLE_S)
        assert result.violations == []
        injected += result.injected
    assert set(injected) >= SEAMS, injected


def _all_at_once(receive: Any) -> Any:
    """Whoever reads a part of a frame forgets it."""

    def defective(self: Connection, view: memoryview, size: int) -> int:
        receive(self, view, size)
        return size

    return defective


SEAM_DEFECTS: dict[str, tuple[Any, str, Any]] = {
    "short read": (Connection, "receive", _all_at_once(Connection.receive)),
    "crash within a write": (Interruptions, "consumer_lost", lambda *_: None),
    "full disk": (RecordCounter, "lost", lambda *_: None),
    "short write": (files._Open, "_write", lambda self, data: os.pwrite(self._fd, data, self._end)),
}
"""What is found only where that is injected."""


@pytest.mark.engine_independent  # methods of the interpreted engine are replaced
@pytest.mark.parametrize("seam", SEAM_DEFECTS)
def test_a_defect_that_such_a_fault_shows_is_found(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*SEAM_DEFECTS[seam])
    found = [simulate(seed, FAULTY, IDLE_S, patience_s=5.0) for seed in (1, 5)]
    assert any(result.violations and result.injected[seam] for result in found)


def test_a_link_stays_in_order_while_its_router_learns_what_others_can_take() -> None:
    """The schedule of seed 10590, made smaller: decision 0085."""
    rounds: list[Round] = [
        (Planned(0.0, "pause", "C", 6.0), Planned(2.5, "delay", "E-B", 1.4, "back", 0.14)),
        (Planned(0.0, "hold", "C-B", 2.4, "there"),),
    ]
    assert simulate(10590, rounds, IDLE_S).violations == []


FLOOD = {
    "sender-e": Plan("E", (Sends(TICKS, True, 90.0),) * 4),
    "taker-a": Plan("A", (Receives(TICKS),)),
    "taker-c": Plan("C", (Receives(TICKS),)),
}
"""More messages for consumers of a multicast address than decision 0006 keeps while one of them gets nothing."""
STOPPED: list[Round] = [(Planned(0.0, "hold", "taker-c", 4.5),)]


def _missing(events: list[Event]) -> int:
    """How many copies taker-c did not get."""
    got = [event for event in events if isinstance(event, Received)]
    return sum(event.link.startswith("taker-a") for event in got) - sum(
        event.link.startswith("taker-c") for event in got
    )


def test_copies_for_a_slow_consumer_are_dropped_only_where_too_many_wait() -> None:
    result = simulate(3, STOPPED, IDLE_S, plans=FLOOD)
    assert result.violations == []
    assert 100 < _missing(result.events) < 1000


@pytest.mark.engine_independent  # methods of the interpreted engine are replaced
def test_copies_that_are_dropped_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(sender: object, out: RouterLink, lk: RouterLink) -> bool:
        return out.queue is not None and len(out.queue) >= 500

    monkeypatch.setattr(multicast, "enough_wait_for", defective)
    violations = simulate(3, STOPPED, IDLE_S, patience_s=5.0, plans=FLOOD).violations
    assert {violation.kind for violation in violations} == {"hole"}


def test_a_seed_is_one_history() -> None:
    rounds = LOOK[:1]
    first, again, other = (simulate(seed, rounds, IDLE_S).events for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.engine_independent  # methods of the interpreted engine are replaced
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*DEFECTS[defect]())
    rounds = LOOK * 5 if defect == "lost-credit" else LOOK  # the first 250 deliveries of a link need no renewal
    found = {violation.kind for violation in simulate(1, rounds, IDLE_S, patience_s=5.0).violations}
    assert FOUND_BY[defect] & found, found


def test_a_schedule_that_fails_becomes_small() -> None:
    kill, cut, hold = Planned(0.0, "kill", "A", 1.0), Planned(0.0, "cut", "C-B"), Planned(0.0, "hold", "E-A", 1.0)
    tried = []

    def fails(rounds: list[Round]) -> bool:
        tried.append(rounds)
        return any(kill in planned for planned in rounds) and any(hold in planned for planned in rounds)

    assert shrink([(cut,), (kill, cut), (cut, hold), (cut,)], fails) == [(kill,), (hold,)]
    assert len(tried) < 20


@pytest.mark.engine_independent  # methods of the interpreted engine are replaced
def test_the_schedule_that_shows_a_planted_defect_becomes_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*DEFECTS["overtaking"]())
    held = Planned(0.0, "hold", "taker-b", 2.5), Planned(0.0, "hold", "taker-e", 2.5)
    beside = Planned(0.2, "delay", "C-B", 1.0, "both", 0.1)
    small = shrink([(beside,), (*held, beside), (beside,)], partial(fails_alike, {"order"}, 1, IDLE_S, PLANS))
    assert len(small) == 1
    assert set(small[0]) < {*held, beside}
