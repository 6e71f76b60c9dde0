"""Free memory in Python's allocator: measured by a walk that takes it, and gives it back."""

from __future__ import annotations

import sys

import pytest

from waymesh_router.core.portions import Portions
from waymesh_router.runtime.free_pools import BLOCK_BYTES, GROWTH_BYTES, STEP_BYTES, FreePools

MIB = 1 << 20
SIZE = 100 * MIB


class Process:
    """A process with free pools. `steps`: how many portions there were."""

    def __init__(self, free: int, most: int = sys.maxsize) -> None:
        self.free = free
        self.other = SIZE
        self.portions = Portions()
        self.steps = 0
        self.pools = FreePools(self.portions, self.resident, most)
        self.blocks = 1000

    def resident(self) -> int:
        taken = len(self.pools._taken) * STEP_BYTES
        return self.other + max(taken - self.free, 0)

    def measure(self) -> int:
        self.pools.begin()
        while self.portions:
            self.portions.run()
            self.steps += 1
        return self.pools.free()


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of allocated blocks that the process sees."""
    count = [1000]
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: count[0])
    return count


@pytest.mark.parametrize("free", [0, 5 * MIB, 40 * MIB])
def test_what_is_free_is_found_and_given_back(free: int) -> None:
    process = Process(free)
    assert process.measure() == free
    assert process.resident() == SIZE
    assert process.steps * STEP_BYTES <= free + 2 * GROWTH_BYTES, "a little in each turn"


def test_new_objects_use_it_up(blocks: list[int]) -> None:
    process = Process(5 * MIB)
    process.measure()
    blocks[0] += 2 * MIB // BLOCK_BYTES
    assert process.pools.free() == 3 * MIB
    blocks[0] += 9 * MIB // BLOCK_BYTES
    assert process.pools.free() == 0
    blocks[0] = 10
    assert process.pools.free() == 5 * MIB, "no more than was seen"


def test_memory_that_others_return_meanwhile_is_not_free() -> None:
    process = Process(5 * MIB)
    process.pools.begin()
    process.portions.run()
    process.other -= 30 * MIB
    while process.portions:
        process.portions.run()
    assert process.pools.free() <= 5 * MIB + STEP_BYTES


def test_a_second_measurement_begins_after_the_first_one() -> None:
    process = Process(5 * MIB)
    process.pools.begin()
    process.portions.run()
    process.pools.begin()
    assert process.measure() == 5 * MIB
    process.free = MIB
    assert process.measure() == MIB


def test_no_more_is_taken_than_allowed() -> None:
    process = Process(SIZE, 4 * MIB)
    assert process.measure() == 4 * MIB - GROWTH_BYTES
