"""The memory limit of the router, the share for messages, and the return of freed memory."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path

import pytest

from waymesh_router.memory.buffers import GIB, MIB, buffer_limits
from waymesh_router.runtime.memory import (
    BLOCK_BYTES,
    CLEARINGS,
    FEW_CLOSED,
    GROWN_BYTES,
    GROWN_LITTLE_BYTES,
    MANY_CLOSED,
    MANY_ENDED,
    TRIM_BYTES,
    Trimmer,
    clear_caches,
    memory_limit,
    resident_bytes,
)

pytestmark = pytest.mark.engine_independent


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_limit_of_the_control_group_counts(tmp_path: Path) -> None:
    assert memory_limit((tmp_path / "none", written(tmp_path / "limit", "134217728\n"))) == 128 * MIB


def test_without_a_limit_the_memory_of_the_machine_counts(tmp_path: Path) -> None:
    machine = memory_limit(())
    assert machine > 128 * MIB
    assert memory_limit((written(tmp_path / "v2", "max\n"),)) == machine
    assert memory_limit((written(tmp_path / "v1", "9223372036854771712\n"),)) == machine


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (512 * MIB, (128 * MIB, 32 * MIB, 8 * MIB)),
        (128 * MIB, (32 * MIB, 8 * MIB, 2 * MIB)),
        (16 * MIB, (16 * MIB, 4 * MIB, MIB)),
        (64 * GIB, (GIB, GIB // 4, 8 * MIB)),
        (0, (256 * MIB, 64 * MIB, 8 * MIB)),
    ],
)
def test_budgets_are_parts_of_the_memory(memory: int, expected: tuple[int, int, int]) -> None:
    assert buffer_limits({}, memory) == expected


def test_budgets_that_are_set_count() -> None:
    attrs = {"maxBufferedBytes": 1000, "maxBufferedBytesPerConnection": 500, "maxBufferedBytesPerLink": 0}
    assert buffer_limits(attrs, 512 * MIB) == (1000, 500, 62)
    assert buffer_limits({**attrs, "maxBufferedBytesPerLink": 70}, 512 * MIB) == (1000, 500, 70)


def test_memory_is_given_back_when_much_less_waits_than_before() -> None:
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    for waiting in (0, TRIM_BYTES // 2, 0, 3 * TRIM_BYTES, 2 * TRIM_BYTES):
        trimmer.poll(waiting, waiting)
    assert calls == []
    trimmer.poll(TRIM_BYTES, TRIM_BYTES)
    assert calls == [0]
    trimmer.poll(0, 0)
    assert calls == [0, 0]
    trimmer.poll(0, 0)
    assert calls == [0, 0]


def test_memory_is_trimmed_after_a_peak_between_two_looks() -> None:
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    trimmer.poll(0, TRIM_BYTES)
    assert calls == [0]


def test_memory_is_given_back_when_many_links_have_ended() -> None:
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    for ended in (0, MANY_ENDED - 1, MANY_ENDED, MANY_ENDED + 1, 2 * MANY_ENDED - 1):
        trimmer.ended(ended, 0, lambda: MIB)
    assert calls == [0]
    trimmer.ended(2 * MANY_ENDED, 0, lambda: MIB)
    assert calls == [0, 0]


def test_memory_is_given_back_when_a_connection_of_a_large_process_has_ended() -> None:
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    trimmer.ended(0, 1, lambda: MIB)
    trimmer.ended(0, 1, lambda: MIB + GROWN_BYTES)
    assert calls == [0]
    trimmer.ended(0, 2, lambda: MIB + GROWN_BYTES)
    assert calls == [0], "the last trim left that much"
    trimmer.ended(0, 3, lambda: MIB + 2 * GROWN_BYTES)
    assert calls == [0, 0]


def test_memory_is_given_back_once_more_when_the_last_links_have_ended() -> None:
    calls: list[int] = []
    freed: list[None] = []
    trimmer = Trimmer(calls.append, lambda: freed.append(None))
    for ended in (MANY_ENDED, MANY_ENDED + 5, MANY_ENDED + 9):
        trimmer.ended(ended, 0, lambda: MIB)
    assert len(calls) == len(freed) == 1
    for _ in range(3):
        trimmer.ended(MANY_ENDED + 9, 0, lambda: MIB)
    assert len(calls) == len(freed) == 2


def test_memory_is_given_back_when_a_crowd_of_connections_has_gone() -> None:
    """With so few links, and so little growth, nothing else causes a trim."""
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    trimmer.ended(0, 0, lambda: MIB)
    trimmer.ended(4, MANY_CLOSED, lambda: MIB + GROWN_BYTES - 1)
    assert calls == [], "more connections may end"
    trimmer.ended(4, MANY_CLOSED + FEW_CLOSED - 1, lambda: MIB + GROWN_BYTES - 1)
    assert calls == [0]
    for _ in range(3):
        trimmer.ended(4, MANY_CLOSED + FEW_CLOSED - 1, lambda: MIB)
    assert calls == [0]


def test_a_router_of_many_clients_waits_until_as_many_have_gone_and_it_has_grown() -> None:
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    left = 3 * MANY_CLOSED
    for ended in range(0, left, FEW_CLOSED - 1):
        trimmer.ended(0, ended, lambda: MIB, left)
    trimmer.ended(0, left, lambda: MIB + GROWN_LITTLE_BYTES - 1, left)
    assert calls == []
    trimmer.ended(0, left, lambda: MIB + GROWN_LITTLE_BYTES, left)
    assert calls == [0]


def test_what_python_keeps_is_freed_again_after_a_trim_and_causes_none() -> None:
    """Memory that is given back by it is told, as what is free is measured again then."""
    calls: list[int] = []
    cleared: list[None] = []
    trimmer = Trimmer(calls.append, clear=lambda: cleared.append(None))
    assert not trimmer.ended(0, 0, lambda: 9 * MIB)
    assert cleared == []
    assert trimmer.ended(MANY_ENDED, 0, lambda: 9 * MIB)
    assert not trimmer.ended(MANY_ENDED, 0, lambda: 9 * MIB - BLOCK_BYTES + 1)
    assert trimmer.ended(MANY_ENDED, 0, lambda: 9 * MIB - BLOCK_BYTES)
    assert not trimmer.ended(MANY_ENDED, 0, lambda: 9 * MIB - BLOCK_BYTES)
    for _ in range(CLEARINGS):
        trimmer.ended(MANY_ENDED, 0, lambda: 9 * MIB)
    assert len(cleared) == CLEARINGS
    assert not trimmer.ended(MANY_ENDED, 1, lambda: 9 * MIB - BLOCK_BYTES + GROWN_BYTES)
    assert calls == [0], "the process has not grown since the trim"


def test_connections_that_come_and_go_all_the_time_cause_no_trim() -> None:
    calls: list[int] = []
    trimmer = Trimmer(calls.append)
    for ended in range(0, 100 * FEW_CLOSED, FEW_CLOSED):
        trimmer.ended(0, ended, lambda: MIB)
    assert calls == []


FREE = 1_000
"""Python keeps up to 2,000 free tuples of a length, and has 4,096 places for names of attributes."""


def test_free_objects_of_python_end() -> None:
    clear_caches()
    before = sys.getallocatedblocks()
    tuples = [(number, number) for number in range(FREE)]
    tuples.clear()
    kept = sys.getallocatedblocks() - before
    clear_caches()
    assert kept >= FREE * 0.9, "this version of Python keeps them"
    assert sys.getallocatedblocks() - before <= FREE * 0.1


def test_cached_names_of_attributes_end() -> None:
    clear_caches()
    before = sys.getallocatedblocks()
    for number in range(FREE):
        getattr(gc, f"attribute {number}", None)
    clear_caches()
    assert sys.getallocatedblocks() - before <= FREE * 0.1


REPLACED = """
from waymesh_router.runtime.memory import BLOCK_BYTES, CLEARINGS, clear_caches

