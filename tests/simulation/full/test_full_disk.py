"""Disks of simulated routers: slow, full, and with a crash between any two of their writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import Party
from tests.simulation.full.disk import Disk
from tests.simulation.full.disk_check import faults
from tests.simulation.full.network import Network, SimRouter
from waymesh_amqp.states import OPENED
from waymesh_router.runtime.spool import spool as spool_module
from waymesh_router.runtime.spool.files import SpoolFiles, _Open
from waymesh_router.runtime.spool.spool import RecordCounter
from waymesh_router.telemetry.exporter import BACKLOG, DISK

MESSAGES = 5
SELDOM_S = 100


class Scene:
    """A router with a disk, and clients that come, send and go."""

    def __init__(self, folder: Path, slow_s: float = 0.0, short: float = 0.0, rotate_s: int = 1) -> None:
        self.network = Network()
        settings = f"path: {folder}\nmesh: m\nsampleOneIn: 1\nintervalSeconds: 1\nrotateSeconds: {rotate_s}\n"
        self.router: SimRouter = self.network.router("A", f"telemetry {{\n{settings}}}\n")
        self.disk = self.router.disk = Disk(self.router, folder, "seed", slow_s, short)
        self.router.start()

    def traffic(self, count: int = MESSAGES) -> None:
        """Some seconds with messages, as far as the router lives."""
        if not self.router.alive or self.router.paused:
            return
        party = Party(self.network, "client")
        connection = party.dial(self.router)
        self.network.run(0.1)
        if connection.state == OPENED:
            session = connection.open_session()
            receiver = party.receiver(session, "orders", credit=count)
            sender = party.sender(session, "orders")
            self.network.run(0.1)
            for _ in range(count if sender.link.credit >= count else 0):
                party.send(sender, message(b"x"))
            self.network.run(0.1)
            for got in receiver.got:
                party.settle(got)
        self.network.run(2.0)

    def crash_at(self, call: int) -> None:
        """Let its process end in that call of its disk."""
        self.disk.dies_at = self.disk.calls + call

    def again(self) -> None:
        """A new process, if the last one has ended."""
        self.network.run(0.1)
        if not self.router.alive:
            self.disk.dies_at = 0
            self.router.start()
            self.traffic(1)

    def end(self) -> list[str]:
        """End it in order; what is wrong with its files."""
        self.disk.finish()
        return faults(self.disk)


def crash_at_each_call(folder: Path) -> Iterator[str]:
    """What is wrong after a crash at one of the calls, for each of them."""
    whole = Scene(folder / "whole", short=0.3)
    whole.traffic()
    calls = whole.disk.calls
    yield from (f"without a crash: {text}" for text in whole.end())
    for call in range(1, calls + 1):
        scene = Scene(folder / str(call), short=0.3)
        scene.crash_at(call - scene.disk.calls)
        scene.traffic()
        scene.again()
        assert len(scene.disk.lives) == 2, call
        yield from (f"crash at call {call}: {text}" for text in scene.end())
    assert calls > 20


def test_a_crash_at_any_call_of_the_disk_loses_no_record_that_was_written(tmp_path: Path) -> None:
    assert list(crash_at_each_call(tmp_path)) == []


def test_a_crash_while_the_files_of_a_crash_are_recovered_loses_nothing_either(tmp_path: Path) -> None:
    call, recovered = 0, False
    while not recovered:
        call += 1
        scene = Scene(tmp_path / str(call), rotate_s=SELDOM_S)
        scene.traffic()
        scene.network.run(5.0)
        assert scene.disk.calls > 0
        scene.router.crash()
        scene.crash_at(call)
        scene.router.start()
        scene.network.run(0.05)
        recovered = scene.router.alive
        scene.again()
        assert scene.end() == [], call
    assert call > 10


@pytest.mark.parametrize("short", [0.0, 0.5])
def test_a_full_disk_loses_what_is_counted(tmp_path: Path, short: float) -> None:
    scene = Scene(tmp_path, short=short)
    scene.traffic()
    scene.disk.full = True
    scene.traffic()
    scene.disk.full = False
    scene.traffic()
    (life,) = scene.disk.lives
    assert scene.end() == []
    assert sum(count for (_, reason), count in life.counter.dropped.items() if reason == DISK) > 0
    assert scene.network.injected["full disk"] > 0


def test_a_slow_disk_stops_no_message_and_what_is_too_much_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "BACKLOG_BYTES", 20_000)
    monkeypatch.setattr(spool_module, "BATCH_RECORDS", 4)
    scene = Scene(tmp_path)
    scene.disk.slow_s, scene.disk.slow_log = 10.0, False
    for _ in range(3):
        scene.traffic(20)
    (life,) = scene.disk.lives
    assert life.counter.seqs["delivery"] >= 2 * 20
    assert scene.end() == []
    assert sum(count for (_, reason), count in life.counter.dropped.items() if reason == BACKLOG) > 0


def test_a_router_waits_for_the_disk_of_its_log(tmp_path: Path) -> None:
    quick, slow = Scene(tmp_path / "quick"), Scene(tmp_path / "slow", slow_s=1.0)
    for scene in (quick, slow):
        scene.router.log("ROUTER", "info", "a line")
    assert not quick.router.paused
    assert slow.router.paused
    slow.network.run(60.0)
    assert not slow.router.paused


def test_lines_that_a_full_disk_refuses_are_counted_by_the_log(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.disk.full = True
    scene.router.log("ROUTER", "info", "a line")
    assert scene.disk.log is not None
    assert scene.disk.log.lost == 1
    assert scene.end() == []


def _one_write(self: Any, data: bytes) -> None:
    """Not all may be written."""
    os.pwrite(self._fd, data, self._end)


def _named_too_early(self: Any, kind: str) -> None:
    """The file has its name before it is complete."""
    file = self._open.pop(kind)
    file.path.rename(self._settings.root / self._file_name(kind, file.hour, file.first, file.count).path)
    file.finish()


DEFECTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "short writes are not noticed": (_Open, "_write", _one_write),
    "files have their name before they are complete": (SpoolFiles, "_publish", _named_too_early),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found_by_a_crash_or_a_short_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    monkeypatch.setattr(*DEFECTS[defect])
    assert next(crash_at_each_call(tmp_path), None) is not None


def test_records_that_are_lost_and_not_counted_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordCounter, "lost", lambda *_: None)
    scene = Scene(tmp_path)
    scene.traffic()
    scene.disk.full = True
    scene.traffic()
    assert scene.end() != []
