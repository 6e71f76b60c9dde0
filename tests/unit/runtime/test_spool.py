"""Telemetry files: complete or absent, named after their content, within the size limit."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import DEADLINE_S, wait_until
from waymesh_router.runtime.spool import files as spool_files
from waymesh_router.runtime.spool import spool as module
from waymesh_router.runtime.spool.files import SpoolFiles, SpoolSettings
from waymesh_router.runtime.spool.spool import RecordCounter, Spool
from waymesh_schema.telemetry import KINDS, FileName, parse_path

HOUR_US = 3_600_000_000
NOON_US = 1_769_860_800_000_000
"""2026-01-31 12:00 UTC."""
ROUTER = "a/b-1"


class Scene:
    """A spool in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logged: list[str] = []
        self.counter = RecordCounter()
        self.spools: list[Spool] = []

    def spool(self, boot: int = 7, max_bytes: int = 1 << 30, before: Spool | None = None) -> Spool:
        """A spool of a new process, or after another spool of the same process."""
        if before is None:
            self.counter = RecordCounter()
        settings = SpoolSettings(self.root, "team/mesh", ROUTER, boot, max_bytes)
        self.spools.append(Spool(settings, self.counter, lambda level, text: self.logged.append(text), before))
        return self.spools[-1]

    def end(self, spool: Spool) -> None:
        spool.close()
        spool.wait(DEADLINE_S)

    def names(self) -> list[FileName]:
        """The finished files."""
        found = [parse_path(path.relative_to(self.root).as_posix()) for path in self.root.rglob("*") if path.is_file()]
        return sorted((name for name in found if name is not None), key=lambda name: (name.kind, name.boot, name.first))

    def unfinished(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and path.name.startswith(".tmp-")]

    def lines(self, name: FileName) -> list[dict[str, Any]]:
        with gzip.open(self.root / name.path, "rt") as file:
            return [json.loads(line) for line in file]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    for spool in made.spools:
        made.end(spool)


def event(spool: Spool, text: str, at_us: int = NOON_US) -> None:
    spool.put("event", at_us, 5, (text, "info", None, {}))


def sample(spool: Spool, at_us: int = NOON_US) -> None:
    spool.put("delivery", at_us, 5, (1, "in", "x" * 400, *[None] * (len(KINDS["delivery"].own) - 3)))


def test_a_file_is_named_by_what_it_holds(scene: Scene) -> None:
    spool = scene.spool()
    for text in ('one "quoted"', "zwölf\n", "three"):
        event(spool, text)
    scene.end(spool)
    (name,) = scene.names()
    assert name == FileName("event", "2026-01-31", 12, ROUTER, 7, 1, 3)
    lines = scene.lines(name)
    assert [line["event"] for line in lines] == ['one "quoted"', "zwölf\n", "three"]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    envelope = {"v": 1, "mesh": "team/mesh", "router": ROUTER, "boot": 7, "seq": 1, "ts": NOON_US, "mono_us": 5}
    assert lines[0] == {**envelope, "event": 'one "quoted"', "severity": "info", "object": None, "detail": {}}
    assert list(lines[0]) == [field.name for field in KINDS["event"].fields]


def test_no_file_goes_beyond_its_hour(scene: Scene) -> None:
    spool = scene.spool()
    for minute in (58, 59, 60, 61):
        event(spool, str(minute), NOON_US + minute * 60_000_000)
    scene.end(spool)
    assert [(name.hr, name.first, name.count) for name in scene.names()] == [(12, 1, 2), (13, 3, 2)]


def test_what_was_taken_is_on_the_disk_before_it_is_published(scene: Scene) -> None:
    spool = scene.spool()
    event(spool, "one")
    spool.flush()
    wait_until(scene.unfinished, what="a file that is being written")
    assert scene.names() == []
    spool.rotate()
    wait_until(scene.names, what="a finished file")
    assert scene.unfinished() == []


def test_a_process_that_was_killed_loses_little(scene: Scene) -> None:
    """Its unfinished file is copied as another process would find it, with a damaged end."""
    spool = scene.spool()
    for number in range(3):
        event(spool, str(number))
    spool.flush()
    (torn,) = wait_until(scene.unfinished, what="a file that is being written")
    wait_until(lambda: torn.stat().st_size > 30, what="its first piece")
    left = torn.read_bytes()
    scene.end(spool)
    for name in scene.names():
        (scene.root / name.path).unlink()
    torn.write_bytes(left + b"\x00\x01torn")
    later = scene.spool(boot=8)
    (name,) = wait_until(scene.names, what="the recovered file")
    assert (name.boot, name.first, name.count) == (7, 1, 3)
    assert [line["event"] for line in scene.lines(name)] == ["0", "1", "2"]
    event(later, "new")
    scene.end(later)
    assert [(name.boot, name.first) for name in scene.names()] == [(7, 1), (8, 1)]


def test_a_disk_that_refuses_costs_records_and_is_said_once(scene: Scene) -> None:
    (scene.root / "v1").write_text("in the way")
    spool = scene.spool()
    for _ in range(2):
        event(spool, "lost")
        spool.rotate()
    wait_until(lambda: spool.dropped == {("event", "disk"): 2}, what="both records counted")
    assert len(scene.logged) == 1
    assert scene.logged[0].startswith("telemetry cannot be written: ")
    (scene.root / "v1").unlink()
    event(spool, "kept")
    scene.end(spool)
    assert [(name.first, name.count) for name in scene.names()] == [(3, 1)]


