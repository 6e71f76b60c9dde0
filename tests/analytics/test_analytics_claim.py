"""One writer at a time: claiming a store, refusals, takeover, and a run that was delayed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.analytics.mill import Memory, Mill, still
from waymesh_analytics.errors import StoreBusy
from waymesh_analytics.store.catalog import Catalog
from waymesh_analytics.store.claim import LEASE_S, TRIES, Claim, Clock, Owner, acquire
from waymesh_analytics.store.manifest import Hour

pytestmark = pytest.mark.engine_independent
HERE, THERE = Owner("here", 1, ""), Owner("there", 1, "")


def claimed(files: Memory, owner: Owner = HERE, clock: Clock | None = None) -> tuple[Claim, list[str]]:
    said: list[str] = []
    return acquire(files, said.append, owner=owner, clock=clock or still()), said


def test_a_second_writer_is_refused_while_the_first_shows_life() -> None:
    files = Memory()
    first, _ = claimed(files)
    with pytest.raises(StoreBusy, match="process 1 on here is writing to it; a store has one writer at a time"):
        claimed(files, THERE, still(first.beat))
    first.check()
    first.release()
    assert files.texts == {}
    second, said = claimed(files, THERE)
    assert (second.taken_over, said) == (False, [])


def test_a_claim_without_a_sign_of_life_is_taken_over_after_its_lease() -> None:
    files, clock = Memory(), still()
    first, _ = claimed(files)
    first.beat()
    second, said = claimed(files, THERE, clock)
    assert clock.now() >= LEASE_S
    assert second.term > first.term
    assert second.taken_over
    assert f"sent no heartbeat for {LEASE_S:g} s; its claim is taken over" in said[-1]
    with pytest.raises(StoreBusy, match="another run has taken over"):
        first.check()
    second.check()


def test_a_claim_that_is_given_back_meanwhile_is_no_obstacle() -> None:
    files = Memory()
    first, _ = claimed(files)
    second, _ = claimed(files, THERE, still(first.release))
    second.check()
    assert files.names("lock") == [f"{second.name}.json"]


def test_the_claim_of_a_process_that_has_ended_is_taken_over_at_once() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    files, clock, here = Memory(), still(), Owner.current()
    assert here.space, "Linux tells"
    acquire(files, print, owner=replace(here, pid=ended.pid), clock=clock)
    second, said = claimed(files, here, clock)
    assert clock.now() == 0.0
    assert second.taken_over
    assert "ended without releasing the store" in said[0]


def test_a_process_of_another_machine_or_one_that_lives_is_not_known_to_have_ended() -> None:
    here = Owner.current()
    assert not replace(here, pid=os.getppid()).has_ended(here)
    assert not here.has_ended(here)
    assert not replace(here, pid=2**22 + 1, space="another").has_ended(here)
    assert replace(here, pid=2**22 + 1).has_ended(here), "above the highest that Linux gives"


class Blind(Memory):
    """The same files; the first look finds none, as if it had been before another's claim."""

    def __init__(self, same: Memory) -> None:
        super().__init__()
        self.texts = same.texts
        self.looks = 0

    def names(self, path: str) -> list[str]:
        self.looks += 1
        return [] if self.looks == 1 else super().names(path)


class Interrupted(Memory):
    """The same files; after the first file below `folder` another run does something."""

    def __init__(self, same: Memory, folder: str, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.texts = same.texts
        self.folder = folder
        self.meanwhile: Callable[[], None] | None = meanwhile

    def write_new(self, path: str, text: str) -> None:
        super().write_new(path, text)
        if path.startswith(self.folder) and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()


def test_of_two_that_claim_at_once_one_gets_it() -> None:
    """The second looks before the first claims, and claims before the first looks again: both withdraw at first."""
    files = Memory()
    second: list[Claim] = []
    first = Interrupted(files, "lock/", lambda: second.append(claimed(Blind(files), THERE)[0]))
    with pytest.raises(StoreBusy, match="on there is writing to it"):
        claimed(first, HERE, still(lambda: second[0].beat()))
    second[0].check()
    assert [name for name in files.names("lock") if name.endswith(".json")] == [f"{second[0].name}.json"]


def test_runs_that_keep_claiming_at_the_same_moment_give_up() -> None:
    class Crowd(Memory):
        """Each claim meets a new rival."""

        def write_new(self, path: str, text: str) -> None:
            super().write_new(path, text)
            number = len(self.texts)
            super().write_new(f"lock/00000001-rival{number}.json", text)

        def delete(self, path: str) -> None:
            super().delete(path)
            for name in [name for name in self.texts if "rival" in name]:
                super().delete(name)

    with pytest.raises(StoreBusy, match="several runs started at the same time"):
        claimed(Crowd())
    assert TRIES > 1


def test_a_run_that_was_held_up_finds_that_another_took_over_and_neither_loses_anything() -> None:
    """The first stands still within its commit for longer than the lease, the second does everything; then the first
    goes on: it is refused, and what it committed counts for nothing."""
    mill = Mill()
    mill.export("2026-01-01T00", "A")
    mill.run()
    mill.export("2026-01-01T00", "B")
    late = Hour("A B", 1, 2, 1, 0, (), ("curated/delivery/late/part=0/x.parquet",), {})

    class HeldUp(Memory):
        meanwhile = staticmethod(mill.run)

        def write_new(self, path: str, text: str) -> None:
            if path.startswith("manifest/"):
                self.meanwhile()  # after the check that the store is still its own
            super().write_new(path, text)

    held_up = HeldUp()
    held_up.texts = mill.store.texts
    with Catalog.write(held_up, print, HERE, still()) as catalog:
        with pytest.raises(StoreBusy, match="another run has taken over"):
            catalog.commit_hours("delivery", {"2026-01-01T00": late})
    for _ in range(2):
        assert mill.found() == {"2026-01-01T00": "A B"}
        assert mill.files() == mill.named()
        mill.run()


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_run_that_begins_in_the_midst_of_another_is_refused(step: int) -> None:
    mill = Mill()
    mill.export("2026-01-01T00", "A")
    mill.run()
    mill.export("2026-01-01T00", "B")
    mill.export("2026-01-01T01", "A")

    class Watched(Memory):
        left = step

        def write_new(self, path: str, text: str) -> None:
            super().write_new(path, text)
            self.left -= 1
            if self.left == 0:
                (name,) = self.names("lock")
                beat = f"lock/{name.removesuffix('.json')}.beat"
                with pytest.raises(StoreBusy, match="is writing to it"):
                    mill.run(clock=still(lambda: self.put(beat, "1")))
                self.delete(beat)

    watched = Watched()
    watched.texts = mill.store.texts
    mill.run(watched)
    assert watched.left <= 0
    assert mill.found() == {"2026-01-01T00": "A B", "2026-01-01T01": "A"}
    assert mill.files() == mill.named()
