"""The uploader distinguishes a refused file from a store that refuses all files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from waymesh_schema.telemetry import FileName
from waymesh_upload.store import UploadRefused
from waymesh_upload.uploader import PROBES, RETRY_S, TRIES, Uploader, UploadPass

pytestmark = pytest.mark.engine_independent


class Bucket:
    """A store that refuses what `refuses` says."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.asked: list[str] = []
        self.refuses: Callable[[str], bool] = lambda path: False

    def put(self, path: str, data: BinaryIO, size: int) -> None:
        self.asked.append(path)
        if self.refuses(path):
            raise UploadRefused("AccessDenied: told to refuse")
        data.read()
        self.taken.append(path)


class Scene:
    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.bucket = Bucket()
        self.now = 1000.0
        self.uploader = Uploader(spool, self.bucket, lambda: self.now)
        self.count = 0

    def write(self, count: int, kind: str = "link") -> list[str]:
        """So many finished files, the oldest first; returns their paths."""
        paths = []
        for _ in range(count):
            self.count += 1
            name = FileName(kind, "2026-01-31", 12, "A", 1, self.count, 1)
            (self.spool / name.path).parent.mkdir(parents=True, exist_ok=True)
            (self.spool / name.path).write_bytes(b"x")
            paths.append(name.path)
        return paths

    def passes(self, count: int = 1, each: int = 0) -> UploadPass:
        """So many passes, with new files before each of them."""
        for _ in range(count):
            self.write(each)
            self.now += 5.0
            done = self.uploader.run()
        return done


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_files_that_are_always_refused_hold_up_no_others(scene: Scene) -> None:
    bad = scene.write(20)
    good = scene.write(100)
    scene.bucket.refuses = lambda path: path in bad
    scene.passes(3 * TRIES)
    assert sorted(scene.bucket.taken) == sorted(good)
    done = scene.passes(2 * TRIES, each=3)
    assert (done.waiting, done.set_aside, done.refusal) == (20, 20, "")


def test_a_file_that_fails_again_and_again_is_set_aside_and_tried_later(scene: Scene) -> None:
    (bad,) = scene.write(1)
    scene.bucket.refuses = lambda path: path == bad
    assert scene.passes(TRIES - 1, each=2).newly_set_aside == ()
    done = scene.passes(1, each=2)
    assert (done.newly_set_aside, done.set_aside, done.waiting) == ((bad,), 1, 1)
    asked = scene.bucket.asked.count(bad)
    done = scene.passes(10, each=2)
    assert (scene.bucket.asked.count(bad), done.set_aside, done.refusal) == (asked, 1, "")
    scene.now += RETRY_S
    assert scene.passes(1, each=2).failed.keys() == {bad}
    scene.bucket.refuses = lambda path: False
    scene.now += RETRY_S
    assert scene.passes().files == 1
    assert scene.passes() == UploadPass()


def test_a_store_that_takes_nothing_has_nothing_set_aside_and_is_asked_little(scene: Scene) -> None:
    written = scene.write(50)
    scene.bucket.refuses = lambda path: True
    for _ in range(4 * TRIES):
        done = scene.passes()
        assert (done.failed, done.set_aside, done.waiting) == ({}, 0, 50)
        assert done.refusal.startswith(f"{written[0]}: AccessDenied"), "the oldest is tried first"
    assert len(scene.bucket.asked) == (1 + PROBES) * 4 * TRIES
    scene.bucket.refuses = lambda path: False
    scene.passes()
    assert scene.bucket.taken == written, "in their order"


def test_a_single_file_that_is_refused_is_not_judged_until_others_come(scene: Scene) -> None:
    (only,) = scene.write(1)
    scene.bucket.refuses = lambda path: path == only
    for _ in range(2 * TRIES):
        done = scene.passes()
        assert (done.refusal, done.set_aside) == (f"{only}: AccessDenied: told to refuse", 0)
    assert scene.passes(TRIES, each=1).newly_set_aside == (only,)


def test_the_last_file_of_each_pass_is_judged_by_those_before_it(scene: Scene) -> None:
    (sample,) = scene.write(1, kind="delivery")  # samples go last
    scene.bucket.refuses = lambda path: path == sample
    done = scene.passes(TRIES, each=1)
    assert (done.newly_set_aside, done.refusal) == ((sample,), "")


def test_a_file_that_can_not_be_read_is_set_aside_as_well(scene: Scene) -> None:
    (folder,) = scene.write(1)
    (scene.spool / folder).unlink()
    (scene.spool / folder).mkdir()
    done = scene.passes(TRIES, each=2)
    assert (done.newly_set_aside, len(scene.bucket.taken)) == ((folder,), 2 * TRIES)
    assert "Is a directory" in done.failed[folder]


def test_what_is_gone_is_forgotten(scene: Scene) -> None:
    (bad,) = scene.write(1)
    scene.bucket.refuses = lambda path: path == bad
    scene.passes(TRIES, each=1)
    (scene.spool / bad).unlink()
    done = scene.passes(1, each=1)
    assert (done.set_aside, done.waiting) == (0, 0)
