"""Lines, numbers and names that no router has end no run, and take no more memory than others."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fuzz import telemetry as fuzzer
from waymesh_schema.telemetry import KINDS, FileName

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]

BOOT_MS = 1_769_731_200_000
GOOD = {"v": 1, "router": "A", "boot": BOOT_MS, "ts": BOOT_MS * 1000, "mono_us": 5}


def lines(*records: dict[str, Any]) -> bytes:
    """The lines of records, each with the fields of GOOD and a number, unless it has its own."""
    made = ({**GOOD, "seq": number, **record} for number, record in enumerate(records, 1))
    return b"".join(json.dumps(record).encode() + b"\n" for record in made)


@pytest.mark.parametrize("seed", range(0, 150, 50))
def test_seeds_of_the_fuzzer(seed: int, tmp_path: Path) -> None:
    for each in range(seed, seed + 50):
        fuzzer.task(each, tmp_path / str(each))


def test_a_seed_of_the_fuzzer_gives_a_report(spark: Any, tmp_path: Path) -> None:
    fuzzer.report(1, tmp_path, spark)


@pytest.mark.parametrize("kind", ["delivery", "event"])
def test_a_file_of_very_many_lines_is_read_to_a_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics.store import parsing

    monkeypatch.setattr(parsing, "MOST_LINES", 10)
    monkeypatch.setattr(parsing, "PIECE_LINES", 4)
    packed = gzip.compress(lines(*[{}] * 25))
    assert parsing.parse_file(kind, "2026-01-30T00", packed).records["seq"].to_pylist() == list(range(1, 11))
    packed = gzip.compress(lines(*[{}] * 10))
    assert parsing.parse_file(kind, "2026-01-30T00", packed).lines == 10


def test_lines_that_are_not_records_are_kept_to_a_limit_and_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from waymesh_analytics.store import parsing

    def found() -> tuple[int, int, int]:
        parsed = parsing.parse_file("event", "2026-01-30T00", gzip.compress(b"odd line\n" * 20 + lines({})))
        return parsed.corrupt, len(parsed.kept), len(parsed.records)

    assert found() == (20, 20, 1)
    monkeypatch.setattr(parsing, "KEPT_LINES", 5)
    assert found() == (20, 5, 1)
    monkeypatch.setattr(parsing, "KEPT_BYTES", 20)
    assert found() == (20, 3, 1)


def test_a_text_that_is_not_utf_8_is_set_aside() -> None:
    """pyarrow takes it, and fails when such a table is written or read later."""
    from waymesh_analytics.store import parsing

    bad = lines({"address": "x"}).replace(b'"x"', b'"\xff"')
    found = parsing.parse_file("delivery", "2026-01-30T00", gzip.compress(lines({}) + bad + lines({"seq": 2})))
    found.records.validate(full=True)
    assert (found.records["seq"].to_pylist(), found.corrupt) == ([1, 2], 1)


def test_a_long_number_in_an_unknown_field_is_ignored_as_the_field_is() -> None:
    """By lines, too: they are read so if another line of the file is not a record."""
    from waymesh_analytics.store import parsing

    long = lines({"seq": 1, "unknown": 0}, {"seq": 2, "phase": 0}).replace(b" 0}", b" " + b"9" * 5000 + b"}")
    for bad in (b"", b"no\n"):
        found = parsing.parse_file("link", "2026-01-30T00", gzip.compress(long.split(b"\n")[0] + b"\n" + bad))
        assert (found.records["seq"].to_pylist(), found.corrupt) == ([1], int(bool(bad)))
    found = parsing.parse_file("link", "2026-01-30T00", gzip.compress(long))
    assert (found.records["seq"].to_pylist(), found.corrupt) == ([1], 1)


def test_a_file_of_many_gzip_members_is_unpacked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a member is copied: of the whole file, it would be copied once for each."""
    from isal import isal_zlib

    from waymesh_analytics.store import parsing

    given: list[int] = []
    real = isal_zlib.decompressobj

    class Counted:
        def __init__(self, bits: int) -> None:
            self._real = real(bits)

        def decompress(self, data: bytes, limit: int) -> bytes:
            given.append(len(data))
            return bytes(self._real.decompress(data, limit))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(parsing, "isal_zlib", SimpleNamespace(decompressobj=Counted))
    monkeypatch.setattr(parsing, "PACKED_PIECE", 100)
    data = lines({}, {})
    packed = gzip.compress(b"") * 200 + gzip.compress(data)
    assert parsing.unpack(packed) == (data, False)
    assert max(given) == 100
    assert sum(given) < 6 * len(packed)
    assert parsing.unpack(packed[:-1]) == (data, True)
    assert parsing.unpack(packed + b"\x1f\x8b")[1]


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        ("delivery", {"weight": 0.0}),
        ("delivery", {"weight": 0.99}),
        ("delivery", {"weight": -1.0}),
        ("delivery", {"weight": 1e300}),
        ("delivery", {"settle_us": 1 << 53}),
        ("delivery", {"seq": 0}),
        ("link", {"deliveries": -(1 << 63)}),
        ("router", {"records": {"delivery": None}}),
        ("router", {"records": {"delivery": 1 << 53}}),
        ("node", {"neighbours": {"B": -1}}),
    ],
)
def test_numbers_that_no_router_has_are_set_aside(kind: str, odd: dict[str, Any]) -> None:
    from waymesh_analytics.store.parsing import parse_file

    parsed = parse_file(kind, "2026-01-30T00", gzip.compress(lines({}, odd, {})))
    assert (parsed.records["seq"].to_pylist(), parsed.corrupt) == ([1, 3], 1)


