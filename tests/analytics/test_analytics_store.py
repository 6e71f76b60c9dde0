"""The store: the same result for every order of imports, and correct with damaged files."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from tests.analytics.export import HOUR_US, START_US, RouterExport
from waymesh_schema.telemetry import parse_path

EXAMPLE = Path(__file__).parents[2] / "examples/telemetry"
"""What real routers exported."""
pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
Export = Callable[..., list[Path]]


class Store:
    """A store of its own, and the export that it is made from."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.export = root / "export"
        self.out = root / "out"

    def open(self) -> Any:
        from waymesh_analytics.store.store import Store as Opened

        return Opened.open(self.spark, f"{self.out.as_uri()}/store")

    def advance(self) -> list[str]:
        """Bring it up to date; returns what it said: a line for each batch."""
        from waymesh_analytics.rollups.compaction import compact

        said: list[str] = []
        with self.write() as store:
            compact(store, self.listing(), said.append)
        return said

    def write(self) -> Any:
        from waymesh_analytics.store.store import Store as Opened

        return Opened.write(self.spark, f"{self.out.as_uri()}/store", lambda text: None)

    def manifests(self) -> dict[str, str]:
        """The manifests by name."""
        return {path.name: path.read_text() for path in (self.out / "store/manifest").iterdir()}

    def listing(self) -> Any:
        from waymesh_analytics.store.raw_files import find_files

        return find_files(self.spark, [str(self.export)])

    def rollups(self) -> Any:
        from waymesh_analytics.hours import Window
        from waymesh_analytics.rollups.reader import Rollups

        return Rollups(self.open(), Window())

    def flows(self) -> list[tuple[Any, ...]]:
        """Hour, address and deliveries, of the rollups."""
        from pyspark.sql import functions as F

        rows = self.rollups().rows("flow", ("hour", "address"), F.sum("deliveries").alias("deliveries"))
        return sorted(tuple(row.values()) for row in rows)

    def completeness(self, kind: str = "delivery") -> list[list[dict[str, Any]]]:
        """The tables of records and of missing ones, of a kind."""
        from waymesh_analytics.report.tables.completeness import gaps, records

        rollups = self.rollups()
        table = records(rollups)
        tables = (table, gaps(table, self.open().manifest, self.listing(), rollups))
        return [[row for row in each.dicts() if row["kind"] == kind] for each in tables]

    def hours(self, kind: str = "delivery") -> dict[str, Any]:
        return self.open().manifest.of(kind)  # type: ignore[no-any-return]

    def files(self) -> list[str]:
        """What lies in the store, without the parts of names that are drawn."""
        base = self.out / "store"
        return sorted(str(path.relative_to(base).parent) for path in base.rglob("*.parquet") if path.is_file())


@pytest.fixture
def store(spark: Any, tmp_path: Path) -> Store:
    return Store(spark, tmp_path)


def deliveries(root: Path, router: str = "A", hours: int = 2, each: int = 5, boot_us: int = 0) -> list[Path]:
    """Some deliveries in each hour since the boot; returns the files."""
    export = RouterExport(root, router, boot_us)
    for hour in range(hours):
        for number in range(each):
            values = {"sid": number, "half": "in", "address": f"q-{router}", "phase": 0, "ingress": router, "hops": 0}
            at = boot_us + hour * HOUR_US + number
            export.put("delivery", at, outcome="accepted", settle_us=number, weight=1.0, **values)
    return export.write()


def two_hours(*addresses: str, each: float = 5.0) -> list[tuple[str, str, float]]:
    return [(hour, f"q-{a}", each) for hour in ("2026-01-30T00", "2026-01-30T01") for a in addresses]


def test_a_second_run_has_nothing_to_do(store: Store) -> None:
    deliveries(store.export)
    assert len(store.advance()) == 1
    before = store.files(), store.flows(), store.manifests()
    assert store.flows() == two_hours("A")
    assert store.advance() == []
    assert (store.files(), store.flows(), store.manifests()) == before


