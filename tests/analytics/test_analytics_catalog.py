"""Commits of the store, without Spark: an interrupted run loses nothing and duplicates nothing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import pytest

from tests.analytics.mill import Breaking, Killed, Mill
from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.options import Retention
from waymesh_analytics.store.catalog import KEPT, KEPT_RUNS, Catalog
from waymesh_analytics.store.manifest import ONE_FILE_VERSION, VERSION, Hour, Manifest, from_text, to_text

pytestmark = pytest.mark.engine_independent
MOST_STEPS = 2000


@pytest.fixture
def mill() -> Mill:
    return Mill()


@pytest.fixture
def seeded() -> Mill:
    """A store of three hours; one of them has got a late file since, and a fourth hour is new."""
    mill = Mill()
    for hour in ("2026-01-01T00", "2026-01-20T00", "2026-01-20T01"):
        mill.export(hour, "A")
    mill.run()
    mill.export("2026-01-20T01", "B")
    mill.export("2026-01-20T02", "A")
    return mill


def manifests(mill: Mill) -> dict[str, str]:
    """By path, the oldest first."""
    return {path: text for path, text in sorted(mill.store.texts.items()) if path.startswith("manifest/")}


EXPECTED = {"2026-01-01T00": "A", "2026-01-20T00": "A", "2026-01-20T01": "A B", "2026-01-20T02": "A"}


def test_a_manifest_is_read_as_it_was_written_and_a_part_of_it_is_not() -> None:
    hour = Hour("f", 1, 2, 3, 4, ("a",), ("curated/x", "curated/z"), {"flow": ("rollups/y",)}, True)
    manifest = Manifest({"delivery": {"2026-01-01T00": hour}}, ["late"], ["old"], ["torn"])
    text = to_text(manifest)
    assert from_text(text) == manifest
    for length in range(len(text)):
        with pytest.raises(ValueError):
            from_text(text[:length])
    with pytest.raises(ValueError):
        from_text(text.replace('"late"', '"lote"', 1))


def test_hours_with_one_file_of_an_earlier_version_are_read() -> None:
    entry = asdict(Hour("f", 1, 2, 3, 4)) | {"curated": "curated/x", "rollups": {"flow": "rollups/y"}}
    body = json.dumps(
        {
            "version": ONE_FILE_VERSION,
            "hours": {"delivery": {"2026-01-01T00": entry, "2026-01-01T01": entry | {"curated": ""}}},
            "late": [],
            "superseded": [],
            "unreadable": [],
        }
    )
    text = f"{body}\nsha256 {hashlib.sha256(body.encode()).hexdigest()}\n"
    full, expired = from_text(text).of("delivery").values()
    assert (full.curated, full.rollups) == (("curated/x",), {"flow": ("rollups/y",)})
    assert expired.curated == ()


def runs(mill: Mill) -> int:
    """The number of runs that have a manifest."""
    return len({path.partition("-")[0] for path in manifests(mill)})


@pytest.mark.parametrize("retention", [None, Retention(raw=1), Retention(raw=1, curated=5, rollups=10)])
def test_a_run_that_is_killed_at_any_step_is_made_good_by_the_next(seeded: Mill, retention: Retention | None) -> None:
    expected = dict(EXPECTED)
    if retention and retention.rollups == 10:
        del expected["2026-01-01T00"]
    for step in range(MOST_STEPS):
        mill = seeded.copy()
        before = mill.found()
        try:
            mill.run(Breaking(mill.store, step), retention)
            ended = True
        except Killed:
            ended = False
        found = mill.found()
        assert {hour: found[hour] for hour in before if hour in expected}.keys() == before.keys() & expected.keys()
        mill.run(retention=retention)
        assert mill.found() == expected, f"killed at step {step}"
        assert mill.files() == mill.named(), f"killed at step {step}"
        assert len(manifests(mill)) <= KEPT + runs(mill) - 1, "the last one of each run before"
        if ended:
            return
    raise AssertionError("it never came to its end")


def test_a_first_run_that_is_killed_at_any_step_is_made_good_by_the_next() -> None:
    for step in range(MOST_STEPS):
        mill = Mill()
        mill.export("2026-01-01T00", "A")
        try:
            mill.run(Breaking(mill.store, step))
        except Killed:
            mill.run()
            assert mill.found() == {"2026-01-01T00": "A"}
            assert mill.files() == mill.named()
        else:
            return
    raise AssertionError("it never came to its end")


def test_late_files_do_not_take_the_place_of_what_was_made_of_removed_ones(seeded: Mill) -> None:
    """Killed anywhere between the first and the last step of removing exported files; then more files come than there
    had been."""
    retention, hour = Retention(raw=1), "2026-01-01T00"
    seeded.run()
    for step in range(MOST_STEPS):
        mill, ended = seeded.copy(), True
        try:
            mill.run(Breaking(mill.store, step), retention)
        except Killed:
            ended = False
        mill.export(hour, "B")
        mill.export(hour, "C")
        mill.run()
        assert mill.found()[hour] in ("A", "A B C"), f"killed at step {step}"
        if ended:
            assert mill.found()[hour] == "A"
            return
    raise AssertionError("it never came to its end")


def test_a_run_without_news_writes_nothing(mill: Mill) -> None:
    mill.export("2026-01-01T00", "A")
    mill.run()
    before = dict(mill.store.texts)
    mill.run()
    assert mill.store.texts == before


def test_old_manifests_go(mill: Mill) -> None:
    """But the last one of each of the last runs."""
    count = KEPT_RUNS + 2 * KEPT
    for number in range(count):
        mill.export(f"2026-01-{1 + number:02d}T00", "A")
        mill.run()
    assert KEPT_RUNS + 1 <= len(manifests(mill)) <= KEPT_RUNS + KEPT
    assert runs(mill) == KEPT_RUNS + 1
    assert len(mill.found()) == count


def test_without_a_readable_manifest_nothing_is_removed(seeded: Mill) -> None:
    before = seeded.files()
    for path, text in manifests(seeded).items():
        seeded.store.put(path, text[:-10])
    for _ in range(2):
        with pytest.raises(AnalyticsError, match="contains data but no readable manifest; nothing was removed"):
            seeded.run()
    seeded.store.delete("manifest")
    with pytest.raises(AnalyticsError, match="no readable manifest"):
        seeded.run()
    assert seeded.files() == before
    assert seeded.store.names("lock") == [], "the claim was given back"


def test_a_torn_manifest_is_passed_over_and_what_it_may_name_stays(seeded: Mill) -> None:
    seeded.run()
    *_, torn = manifests(seeded)
    seeded.store.put(torn, seeded.store.read_text(torn)[:100])
    before = set(seeded.files())
    said: list[str] = []
    for number in range(2 * KEPT):
        seeded.export("2026-01-20T02", f"router-{number}")
        seeded.run(log=said.append)
        assert before <= set(seeded.files())
        assert torn in manifests(seeded)
        assert seeded.found().keys() == EXPECTED.keys()
    assert "cannot be read and is skipped" in said[0]
    seeded.store.delete(torn)
    seeded.run()
    assert seeded.files() == seeded.named()
    assert seeded.found().keys() == EXPECTED.keys()


def test_what_a_torn_manifest_had_removed_is_made_again(seeded: Mill) -> None:
    """All manifests go bad but one from before: an hour that it names has been superseded since."""
    former = manifests(seeded)
    seeded.run()
    for path in manifests(seeded).keys() - former.keys():
        seeded.store.put(path, "half")
    assert seeded.found().keys() == {"2026-01-01T00", "2026-01-20T00"}
    seeded.run()
    assert seeded.found() == EXPECTED


def old_store(mill: Mill, name: str) -> None:
    """A store of the release before, with one hour and what a killed run left."""
    place = "delivery/0123/part=2026-01-01T00/part-0.parquet"
    for area in ("curated", "rollups"):
        mill.store.put(f"{area}/{place}", "A")
        mill.store.put(f"{area}/delivery/dead/part=2026-01-01T01/part-0.parquet", "half")
    entry = asdict(Hour("A", 1, 1, 1, 0, (), (f"curated/{place}",), {"flow": (f"rollups/{place}",)}))
    data = {"version": 3, "hours": {"delivery": {"2026-01-01T00": entry}}, "late": []}
    mill.store.put(name, json.dumps(data))


@pytest.mark.parametrize("name", ["manifest.json", "manifest.json.tmp"])
def test_a_store_of_the_release_before_is_taken_over(mill: Mill, name: str) -> None:
    """Also where that release was killed between removing the old manifest and renaming the new one."""
    old_store(mill, name)
    assert mill.found() == {"2026-01-01T00": "A"}
    mill.run()
    assert mill.found() == {"2026-01-01T00": "A"}
    assert mill.files() == mill.named()
    assert json.loads(mill.store.read_text("manifest.json")) == {"version": VERSION}, "which that release refuses"
    assert not mill.store.exists("manifest.json.tmp")


def test_a_store_that_is_open_for_reading_is_not_written(mill: Mill) -> None:
    with pytest.raises(AnalyticsError, match="for reading"):
        Catalog.read(mill.store).commit()
