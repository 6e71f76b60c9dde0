"""Threads that a router adds, and the cores that it may use: those of its mask, as far as its control group lets it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import waymesh_amqp
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.worker_threads import added_threads, cores


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8), ("", 8), ("nonsense", 8)],
)
def test_a_quota_of_version_2(tmp_path: Path, quota: str, count: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(f"{quota}\n")
    assert cores((file,), (tmp_path / "none",)) == count


@pytest.mark.parametrize(("quota", "count"), [("-1", 8), ("300000", 3)])
def test_a_quota_of_version_1(tmp_path: Path, quota: str, count: int) -> None:
    files = tmp_path / "quota", tmp_path / "period"
    files[0].write_text(f"{quota}\n")
    files[1].write_text("100000\n")
    assert cores((tmp_path / "none",), files) == count


def test_without_a_quota_the_mask_decides(tmp_path: Path) -> None:
    assert cores((tmp_path / "none",), (tmp_path / "none",)) == 8


def test_a_process_with_one_core_adds_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert added_threads(Loop(), 2, 1 << 20) == (None, "has no effect: the process may use one core only")


def test_the_interpreted_engine_adds_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waymesh_router.runtime.worker_threads.cores", lambda: 8)
    threads, reason = added_threads(Loop(), 2, 1 << 20)
    if waymesh_amqp.engine() == "compiled":
        assert threads is not None
        threads.stop()
        assert reason == ""
    else:
        assert (threads, reason) == (None, "has no effect: the engine is not compiled")
