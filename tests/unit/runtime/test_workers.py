"""Threads for slow logins: limited, alternating between sources. No key is derived in the loop's thread."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.ports import free_port
from tests.kit.process import section
from tests.kit.waiting import wait_until
from waymesh_amqp.users import make_line
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.running import Running
from waymesh_router.runtime.workers import WAITING, WAITING_OF_ONE, Workers
from waymesh_schema.config import parse_conf


def close(loop: Loop) -> None:
    """Close a loop that has stopped, when no thread calls it any more."""
    for thread in threading.enumerate():
        if thread.name in ("sasl", "users"):
            thread.join(30)
    loop.close()


class Bench:
    """Workers on a loop that this thread runs; tasks finish when the test allows it."""

    def __init__(self, threads: int) -> None:
        self.loop = Loop()
        self.workers = Workers(self.loop, threads)
        self.gate = threading.Semaphore(0)
        self.begun: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.done: list[Any] = []

    def submit(self, source: str, name: str, wanted: bool = True) -> bool:
        def work() -> bytes:
            self.begun.append(name)
            self.threads.add(threading.current_thread())
            self.gate.acquire()
            if name == "bug":
                raise RuntimeError(name)
            return name.encode()

        return self.workers.submit(source, work, lambda: wanted, self.done.append)

    def occupy(self, source: str, name: str) -> None:
        """A task that a thread has begun: from now on others wait behind it."""
        assert self.submit(source, name)
        wait_until(lambda: self.begun == [name])

    def run_until(self, done: int) -> None:
        for _ in range(done):
            self.gate.release()

        def turn(now: float) -> float:
            if len(self.done) >= done:
                self.loop.stop()
            return math.inf

        self.loop.run(turn)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(1)
    yield made
    close(made.loop)


def test_sources_take_turns_and_results_come_in_the_loops_thread(bench: Bench) -> None:
    bench.occupy("a", "a1")
    for name in ("a2", "a3", "a4"):
        assert bench.submit("a", name)
    assert bench.submit("b", "b1")
    assert bench.submit("c", "c1", wanted=False)
    bench.run_until(5)
    assert bench.begun == ["a1", "a2", "b1", "a3", "a4"]
    assert bench.done == [b"a1", b"a2", b"b1", b"a3", b"a4"]
    assert len(bench.threads) == 1


def test_an_error_in_the_work_is_handed_on(bench: Bench) -> None:
    bench.submit("a", "bug")
    bench.submit("a", "fine")
    bench.run_until(2)
    assert isinstance(bench.done[0], RuntimeError)
    assert bench.done[1] == b"fine"


def test_one_source_and_all_together_have_bounds(bench: Bench) -> None:
    """The first task runs, so it does not count as waiting."""
    bench.occupy("a", "a")
    assert [bench.submit("a", "a") for _ in range(WAITING_OF_ONE + 1)] == [True] * WAITING_OF_ONE + [False]
    taken = sum(bench.submit(f"s{number}", "s") for number in range(WAITING))
    assert taken == WAITING - WAITING_OF_ONE
    assert not bench.submit("new", "n")
    bench.run_until(1 + WAITING)
    assert len(bench.done) == 1 + WAITING


def test_a_thread_that_cannot_start_does_not_count_as_running(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            bench.submit("a", "first")
    assert bench.submit("a", "second")
    bench.run_until(2)
    assert bench.done == [b"first", b"second"]


@contextmanager
def serving(folder: Path, users: str) -> Iterator[tuple[Running, int, threading.Thread]]:
    """A router in this process whose loop runs in a thread, and its port for clients with a password."""
    port = free_port()
    (folder / "waymesh.users").write_text(users)
    sasl = {"saslMechanisms": "SCRAM-SHA-256", "saslUsername": "stored", "saslPassword": "pass:secret"}
    text = section("router", id="A", saslConfigDir=folder, saslConfigName="waymesh")
    text += section(
        "listener", host="127.0.0.1", port=port, authenticatePeer=True, allowInsecurePlain=True,
        saslMechanisms="PLAIN SCRAM-SHA-256"
    )
    text += section("connector", name="self", host="127.0.0.1", port=port, role="route-container", **sasl)
    running = Running(parse_conf(text, "test.conf"))
    running.start()
    thread = threading.Thread(target=running.loop.run, args=(running.host.turn,), daemon=True)
    thread.start()
    try:
        yield running, port, thread
    finally:
        running.loop.call_from_thread(lambda: running.host.stop("the test is over"))
        thread.join(30)
        close(running.loop)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("plain", [True, False], ids=["plain passwords too", "stored keys alone"])
def test_no_key_is_derived_in_the_loops_thread(
    mechanism: str, plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For clients and for our own logins, with a valid or an invalid password."""
    users = make_line("stored", "secret", iterations=20_000) + ("\nplain:{plain}secret\n" if plain else "\n")
    derived_by: list[threading.Thread] = []
    real = hashlib.pbkdf2_hmac

    def recorded(*arguments: Any) -> bytes:
        derived_by.append(threading.current_thread())
        return real(*arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", recorded)
    with serving(tmp_path, users) as (running, port, thread):
        for user in ("stored", "plain", "nobody"):
            for password in ("secret", "wrong"):
                good = password == "secret" and (user == "stored" or (user == "plain" and plain))
                with RawClient(port) as raw:
                    assert raw.login(mechanism, user, password).code == (0 if good else 1)
        wait_until(lambda: running.router.connector_status("self")[0] == "SUCCESS")
        assert derived_by
        assert thread not in derived_by
        assert {work.name for work in derived_by} - {threading.main_thread().name} <= {"sasl", "users"}
