"""Look-ups of the host names in remoteHosts: in threads, with one time limit for all names of a request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from waymesh_router.policy.hosts import Addresses
from waymesh_router.runtime import host_names
from waymesh_router.runtime.host_names import LOOK_UP_S, THREADS, HostNames, numeric_addresses
from waymesh_router.runtime.loop import Loop


class Names:
    """A resolver that answers some names only when the test ends."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.asked: list[str] = []

    def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        if name.startswith("slow"):
            self.end.wait()
        if name.startswith("unknown"):
            raise OSError(-2, "Name or service not known")
        return ["10.0.0.1"]


@pytest.fixture
def names() -> Iterator[Names]:
    names = Names()
    yield names
    names.end.set()


@pytest.fixture
def loop(names: Names) -> Iterator[Loop]:
    loop = Loop()
    yield loop
    names.end.set()
    for thread in threading.enumerate():
        if thread.name == "resolver":
            thread.join(10)
    loop.close()


def run_until(loop: Loop, done: Callable[[], bool]) -> int:
    """Run the loop; returns the number of turns."""
    turns = 0

    def turn(now: float) -> float:
        nonlocal turns
        turns += 1
        if done():
            loop.stop()
        return now + 0.01

    loop.run(turn)
    return turns


def test_names_of_a_request_have_one_limit_together_and_the_loop_goes_on(names: Names, loop: Loop) -> None:
    answers = list[Addresses]()
    started = time.monotonic()
    slow = [f"slow{n}" for n in range(40)]
    HostNames(loop, names).look_up([*slow, "fast"], answers.append)
    assert answers == []
    turns = run_until(loop, lambda: bool(answers))
    assert time.monotonic() - started < 30 * LOOK_UP_S  # not 40 s
    assert turns > 2, "a loop that waits for names has a turn that begins it and one that ends it"
    assert answers[0] == dict.fromkeys((*slow, "fast"), f"no answer within {LOOK_UP_S:g} s")
    assert len(names.asked) <= THREADS


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads may start late, and still answer within the limit."""
    monkeypatch.setattr(host_names, "LOOK_UP_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_answers_arrive_as_soon_as_all_are_known(names: Names, loop: Loop) -> None:
    answers = list[Addresses]()
    looking = HostNames(loop, names)
    looking.look_up(["a", "b", "unknown"], answers.append)
    looking.look_up(["c"], answers.append)
    run_until(loop, lambda: len(answers) == 2)
    assert {"c": ["10.0.0.1"]} in answers
    assert {"a": ["10.0.0.1"], "b": ["10.0.0.1"], "unknown": "Name or service not known"} in answers


@pytest.mark.usefixtures("patient")
def test_slow_names_of_one_request_leave_threads_for_others(names: Names, loop: Loop) -> None:
    answers = list[Addresses]()
    looking = HostNames(loop, names)
    looking.look_up([f"slow{n}" for n in range(40)], lambda _: None)
    looking.look_up(["fast"], answers.append)
    run_until(loop, lambda: bool(answers))
    assert answers == [{"fast": ["10.0.0.1"]}]


def test_a_configuration_has_a_limit_for_all_names(names: Names) -> None:
    for limit_s in (0.2, 2.0, 20.0):  # tried in turn: a thread may start late
        started = time.monotonic()
        found = numeric_addresses(["fast", *(f"slow{n}" for n in range(100))], limit_s, names)
        assert time.monotonic() - started < 50 * limit_s + 5  # not 100 times the limit
        assert found["slow99"] == f"no answer within {limit_s:g} s"
        if found["fast"] == ["10.0.0.1"]:
            break
    assert found["fast"] == ["10.0.0.1"]
    assert numeric_addresses([]) == {}
