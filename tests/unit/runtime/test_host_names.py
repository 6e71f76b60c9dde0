"""Look-ups of the host names in remoteHosts: in threads, with one time limit for all names of a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.kit.waiting import DEADLINE_S
from waymesh_router.policy.hosts import Addresses
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.policy import host_names
from waymesh_router.runtime.policy.host_names import THREADS, THREADS_OF_ONE, HostNames, numeric_addresses

NEVER_S = 3600.0


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
            thread.join(DEADLINE_S)
    loop.close()


def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(host_names, "LOOK_UP_S", seconds)


def run_until(loop: Loop, done: Callable[[], bool]) -> None:
    def turn(now: float) -> float:
        if done():
            loop.stop()
        return now + 0.01

    loop.run(turn)


def test_the_loop_goes_on_while_names_are_resolver(
    names: Names, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience(monkeypatch, NEVER_S)
    answers = list[Addresses]()
    HostNames(loop, names).look_up(["slow"], answers.append)
    turns = iter(range(10))
    run_until(loop, lambda: next(turns, None) is None)
    assert answers == []


def test_names_of_a_request_have_one_limit_together(names: Names, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    patience(monkeypatch, 0.1)
    answers = list[Addresses]()
    slow = [f"slow{n}" for n in range(40)]
    HostNames(loop, names).look_up([*slow, "fast"], answers.append)
    assert answers == []
    run_until(loop, lambda: bool(answers))
    assert answers[0] == dict.fromkeys((*slow, "fast"), "no answer within 0.1 s")
    assert len(names.asked) <= THREADS_OF_ONE, "no name has a limit of its own, after which the next one is asked"


def test_answers_arrive_as_soon_as_all_are_known(names: Names, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    patience(monkeypatch, NEVER_S)
    answers = list[Addresses]()
    resolver = HostNames(loop, names)
    resolver.look_up(["a", "b", "unknown"], answers.append)
    resolver.look_up(["c"], answers.append)
    run_until(loop, lambda: len(answers) == 2)
    assert {"c": ["10.0.0.1"]} in answers
    assert {"a": ["10.0.0.1"], "b": ["10.0.0.1"], "unknown": "Name or service not known"} in answers


def test_slow_names_of_one_request_leave_threads_for_others(
    names: Names, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience(monkeypatch, NEVER_S)
    answers = list[Addresses]()
    resolver = HostNames(loop, names)
    resolver.look_up([f"slow{n}" for n in range(40)], lambda _: None)
    resolver.look_up(["fast"], answers.append)
    run_until(loop, lambda: bool(answers))
    assert answers == [{"fast": ["10.0.0.1"]}]


def test_a_configuration_has_a_limit_for_all_names(names: Names) -> None:
    slow = [f"slow{n}" for n in range(100)]
    for limit_s in (0.2, 2.0, 20.0):  # until the machine has time for the fast name
        asked = len(names.asked)
        found = numeric_addresses(["fast", *slow], limit_s, names)
        assert {found[name] for name in slow} == {f"no answer within {limit_s:g} s"}
        assert len(names.asked) - asked <= 1 + THREADS, "no name has a limit of its own"
        if found["fast"] == ["10.0.0.1"]:
            break
    assert found["fast"] == ["10.0.0.1"]
    assert numeric_addresses([]) == {}
