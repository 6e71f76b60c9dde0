"""Records as lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_router.telemetry import lines
from waymesh_router.telemetry.lines import LineWriter
from waymesh_schema.telemetry import COUNTS, DOUBLE, FLAG, KINDS, PAIRS, TEXT, TEXTS

NUMBER = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    TEXT: st.text(),
    FLAG: st.booleans(),
    DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    TEXTS: st.lists(st.text()),
    PAIRS: st.dictionaries(st.text(), st.text()),
    COUNTS: st.dictionaries(st.text(), NUMBER),
}


@given(st.data())
def test_a_line_is_the_record_as_json(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(KINDS.values())))
    values = tuple(data.draw(st.none() | VALUES.get(field.type, NUMBER)) for field in kind.own)
    mesh, router = data.draw(st.text()), data.draw(st.text())
    seq, ts_us, mono_us = data.draw(NUMBER), data.draw(NUMBER), data.draw(NUMBER)
    writer = LineWriter(kind, mesh, router, 7)
    writer.add(seq, ts_us, mono_us, values)
    text = writer.take().decode("ascii")
    assert text.endswith("}\n")
    assert "\n" not in text[:-1]
    envelope = {"v": 1, "mesh": mesh, "router": router, "boot": 7, "seq": seq, "ts": ts_us, "mono_us": mono_us}
    record = json.loads(text)
    assert record == {**envelope, **{field.name: value for field, value in zip(kind.own, values)}}
    assert list(record) == [field.name for field in kind.fields]


def test_lines_that_have_a_layout_in_common_differ_in_what_varies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LAYOUTS", 1)
    kind = KINDS["delivery"]

    def row(number: int | None, recurring: int) -> tuple[Any, ...]:
        others = {field.name: "100%s" if field.type == TEXT else recurring for field in kind.own}
        return tuple({**others, **dict.fromkeys(kind.varying, number)}.values())

    rows = [row(1, 0), row(None, 0), row(3, 7), row(4, 0)]
    writer = LineWriter(kind, "m%d", "r", 7)
    for number, values in enumerate(rows):
        writer.add(number, 2, 3, values)
    found = [[json.loads(line)[field.name] for field in kind.own] for line in writer.take().splitlines()]
    flags = [[bool(value) if field.type == FLAG else value for field, value in zip(kind.own, row)] for row in rows]
    assert found == flags


def test_lines_are_taken_once() -> None:
    writer = LineWriter(KINDS["event"], "m", "r", 7)
    writer.add(1, 2, 3, ("log.error", "error", None, {}))
    assert writer.take().count(b"\n") == 1
    assert writer.take() == b""