def test_a_late_file_has_its_hour_done_again(store: Store) -> None:
    deliveries(store.export)
    store.advance()
    deliveries(store.export, "B", hours=1)
    assert store.advance() == ["delivery: 2026-01-30T00 to 2026-01-30T00, 2 files"]
    late = ("2026-01-30T00", "q-B", 5.0)
    assert store.flows() == sorted([*two_hours("A"), late])
    assert len([name for name in store.files() if name.startswith("curated/")]) == 2, "the superseded hour is gone"


def test_a_run_that_is_killed_goes_on_where_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics.rollups import compaction, tasks

    monkeypatch.setattr(compaction, "BATCH_BYTES", 1)
    deliveries(store.export, hours=3)
    rolled: list[Any] = []
    work = tasks.work

    def killed(shard: Any) -> Any:
        made = work(shard)
        rolled.append(shard)
        if len(rolled) == 2:
            raise KeyboardInterrupt  # the second hour's files are written and not committed
        return made

    monkeypatch.setattr(compaction, "work", killed)
    with pytest.raises(KeyboardInterrupt):
        store.advance()
    assert list(store.hours()) == ["2026-01-30T00"]
    assert store.flows() == [("2026-01-30T00", "q-A", 5.0)]
    assert len(store.advance()) == 2
    assert [row[2] for row in store.flows()] == [5.0, 5.0, 5.0]
    assert len([name for name in store.files() if name.startswith("curated/")]) == 3


def test_what_a_killed_run_left_is_swept(store: Store) -> None:
    deliveries(store.export)
    store.advance()
    before = store.files()
    left = store.out / "store/curated/delivery/0123456789abcdef/part=2026-01-30T05"
    left.mkdir(parents=True)
    (left / "part-0.zstd.parquet").write_bytes(b"half")
    store.advance()
    assert store.files() == before


def test_a_file_that_is_there_twice_counts_once(store: Store) -> None:
    first, _ = deliveries(store.export)
    copy = store.export / "copy" / first.relative_to(store.export)
    copy.parent.mkdir(parents=True)
    shutil.copy(first, copy)
    store.advance()
    assert store.flows() == two_hours("A")
    assert len(store.listing().duplicates) == 1


def test_missing_and_double_files_of_real_routers_are_named(store: Store) -> None:
    for kind in ("delivery", "router"):
        shutil.copytree(EXAMPLE / f"v1/kind={kind}", store.export / f"v1/kind={kind}")
    _, missing, double = sorted((store.export / "v1/kind=delivery").rglob("*.gz"))
    copy = store.export / "copy" / double.relative_to(store.export)
    copy.parent.mkdir(parents=True)
    shutil.copy(double, copy)
    name = parse_path(str(missing.relative_to(store.export)))
    assert name is not None
    missing.rename(store.export / "aside")
    store.advance()
    lost = {"kind": "delivery", "router": name.router, "boot": name.boot, "lost": name.count}
    records, gaps = store.completeness()
    assert gaps == [{**lost, "first": 1, "last": name.count}]
    assert [{key: row[key] for key in lost} for row in records if row["lost"]] == [lost]
    assert len(store.listing().duplicates) == 1
    (store.export / "aside").rename(missing)
    assert len(store.advance()) == 1, "the hour that it belongs to"
    records, gaps = store.completeness()
    assert gaps == []
    assert sum(row["records"] for row in records) == 300
    assert not any(row["lost"] for row in records)