def blocks():
    return len({id(value) // BLOCK_BYTES for value in values})

values = [0.0] * 20
ended = []
for number in range(len(values)):
    ended.append([float(each) for each in range(2 * BLOCK_BYTES // 24)])
    values[number] = number + 0.5
seen = [blocks()]
ended.clear()
for clear in (lambda: None, clear_caches):
    clear_caches()
    for again in range(CLEARINGS):
        for number in range(len(values)):
            values[number] = number + again + 0.25
        clear()
    seen.append(blocks())
print(*seen)
"""


def test_values_that_are_replaced_leave_the_blocks_of_what_has_ended() -> None:
    """Python keeps up to 100 free floats, and hands the last one out first: without `clear_caches`, a value that is
    replaced again and again stays where the one before it was, and each of these blocks stays, too. In a process of its
    own, as others have free places in many blocks."""
    done = subprocess.run([sys.executable, "-c", REPLACED], capture_output=True, check=True, text=True)
    before, kept, cleared = map(int, done.stdout.split())
    assert before >= 15, "they are in blocks of their own"
    assert kept >= 10, "this version of Python keeps them"
    assert cleared <= 5


def test_young_objects_in_cycles_end() -> None:
    """They would stay until the next collection of all objects."""
    gc.disable()  # it could take them for older ones just now
    try:
        young = Trimmer(lambda _: None)
        young._free = partial(isinstance, young, Trimmer)  # refers to itself
        seen = weakref.ref(young)
        del young
        clear_caches()
    finally:
        gc.enable()
    assert seen() is None


def test_what_is_in_use_stays_subject_to_collection() -> None:
    kept = [[number] for number in range(FREE)]
    clear_caches()
    assert gc.get_freeze_count() == 0
    assert gc.is_tracked(kept)
    assert kept[-1] == [FREE - 1]


def test_the_memory_of_the_process_is_read_without_names_that_stay() -> None:
    resident_bytes()
    clear_caches()
    before = sys.getallocatedblocks()
    for _ in range(FREE):
        assert resident_bytes() > MIB
    assert sys.getallocatedblocks() - before <= FREE * 0.1
