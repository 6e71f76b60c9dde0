"""The window of another router: simulated consumers there, one message after the other."""

from __future__ import annotations

import heapq
import random
from collections import deque

import pytest

from waymesh_router.core.forwarding.window import Window


class Elsewhere:
    """Consumers behind a window, always with work; `jobs`: seconds of a job of each; `lag`: one way. `concurrency`: it
    is one consumer, which says how many it works on at a time."""

    def __init__(self, jobs: list[float], lag: float = 0.001, concurrency: int = 0) -> None:
        self.window = Window(4.0, concurrency)
        self.rng = random.Random(1)
        self.jobs, self.lag = jobs, lag
        self.now, self.done = 100.0, 0
        self.free = deque(range(len(jobs)))
        self.queue: deque[float] = deque()
        self.events: list[tuple[float, int, float]] = []  # when, consumer that has done a job or -1: settled, sent
        self.outstanding = 0
        self.limits: list[float] = []

    def run(self, settlements: int) -> float:
        """The share of the consumers' speed that was used."""
        start, first = self.now, self.done
        while self.done < first + settlements:
            while not self.window.full(self.outstanding):
                self.outstanding += 1
                self.queue.append(self.now)
            while self.queue and self.free:
                consumer, sent = self.free.popleft(), self.queue.popleft()
                job = self.jobs[consumer] * self.rng.uniform(0.5, 1.5)
                done = max(self.now, sent + self.lag) + job
                heapq.heappush(self.events, (done, consumer, sent))
                heapq.heappush(self.events, (done + self.lag, -1, sent))
            self.now, consumer, sent = heapq.heappop(self.events)
            if consumer >= 0:
                self.free.append(consumer)
                continue
            self.window.settled(self.now, sent, self.outstanding)
            self.outstanding -= 1
            self.done += 1
            self.limits.append(self.window.limit)
        return settlements / (self.now - start) / sum(1 / job for job in self.jobs)

    def usual(self) -> float:
        """The window in the middle of the last settlements."""
        recent = sorted(self.limits[-500:])
        return recent[len(recent) // 2]


@pytest.mark.parametrize("consumers", [1, 5, 50])
def test_all_consumers_have_work_and_little_waits(consumers: int) -> None:
    there = Elsewhere([0.02] * consumers)
    there.run(200 * consumers)
    assert there.run(200 * consumers) > 0.9
    assert consumers <= there.usual() <= 2 * consumers + 4


def test_consumers_of_different_speeds_have_work() -> None:
    there = Elsewhere([0.005, 0.01, 0.02, 0.05] * 3)
    there.run(1000)
    assert there.run(2000) > 0.75


def test_the_window_does_not_grow_for_ever_under_steady_load() -> None:
    there = Elsewhere([0.02] * 4)
    there.run(20_000)
    assert max(there.limits[1000:]) < 20


def test_it_follows_consumers_that_come_and_go_and_jobs_that_change() -> None:
    there = Elsewhere([0.02] * 2)
    there.run(1000)
    there.jobs += [0.02] * 18
    there.free.extend(range(2, 20))
    there.run(1000)
    assert there.run(2000) > 0.85
    there.jobs[:] = [0.2] * 20
    there.run(1000)
    assert there.run(1000) > 0.85
    assert there.usual() < 60


# ---- nothing is settled
def test_it_doubles_after_a_quarter_of_a_second_without_a_settlement_and_after_half_a_second() -> None:
    window = Window(4.0)
    assert window.full(4)
    assert not window.full(3)
    assert not window.look(100.1, 4, 100.0, 0.0)
    assert window.look(100.25, 4, 100.0, 0.0)
    assert window.limit == 8.0
    assert not window.look(100.25, 7, 100.0, 0.0), "it has room"
    assert not window.look(100.25, 8, 100.0, 0.0)
    assert window.look(100.5, 8, 100.0, 0.0)
    assert window.limit == 16.0


def test_it_waits_for_long_jobs_as_others_have_them() -> None:
    window = Window(4.0)
    assert not window.look(115.0, 4, 100.0, 1.0)
    assert window.look(116.0, 4, 100.0, 1.0)
    assert not window.look(131.0, 8, 100.0, 1.0)
    assert window.look(132.0, 8, 100.0, 1.0)


def test_a_settlement_gives_it_its_former_size() -> None:
    window = Window(4.0)
    for second in range(1, 9):
        window.look(100.0 + second, 1000, 100.0, 0.0)
    assert window.limit > 16.0
    window.settled(109.0, 100.0, 9)
    window.settled(110.0, 101.0, 8)
    assert window.limit < 8.0
    assert not window.look(111.0, 8, 100.0, 0.0), "jobs take nine seconds, as is known now"


def test_it_has_room_for_batches_that_are_larger_than_it_was() -> None:
    window = Window(4.0)
    for second in (1, 2):
        window.look(100.0 + second, 1000, 100.0, 0.0)
    for number in range(10):
        window.settled(102.5, 100.0, 16 - number)
    assert (window.batches, window.limit) == (True, 32.0)
    window.settled(102.6, 100.0, 6)
    assert window.look(102.9, 32, 100.0, 0.0)
    assert window.limit == 64.0
    for number in range(40):
        window.settled(103.0 + number, 102.0 + number, 3)
    assert not window.batches, "they are settled one by one"
    assert window.limit < 20.0


# ---- a consumer that says how many deliveries it works on at a time
@pytest.mark.parametrize(("concurrency", "enough"), [(1, 2), (2, 3), (3, 4), (8, 12), (100, 150)])
def test_a_consumer_has_what_it_works_on_and_half_as_many_more(concurrency: int, enough: int) -> None:
    window = Window(10.0, concurrency)
    assert window.full(enough)
    assert not window.full(enough - 1)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_it_keeps_that_while_it_is_near(concurrency: int) -> None:
    there = Elsewhere([0.5] * concurrency, 0.0001, concurrency)
    assert there.run(400) > 0.97
    assert there.usual() <= 1.5 * concurrency + 1
    assert min(there.limits) >= concurrency


def test_it_gets_more_if_the_way_to_it_takes_as_long_as_a_job() -> None:
    there = Elsewhere([0.02] * 8, 0.01, 8)
    there.run(400)
    assert there.run(1000) > 0.9
    assert there.usual() > 14


def test_its_first_jobs_may_take_a_minute() -> None:
    window = Window(10.0, 8)
    assert not window.look(159.0, 12, 100.0, 0.0)
    assert window.look(160.0, 12, 100.0, 0.0), "perhaps it settles in batches nevertheless"
    assert window.limit == 24.0


def test_it_does_several_in_the_usual_time() -> None:
    window = Window(10.0, 8)
    assert not window.look(219.0, 12, 100.0, 20.0)
    assert window.look(220.0, 12, 100.0, 20.0), "twelve of 20 s, eight at a time, four times"