def test_the_oldest_samples_go_first_when_the_room_is_used_up(scene: Scene) -> None:
    spool = scene.spool(max_bytes=1500)
    for hour in range(6):
        event(spool, "e", NOON_US + hour * HOUR_US)
        for _ in range(3):
            sample(spool, NOON_US + hour * HOUR_US)
        spool.rotate()
    scene.end(spool)
    kinds = [name.kind for name in scene.names()]
    assert kinds.count("event") == 6
    assert 0 < kinds.count("delivery") < 6
    assert spool.dropped == {("delivery", "room"): 3 * (6 - kinds.count("delivery"))}


def test_samples_are_dropped_before_anything_else(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKLOG_BYTES", 1 << 18)
    monkeypatch.setattr(SpoolFiles, "write", lambda self, piece: wait_until(lambda: scene.logged, what="the end"))
    spool = scene.spool()
    for _ in range(400):
        sample(spool)
    before = spool.dropped["delivery", "backlog"]
    event(spool, "there is room for this")
    sample(spool)
    assert spool.dropped == {("delivery", "backlog"): before + 1}
    assert spool.seqs["delivery"] == 401, "the loss shows as a gap"
    scene.logged.append("go on")


def test_a_spool_that_follows_another_goes_on_with_its_numbers(scene: Scene) -> None:
    """When the settings change while the router runs, the files of the first spool are finished, not recovered."""
    first = scene.spool()
    event(first, "1")
    first.flush()
    second = scene.spool(before=first)
    event(first, "2")
    first.close()
    event(second, "3")
    scene.end(second)
    assert [(name.boot, name.first, name.count) for name in scene.names()] == [(7, 1, 2), (7, 3, 1)]
    assert scene.counter.dropped == {}
    assert scene.unfinished() == []


def test_a_name_says_which_numbers_are_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = scene.spool()
    event(spool, "1")
    with monkeypatch.context() as patch:
        patch.setattr(module, "BACKLOG_BYTES", -1)
        event(spool, "2")
    event(spool, "3")
    scene.end(spool)
    assert [(name.first, name.count) for name in scene.names()] == [(1, 1), (3, 1)]


class Disk:
    """A full disk for all files together: a write stores what there is room for, the next one fails."""

    def __init__(self, root: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.size = size
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def used(self) -> int:
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        room = self.size - self.used() + os.fstat(fd).st_size - offset
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._pwrite(fd, data[:room], offset)


def noise(number: int) -> str:
    return hashlib.sha512(str(number).encode()).hexdigest()


def test_samples_make_room_for_the_rest_on_a_full_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(scene.root, 20_000, monkeypatch)
    spool = scene.spool()
    for number in range(300):
        spool.put("delivery", NOON_US, 5, (number, "in", noise(number), *[None] * (len(KINDS["delivery"].own) - 3)))
        if number % 50 == 49:
            spool.rotate()
    for number in range(150):
        event(spool, noise(number))
        spool.flush()
    scene.end(spool)
    events = [line["seq"] for name in scene.names() if name.kind == "event" for line in scene.lines(name)]
    kept = [line["seq"] for name in scene.names() if name.kind == "delivery" for line in scene.lines(name)]
    assert events == list(range(1, 151)), "nothing of the others is lost"
    lost = spool.dropped
    assert lost["delivery", "room"] > 0
    assert len(kept) + lost["delivery", "room"] + lost.get(("delivery", "disk"), 0) == 300
    assert {kind for kind, _ in lost} == {"delivery"}


def test_a_full_disk_costs_what_it_does_not_take_and_no_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(scene.root, 5_000, monkeypatch)
    spool = scene.spool()
    for number in range(100):
        event(spool, noise(number))
        spool.flush()
    wait_until(lambda: not spool._backlog, what="all were tried")
    assert spool.dropped
    disk.size = 1 << 30
    event(spool, "room again")
    scene.end(spool)
    names = scene.names()
    kept = [line["seq"] for name in names for line in scene.lines(name)]
    assert all([line["seq"] for line in scene.lines(name)] == list(range(name.first, name.first + name.count))
               for name in names)
    assert kept[:20] == list(range(1, 21))
    assert kept[-1] == 101
    assert spool.dropped == {("event", "disk"): 101 - len(kept)}
    assert len(scene.logged) == 1


def test_a_clock_that_is_set_moves_records_to_other_hours_and_no_number(scene: Scene) -> None:
    spool = scene.spool()
    for hour in (0, -3, 30, 0):
        event(spool, str(hour), NOON_US + hour * HOUR_US)
    scene.end(spool)
    assert [(name.dt, name.hr, name.first, name.count) for name in scene.names()] == [
        ("2026-01-31", 12, 1, 1),
        ("2026-01-31", 9, 2, 1),
        ("2026-02-01", 18, 3, 1),
        ("2026-01-31", 12, 4, 1),
    ]


def test_files_that_are_taken_away_meanwhile_cost_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An uploader may remove files between listing the folder and the next step."""
    spool = scene.spool(max_bytes=1)
    real = spool_files._size

    def gone(path: Path) -> int | None:
        size = real(path)
        path.unlink()
        return size

    monkeypatch.setattr(spool_files, "_size", gone)
    event(spool, "1")
    scene.end(spool)
    assert scene.names() == []
    assert spool.dropped == {}