def test_a_clock_that_is_set_loses_nothing(store: Store) -> None:
    export = RouterExport(store.export, "A")
    for number, export.skew_us in enumerate([0, -HOUR_US, 24 * HOUR_US]):
        values = {"sid": number, "half": "in", "address": "orders", "phase": 0, "ingress": "A", "hops": 0}
        export.put("delivery", number, outcome="accepted", settle_us=1, weight=2.0, **values)
    export.write()
    store.advance()
    days = ("2026-01-29T23", "2026-01-30T00", "2026-01-31T00")
    assert store.flows() == [(hour, "orders", 2.0) for hour in days]
    (row,), gaps = store.completeness()
    assert (row["records"], row["lost"], row["clock_ms"]) == (3, 0, 25 * 3_600_000)
    assert gaps == []


def test_a_part_of_a_file_gives_way_to_the_whole(store: Store) -> None:
    first, _ = deliveries(store.export)
    lines = gzip.decompress(first.read_bytes()).splitlines(keepends=True)
    part = first.with_name(first.name.replace("-5.ndjson", "-3.ndjson"))
    part.write_bytes(gzip.compress(b"".join(lines[:3])))
    whole = first.rename(store.export / "aside")
    store.advance()
    assert store.flows()[0] == ("2026-01-30T00", "q-A", 3.0)
    whole.rename(first)
    store.advance()
    assert store.flows() == two_hours("A")


