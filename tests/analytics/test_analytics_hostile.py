"""Lines and files that nobody honest writes are set aside like other lines that are not records."""

from __future__ import annotations

import gzip
import json
import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from waymesh_analytics.store.parsing import Parsed

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent]

HOSTILE = {
    "nested": b"[" * 100_000 + b"]" * 100_000,
    "nested in an unknown field": b'{"odd":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "the end of time": b"ts",
    "before time": b"-ts",
    "a boot after the end of time": b"boot",
    "wide": b'{"router":"' + b"x" * (2 << 20) + b'"}',
    "a number without an end": b"1e999",
    "a number of very many digits": b"9" * 5000,
}


def parsed(kind: str, lines: list[bytes]) -> Parsed:
    """What is read of a file with these lines."""
    from waymesh_analytics.store.parsing import parse_file  # needs PyArrow, as only the tests on Spark have it

    return parse_file(kind, "2026-01-30T00", gzip.compress(b"\n".join(lines)))


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("kind", ["delivery", "event"])
def test_a_hostile_line_is_set_aside(kind: str, case: str) -> None:
    good = {"router": "A", "boot": 1_769_731_200_000, "seq": 1, "ts": 1_769_731_200_000_000}
    bad = {
        b"ts": {**good, "ts": (1 << 63) - 1},
        b"-ts": {**good, "ts": -(1 << 63)},
        b"boot": {**good, "boot": 1 << 62},
    }
    line = json.dumps(bad[HOSTILE[case]]).encode() if HOSTILE[case] in bad else HOSTILE[case]
    if case.startswith("a number"):
        line = json.dumps(good).encode()[:-1] + b',"weight":' + line + b"}"
        if kind != "delivery":
            return  # events have no numbers with fractions
    first, last = json.dumps(good).encode(), json.dumps({**good, "seq": 3}).encode()
    found = parsed(kind, [first, line, last, b""])
    assert found.records["seq"].to_pylist() == [1, 3]
    assert found.corrupt == len(found.kept) == 1


@pytest.mark.parametrize("opened", [b"[", b'{"a":'])
def test_a_deep_line_is_set_aside_whatever_else_its_file_has(opened: bytes) -> None:
    good = {"router": "A", "boot": 1_769_731_200_000, "seq": 1, "ts": 1_769_731_200_000_000}
    first = json.dumps(good).encode()
    deep = first[:-1] + b',"odd":' + opened * 100_000 + b"1" + (b"]" if opened == b"[" else b"}") * 100_000 + b"}"
    for others in ([], [first], [b"no record"], [b""] * 300_000):
        found = parsed("delivery", [deep, *others, b""])
        assert (len(found.records), found.corrupt) == (others.count(first), 1 + others.count(b"no record"))
    flat = first[:-1] + b',"odd":[' + b"[]," * 5000 + b"[]]}"
    shallow = first[:-1] + b',"odd":' + b"[" * 300 + b"]" * 300 + b"}"
    assert len(parsed("delivery", [flat, shallow, b""]).records) == 2


def test_a_line_that_is_not_utf8_in_an_unknown_field_is_set_aside() -> None:
    good = {"router": "A", "boot": 1_769_731_200_000, "seq": 1, "ts": 1_769_731_200_000_000}
    first = json.dumps(good).encode()
    for octets in (b"\xc0\x80", b"\xff", b"\xed\xa0\x80"):
        found = parsed("delivery", [first, first[:-1] + b',"odd":"' + octets + b'"}', b""])
        assert (len(found.records), found.corrupt) == (1, 1)


def test_a_record_is_one_line_whatever_else_its_file_has() -> None:
    """Not two in a line, and not one in two lines, also where both together are as many lines as records."""
    good = {"router": "A", "boot": 1_769_731_200_000, "seq": 1, "ts": 1_769_731_200_000_000}
    first = json.dumps(good).encode()
    begin, end = first.replace(b", ", b",\n", 1).split(b"\n")
    for bad in ([first + first], [begin, end], [first + first, begin, end], [b'{"odd":', b'{"odd":1},' + first[1:]]):
        for others in ([], [b"no record"]):
            for last in ([b""], []):
                found = parsed("delivery", [first, *bad, first, *others, *last])
                assert (len(found.records), found.corrupt) == (2, len(bad) + len(others)), (bad, others)


def test_a_file_that_unpacks_to_much_is_read_to_a_limit() -> None:
    from waymesh_analytics.store.parsing import unpack

    packed = gzip.compress(b"\n" * (1 << 20))
    for damaged in (packed, packed[:-4] + b"oops"):
        data, broken = unpack(damaged, 1000)
        assert (len(data), broken) == (1000, True)
    assert unpack(packed, 1 << 20) == (b"\n" * (1 << 20), False)
    data, broken = unpack(packed * 3, (1 << 20) + 10)
    assert (len(data), broken) == ((1 << 20) + 10, True)


def test_any_damage_to_lines_is_survived() -> None:
    rng = random.Random(1)
    good = {"v": 1, "router": "A", "boot": 1_769_731_200_000, "seq": 1, "ts": 1_769_731_200_000_000, "weight": 1.5}
    line = json.dumps({**good, "detail": {"a": "b"}}).encode()
    spare = (b'"', b"{", b"}", b"[", b"null", b"-", b"9" * 30, b"1e400", b"\\ud800", b"\xff", b"\x00", b",", b":")
    for _ in range(2000):
        damaged = bytearray(line)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(4)] = rng.choice(spare)
        for kind in ("delivery", "event"):
            found = parsed(kind, [line, bytes(damaged).replace(b"\n", b""), line])
            assert found.lines == 3
            assert len(found.records) >= 2
