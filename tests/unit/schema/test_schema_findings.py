"""The message with which the analytics job tells its findings to the operator."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_schema.findings import FINDING_KINDS, MESSAGE_BYTES, FoundKind, findings_message, parse_findings

pytestmark = pytest.mark.engine_independent


def everything(text: str) -> list[FoundKind]:
    return [FoundKind(kind, number, text) for number, kind in enumerate(FINDING_KINDS.values(), 1)]


def test_a_short_message_is_read_as_it_was_written() -> None:
    found = [FoundKind(FINDING_KINDS["ConsumersStuck"], 3, "c2 from orders – at B: 3 deliveries")]
    assert parse_findings(findings_message(found)) == found
    assert parse_findings(findings_message([])) == []


@given(st.text(max_size=3000))
def test_a_long_one_fits_and_keeps_kinds_and_counts(text: str) -> None:
    found = everything(text)
    message = findings_message(found)
    assert len(message.encode()) <= MESSAGE_BYTES
    read = parse_findings(message)
    assert read is not None
    assert [(each.kind, each.count) for each in read] == [(each.kind, each.count) for each in found]


OF_A_LATER_VERSION = '{"waymeshFindings": 2, "findings": []}'


@pytest.mark.parametrize("message", ["", "killed", "[]", "3", "{}", OF_A_LATER_VERSION, "[" * 4000])
def test_other_messages_are_none(message: str) -> None:
    assert parse_findings(message) is None


def test_what_is_not_known_or_not_valid_is_left_out() -> None:
    rows = [
        {"kind": "OfALaterVersion", "count": 1, "text": ""},
        {"kind": "ConsumersStuck", "count": "3", "text": ""},
        {"kind": "ConsumersStuck", "count": True, "text": ""},
        {"kind": "ConsumersStuck", "count": -1, "text": ""},
        {"kind": ["ConsumersStuck"], "count": 1, "text": ""},
        {"kind": "ConsumersStuck", "count": 1, "text": None},
        {"kind": "ConsumersStuck", "count": 10**400, "text": ""},
        "ConsumersStuck",
        {"kind": "RoutersRestarted", "count": 2, "text": "C 2 times"},
    ]
    found = parse_findings(json.dumps({"waymeshFindings": 1, "findings": rows}))
    assert found == [FoundKind(FINDING_KINDS["RoutersRestarted"], 2, "C 2 times")]
    assert parse_findings('{"waymeshFindings": 1, "findings": 7}') == []


def test_a_sentence_is_one_line_that_can_be_written() -> None:
    rows = [{"kind": "ConsumersStuck", "count": 1, "text": "a\x1b[2J\nb\ud800"}]
    found = parse_findings(json.dumps({"waymeshFindings": 1, "findings": rows}))
    assert found is not None
    assert found[0].text == r"a\x1b[2J\nb\ud800"
