"""Regular calls of components: one that raises is paused, a connection that raises is closed, others continue."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_amqp.states import HDR_EXCH, OPENED
from waymesh_router.core.portions import COST_A_TURN
from waymesh_router.ticks import LAST_PAUSE_S, QUIET_TICKS, TICK_S, EndingLinks, Part, Ticks

pytestmark = pytest.mark.engine_independent


class RecordingHost:
    """Records the calls."""

    def __init__(self) -> None:
        self.where: list[str] = []
        self.dropped: list[Any] = []

    def internal_error(self, where: str, error: Exception) -> None:
        self.where.append(where)

    def drop(self, conn: Any, reason: str) -> None:
        self.dropped.append(conn)

    def segments_in(self, conn: Any) -> int:
        return 35


class Conn:
    """A connection whose time-outs may raise."""

    def __init__(self, number: int, *, broken: bool = False, done: bool = False) -> None:
        self.id = number
        self.peer = SimpleNamespace(host=f"host {number}")
        self.broken = broken
        self.done = done
        self.ticks = 0
        self.unread, self.progress, self.octets_out = False, 0, 7
        self.octets_in, self.unfinished, self.state, self.due = 0, 0, int(OPENED), math.inf

    def tick(self, now: float) -> float:
        self.ticks += 1
        if self.broken:
            raise RuntimeError("a bug")
        return self.due


def ticks(host: Any, conns: list[Conn], closing: list[Conn], parts: list[Part]) -> tuple[Ticks, Any]:
    table = SimpleNamespace(next_id=max((c.id for c in conns), default=0) + 1)
    core = SimpleNamespace(
        connections={c.id: c for c in conns}, closing={c.id: c for c in closing}, connection_table=table
    )
    return Ticks(core, host, parts), core  # type: ignore[arg-type]


def test_a_part_that_raises_does_not_keep_the_next_from_acting() -> None:
    host: Any = RecordingHost()
    acted: list[float] = []

    def fail(now: float) -> None:
        raise RuntimeError("a bug")

    conn = Conn(1)
    run, _ = ticks(host, [conn], [], [Part("one", fail, host), Part("two", acted.append, host)])
    run.run(5.0)
    assert acted == [5.0]
    assert conn.ticks == 1
    assert host.where == ["in the timers of one, which pause for 1 s"]


def test_a_part_that_goes_on_raising_is_tried_less_and_less_often() -> None:
    host: Any = RecordingHost()
    tries: list[float] = []

    def fail(now: float) -> None:
        tries.append(now)
        raise RuntimeError("a bug")

    part = Part("one", fail, host)
    for quarter in range(4 * 300):
        assert part.run(quarter / 4) > quarter / 4
    assert tries[:4] == [0, 1, 3, 7]
    assert tries[-1] - tries[-2] == LAST_PAUSE_S
    assert len(host.where) == len(tries)


def test_a_part_that_works_again_has_its_full_pace_back() -> None:
    host: Any = RecordingHost()
    broken = [True, False, True]

    def act(now: float) -> float:
        if broken.pop(0):
            raise RuntimeError("a bug")
        return now + 9

    part = Part("one", act, host)
    assert [part.run(now) for now in (0.0, 0.5, 1.0, 2.0)] == [1.0, 1.0, 10.0, 3.0]


def test_a_part_that_does_not_say_when_to_come_again_is_not_waited_for() -> None:
    assert Part("one", lambda _: None, RecordingHost()).run(0.0) == math.inf  # type: ignore[arg-type]


def test_a_connection_whose_time_outs_raise_is_closed_and_no_other() -> None:
    host: Any = RecordingHost()
    bad, good, ending = Conn(1, broken=True), Conn(2), Conn(3)
    run, core = ticks(host, [bad, good], [ending], [])
    run.run(0.0)
    run.run(1.0)
    assert (bad.ticks, good.ticks, ending.ticks) == (1, 2, 2)
    assert host.dropped == [bad]
    assert host.where == ["in the timers of the connection with host 1"]
    assert list(core.connections) == [2]


def test_a_closing_connection_that_is_done_or_raises_is_forgotten() -> None:
    host: Any = RecordingHost()
    run, core = ticks(host, [], [Conn(1, done=True), Conn(2, broken=True), Conn(3)], [])
    run.run(0.0)
    assert list(core.closing) == [3]


class Ending(Conn):
    """A connection that has ended, with links to detach; some raise."""

    def __init__(self, number: int, links: list[str]) -> None:
        super().__init__(number)
        self.losing = links
        self.over = True

    def end_links(self, count: int) -> bool:
        if self.losing.pop() == "broken":
            raise RuntimeError("a bug")
        return not self.losing


def test_a_link_whose_end_raises_costs_nothing_else() -> None:
    host: Any = RecordingHost()
    one, other = Ending(1, ["fine", "broken", "fine"]), Ending(2, ["broken"])
    core: Any = SimpleNamespace(ending={one: None, other: None}, connections={1: one, 2: other})
    walk, turns = EndingLinks(core, host), 0
    while core.ending:
        assert walk.step() == COST_A_TURN
        turns += 1
    assert (turns, walk.step()) == (4, 0)
    assert one.losing == other.losing == []
    assert host.where == [f"while links of host {number} were ended" for number in (2, 1)]
    assert core.connections == {1: one}


def test_a_live_connection_is_dropped_when_the_end_of_a_link_of_it_raises() -> None:
    host: Any = RecordingHost()
    conn = Ending(1, ["fine", "broken"])
    conn.over = False
    core: Any = SimpleNamespace(ending={conn: None}, connections={1: conn})
    EndingLinks(core, host).step()
    assert host.dropped == [conn]
    assert list(core.ending) == [conn]


def test_what_a_peer_does_counts_while_it_is_not_read() -> None:
    """The idle time-out of a client whose frames wait in the kernel."""
    read, unread = Conn(1), Conn(2)
    unread.unread = True
    run, _ = ticks(RecordingHost(), [read, unread], [], [])
    run.run(5.0)
    assert (read.progress, unread.progress) == (0, 42)


def run_for(run: Ticks, ticks: int) -> None:
    for count in range(ticks):
        run.run(count * TICK_S)


def test_connections_on_which_nothing_moves_are_checked_seldom_and_not_all_at_once() -> None:
    conns = [Conn(number) for number in range(1, 1001)]
    run, _ = ticks(RecordingHost(), conns, [], [])
    run_for(run, 4)
    before = sum(conn.ticks for conn in conns)
    assert before <= 2 * 1000
    each = []
    for _ in range(QUIET_TICKS):
        seen = sum(conn.ticks for conn in conns)
        run_for(run, 1)
        each.append(sum(conn.ticks for conn in conns) - seen)
    assert all(conn.ticks >= 3 for conn in conns)
    assert sum(each) <= 2 * 1000
    assert max(each) <= 100


def test_connections_on_which_something_moves_or_waits_are_checked_in_each_tick() -> None:
    moving, reading, opening, unread = (Conn(number) for number in range(1, 5))
    opening.state = int(HDR_EXCH)
    unread.unread = True
    conns = [moving, reading, opening, unread]
    run, _ = ticks(RecordingHost(), conns, [], [])
    for count in range(20):
        moving.octets_out += 8
        reading.unfinished += 1
        run.run(count * TICK_S)
    assert [conn.ticks for conn in conns] == [20] * 4


def test_a_connection_that_is_due_is_checked_in_time() -> None:
    """At most a quarter of the time until its deadline may pass without a check, and none of the deadline's ticks."""
    conn = Conn(2)
    checks: list[float] = []

    def tick(now: float) -> float:
        checks.append(now)
        return 16.0

    conn.tick = tick  # type: ignore[method-assign]
    run, _ = ticks(RecordingHost(), [conn], [], [])
    run_for(run, 65)
    assert all(after - at <= max((16.0 - at) / 4, TICK_S) for at, after in itertools.pairwise(checks))
    assert 16.0 in checks
    assert len(checks) < 30


def test_a_new_connection_is_known_in_the_next_tick() -> None:
    run, core = ticks(RecordingHost(), [], [], [])
    run_for(run, 2)
    late = Conn(1)
    core.connections[1] = late
    core.connection_table.next_id = 2
    run_for(run, 1)
    assert late.ticks == 1