def test_corrupt_lines_are_set_aside(store: Store) -> None:
    first, _ = deliveries(store.export)
    lines = gzip.decompress(first.read_bytes()).splitlines()
    lines[1] = b'{"v":1,"mesh":"test","router'
    lines[2] = lines[2].replace(b'"hops":0', b'"hops":"none"')
    lines[3] = b"{}"
    first.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    store.advance()
    assert store.flows()[0] == ("2026-01-30T00", "q-A", 2.0)
    entry = store.hours()["2026-01-30T00"]
    assert (entry.rows, entry.corrupt, entry.short) == (2, 3, ())
    aside = [
        json.loads(line)
        for path in (store.out / "store/quarantine").rglob("*.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    assert sorted(item["line"] for item in aside) == sorted(line.decode() for line in lines[1:4])
    assert all(item["file"].endswith(first.name) for item in aside)


def test_a_truncated_file_is_read_as_far_as_it_goes(store: Store) -> None:
    first, second = deliveries(store.export, each=4000)
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    store.advance()
    entry = store.hours()["2026-01-30T00"]
    assert 0 < entry.rows < 4000
    assert [path.rpartition("/")[2] for path in entry.short] == [first.name]
    assert store.flows()[0][2] == entry.rows
    assert store.flows()[1] == ("2026-01-30T01", "q-A", 4000.0)
    assert store.hours()["2026-01-30T01"].short == ()
    assert second.exists()


def test_names_that_need_quotes(store: Store) -> None:
    deliveries(store.export, "a/b c%20-1", hours=1)
    store.advance()
    assert store.flows() == [("2026-01-30T00", "q-a/b c%20-1", 5.0)]


def test_retention(store: Store) -> None:
    from waymesh_analytics.options import Retention
    from waymesh_analytics.store.retention import retain

    deliveries(store.export, hours=50, each=1)
    deliveries(store.export, "ahead", hours=1, each=1, boot_us=90 * 24 * HOUR_US)
    store.advance()
    retention, now = Retention(raw=1, curated=1.5, rollups=2), datetime(2026, 2, 1, 1, 59, tzinfo=UTC)
    with store.write() as opened:
        retain(opened.catalog, store.listing(), retention, now, lambda path: Path(urlparse(path).path).unlink(), print)
    raw = sorted(store.listing().files["delivery"])
    assert (raw[0], raw[-1], len(raw)) == ("2026-01-31T01", "2026-04-30T00", 26)
    kept = [name for name in store.files() if name.startswith("curated/")]
    assert len(kept) == 38
    assert store.flows()[0][0] == "2026-01-30T01"
    deliveries(store.export, "B", hours=1, each=100)
    assert store.advance() == [], "an hour whose files are gone can't be done again"
    assert [path.rpartition("/")[2][:2] for path in store.open().manifest.late] == ["B-"]


def test_hours_whose_files_are_gone_stay_as_they_are(store: Store) -> None:
    first, _ = deliveries(store.export)
    store.advance()
    first.unlink()
    assert store.advance() == []
    assert store.flows() == two_hours("A")


def test_streaming_is_the_same_as_a_batch(store: Store, spark: Any, tmp_path: Path) -> None:
    from waymesh_analytics.rollups.streaming import stream

    streamed = Store(spark, tmp_path / "streamed")
    streamed.export = store.export
    for router in ("A", "B"):
        deliveries(store.export / router, router)
        store.advance()
        with streamed.write() as opened:
            stream(opened, store.export.as_uri(), lambda text: None)
        assert streamed.flows() == store.flows()
        assert streamed.hours().keys() == store.hours().keys()
    assert store.flows() == two_hours("A", "B")


def test_what_began_is_judged_by_each_router_s_own_clock(store: Store) -> None:
    """One router's clock stands at 1970 until somebody sets it: others did not start, for that, in this time."""
    old, unset = RouterExport(store.export, "old", -HOUR_US), RouterExport(store.export, "unset", -START_US)
    old.lose("event", 1000)
    for number in range(3):
        old.put("event", number, event="log.warning")
        unset.put("event", number - START_US, event="log.warning")
    old.write()
    unset.write()
    deliveries(store.export)
    store.advance()
    assert {router for router, _ in store.rollups().started} == {"A", "unset"}


def test_no_such_folder(store: Store) -> None:
    from waymesh_analytics import AnalyticsError

    with pytest.raises(AnalyticsError, match="no such folder"):
        store.advance()


def test_files_that_are_no_gzip_files_are_short(store: Store) -> None:
    """One that is empty is as good as none: Spark does not even list it."""
    for router, content in {"text": b'{"v":1}\n', "empty": b""}.items():
        deliveries(store.export, router, hours=3)[1].write_bytes(content)
    deliveries(store.export, "whole", hours=3)
    store.advance()
    entry = store.hours()["2026-01-30T01"]
    assert (entry.rows, entry.corrupt) == (5, 0)
    assert [Path(path).name.split("-")[0] for path in entry.short] == ["text"]
    records, gaps = store.completeness()
    assert {row["router"]: row["lost"] for row in records} == {"empty": 5, "text": 5, "whole": 0}
    assert [(row["router"], row["first"], row["last"]) for row in gaps] == [("empty", 6, 10)]


@pytest.mark.parametrize("fault", ["gone", "folder", "device"])
def test_a_file_that_can_not_be_read_ends_the_run(store: Store, fault: str) -> None:
    """What breaks off is one thing; this is read by the next run."""
    from waymesh_analytics import AnalyticsError
    from waymesh_analytics.rollups.compaction import compact
    from waymesh_analytics.spark.failures import translate_errors

    first, _ = deliveries(store.export)
    listing = store.listing()
    aside = first.rename(store.export / "aside")
    if fault == "folder":
        first.mkdir()
    elif fault == "device":
        first.symlink_to("/proc/self/mem")  # whose first bytes nobody can read
    with pytest.raises(AnalyticsError, match=first.name), translate_errors(), store.write() as opened:
        compact(opened, listing, lambda text: None)
    assert store.hours() == {}
    if fault == "folder":
        first.rmdir()
    aside.replace(first)
    store.advance()
    assert store.flows() == two_hours("A")


def test_a_file_that_could_not_be_read_for_a_moment_is_not_taken_for_a_short_one(store: Store) -> None:
    from waymesh_analytics import AnalyticsError
    from waymesh_analytics.rollups.compaction import compact

    first, _ = deliveries(store.export, each=4000)
    listing, whole = store.listing(), first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AnalyticsError, match="run it again"), store.write() as opened:
        compact(opened, listing, lambda text: None)
    first.write_bytes(whole)
    assert store.hours() == {}
    store.advance()
    assert store.flows() == two_hours("A", each=4000)