def test_numbers_at_their_limits_are_records() -> None:
    from waymesh_analytics.store.parsing import parse_file

    most = (1 << 53) - 1
    made = lines(
        {"sid": (1 << 62) + 1, "weight": 1.0, "settle_us": most, "queue_us": -most, "phase": -1}, {"seq": most}
    )
    assert len(parse_file("delivery", "2026-01-30T00", gzip.compress(made)).records) == 2


def test_names_with_which_nothing_can_be_calculated_are_listed() -> None:
    from waymesh_analytics.store.raw_files import choose

    good = FileName("event", "2026-01-30", 0, "A", BOOT_MS, 1, 1)
    days = ("2026-02-30", "0001-01-01", "9999-12-31")
    odd = [good.path.replace("2026-01-30", day) for day in days]
    odd += [good.path.replace(str(BOOT_MS), "9" * 19), good.path.replace("-1.", f"-{'9' * 200}.")]
    odd += [good.path.replace("2026", "٢٠٢٦"), good.path.replace("/A", "/\udcff")]
    found = choose((path, 10) for path in (good.path, *odd))
    assert found.files == {"event": {"2026-01-30T00": [found.files["event"]["2026-01-30T00"][0]]}}
    assert len(found.unrecognized) == len(odd)
    json.dumps(found.unrecognized, ensure_ascii=False).encode()


def test_links_between_folders_that_lead_in_circles_are_followed_once(tmp_path: Path) -> None:
    from waymesh_analytics.store.local_storage import files_under

    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_text("x")
    for name in ("one", "two", "three"):
        (tmp_path / "a" / name).symlink_to(tmp_path)
    (tmp_path / "a/itself").symlink_to("itself")
    os.mkfifo(tmp_path / "a/pipe")
    assert list(files_under(tmp_path)) == [(f"file:{tmp_path}/a/file", 1)]


def test_a_report_has_what_odd_records_say(spark: Any, tmp_path: Path) -> None:
    """Fields that no router leaves out, texts that it does not write, and sums that are larger than 64 bits."""
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    large = {"half": "out", "address": "$\\frac{$", "size": (1 << 31) - 1, "weight": float(1 << 52)}
    down = {"event": "connection.down", "object": "B"}
    made: dict[str, list[dict[str, Any]]] = {
        "event": [
            {"event": None},
            {"event": "topology.change"},
            {"event": "topology.converged", "detail": {"duration_us": "soon"}},
            {"event": "topology.converged", "detail": {"duration_us": None}},
            {"event": "topology.converged"},
            {**down, "detail": {"role": "inter-router", "error": None}},
            {**down, "detail": {"role": "inter-router", "error": "gone"}},
        ],
        "node": [{"dest": None, "neighbours": {"B": 1}}, {"dest": "A", "neighbours": {"B": 1}}],
        "delivery": [large, large, {**large, "half": "in", "outcome": "accepted", "settle_us": 7}],
        "router": [{"mono_us": None}],
    }
    for kind, records in made.items():
        for hour in range(2):
            path = tmp_path / "export" / FileName(kind, "2026-01-30", hour, "A", BOOT_MS, 1, len(records)).path
            path.parent.mkdir(parents=True)
            path.write_bytes(gzip.compress(lines(*records)))
    assert set(made) <= set(KINDS)
    report = analyze(spark, Options(str(tmp_path / "export"), str(tmp_path / "out")), lambda text: None)
    assert [row["bytes"] for row in report.tables["traffic"].dicts()] == [(1 << 63) - 1]
    assert {row["slowest_ms"] for row in report.tables["convergence"].dicts()} == {0.0}
    (link,) = report.tables["mesh_links"].dicts()
    assert (link["router"], link["neighbour"], link["broken"]) == ("A", "B", 2)
    clocks = {row["kind"]: row["clock_ms"] for row in report.tables["completeness"].dicts()}
    assert clocks == {"event": 0, "node": 0, "delivery": 0, "router": None}
    assert (tmp_path / "out/report.html").exists()
