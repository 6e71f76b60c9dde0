"""QUERY with the properties `where` and `orderBy`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.management.fake_router import NODE, NOW, Bench
from waymesh_amqp.message import Message
from waymesh_router.management.adapters import TableEntities
from waymesh_router.management.conditions import MAX_NESTED, like
from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent

LINKS: list[dict[str, Any]] = [
    {"identity": "1", "linkName": "it's", "linkDir": "in", "deliveryCount": 5, "peer": None},
    {"identity": "2", "linkName": "orders", "linkDir": "out", "deliveryCount": 20, "peer": "1"},
    {"identity": "3", "linkName": "ordersB", "linkDir": "in", "deliveryCount": None, "peer": "9"},
    {"identity": "4", "linkName": None, "linkDir": "out", "deliveryCount": 20, "peer": None},
    {"identity": "10", "linkName": "a_b%c", "linkDir": "out", "deliveryCount": -1, "peer": None},
]
CONNECTIONS = [{"identity": "7", "isEncrypted": True}, {"identity": "8", "isEncrypted": False}]


def table(kind: str, rows: list[dict[str, Any]]) -> TableEntities[dict[str, Any]]:
    columns = {name: lambda row, _now, name=name: row[name] for name in rows[0]}
    return TableEntities(entity_type(kind), lambda: rows, columns)


@pytest.fixture
def many(bench: Bench) -> Bench:
    bench.adapters["router.link"] = bench.agent.adapters["router.link"] = table("router.link", LINKS)  # type: ignore[index]
    bench.agent.adapters["connection"] = table("connection", CONNECTIONS)  # type: ignore[index]
    return bench


def chosen(bench: Bench, kind: str | None = "router.link", **properties: Any) -> str:
    """The identities of the rows, by blanks."""
    return " ".join(row[0] for row in bench.query(kind, ["identity"], **properties)["results"])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("deliveryCount = 20", "2 4"),
        ("deliveryCount != 20", "1 10"),
        ("deliveryCount <> 20", "1 10"),
        ("deliveryCount < 5", "10"),
        ("deliveryCount<=5", "1 10"),
        ("deliveryCount > 4.5", "1 2 4"),
        ("deliveryCount >= 20 AND linkDir = 'out'", "2 4"),
        ("deliveryCount = -1", "10"),
        ("linkName = 'it''s'", "1"),
        ("linkName LIKE 'orders%'", "2 3"),
        ("linkName like 'o_ders'", "2"),
        ("linkName NOT LIKE 'orders%'", "1 10"),
        ("linkName LIKE '%b%c'", "10"),
        ("linkName >= 'orders'", "2 3"),
        ("identity IN ('1', '10', '77')", "1 10"),
        ("identity NOT IN ('1', '10')", "2 3 4"),
        ("deliveryCount IN (5, 20)", "1 2 4"),
        ("peer IS NULL", "1 4 10"),
        ("peer is not null", "2 3"),
        ("NOT deliveryCount = 20", "1 10"),
        ("NOT (deliveryCount = 20 OR linkDir = 'in')", "10"),
        ("deliveryCount = 20 OR linkDir = 'in'", "1 2 3 4"),
        ("linkDir = 'in' AND deliveryCount > 0 OR identity = '4'", "1 4"),
        ("linkDir = 'in' AND (deliveryCount > 0 OR identity = '3')", "1 3"),
        ("NOT NOT linkDir='in'", "1 3"),
        ("identity = 'no such'", ""),
        ("", "1 2 3 4 10"),
    ],
)
def test_where(many: Bench, where: str, expected: str) -> None:
    assert chosen(many, where=where) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("deliveryCount", "10 1 2 4 3"),
        ("deliveryCount DESC", "2 4 1 10 3"),
        ("deliveryCount desc, identity desc", "4 2 1 10 3"),
        ("linkDir ASC, deliveryCount ASC", "1 3 10 2 4"),
        ("linkName", "10 1 2 3 4"),
        ("identity", "1 10 2 3 4"),
    ],
)
def test_order(many: Bench, order: str, expected: str) -> None:
    assert chosen(many, orderBy=order) == expected
    words = expected.split()
    assert chosen(many, orderBy=order, offset=1, count=2) == " ".join(words[1:3])
    assert chosen(many, orderBy=order, offset=3) == " ".join(words[3:])


def test_conditions_apply_before_offset_and_count(many: Bench) -> None:
    assert chosen(many, where="linkDir = 'out'", offset=1, count=1) == "4"
    assert chosen(many, where="linkDir = 'out'", orderBy="deliveryCount", count=2) == "10 2"


def test_conditions_over_several_types(many: Bench) -> None:
    assert chosen(many, None, where="identity IN ('2', '7') AND type LIKE '%link'") == "2"
    assert chosen(many, "connection", where="isEncrypted = TRUE") == "7"
    assert chosen(many, None, where="isEncrypted != true") == "8"


def test_former_names(bench: Bench) -> None:
    bench.agent.configure("sslProfile", {"name": "a", "certFile": "/1"})
    assert chosen(bench, "sslProfile", where="certDb IS NULL", orderBy="certDb") == "sslProfile/a"


def test_secrets_cannot_be_guessed(bench: Bench) -> None:
    bench.agent.configure("sslProfile", {"name": "a", "password": "hunter2"})
    assert chosen(bench, "sslProfile", where="password LIKE 'hunter%'") == ""


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"where": "flavour = 1"}, "flavour"),
        ({"where": "deliveryCount = 'x'"}, "deliveryCount' is a number"),
        ({"where": "linkName = 5"}, "single quotes"),
        ({"where": "linkName = TRUE"}, "linkName' is a text"),
        ({"where": "properties = 5", "entityType": "connection"}, "list or a map"),
        ({"where": "deliveryCount LIKE '5%'"}, "LIKE compares texts"),
        ({"where": "deliveryCount"}, "a comparison is expected at the end"),
        ({"where": "deliveryCount = "}, "a value is expected at the end"),
        ({"where": "deliveryCount = 1 2"}, "AND or OR is expected instead of '2'"),
        ({"where": "deliveryCount = 1 AND"}, "an attribute is expected at the end"),
        ({"where": "(deliveryCount = 1"}, ") is expected at the end"),
        ({"where": "deliveryCount NOT = 1"}, "LIKE or IN is expected"),
        ({"where": "identity IN ()"}, "a value is expected"),
        ({"where": "identity = 'open"}, "cannot read \"'open\""),
        ({"where": "identity = 'x'; DROP"}, "cannot read"),
        ({"where": "(" * MAX_NESTED + "identity = '1'" + ")" * MAX_NESTED}, "levels"),
        ({"where": "identity = '" + "x" * 1000 + "'"}, "characters"),
        ({"where": 5}, "must be a string"),
        ({"orderBy": "flavour"}, "flavour"),
        ({"orderBy": "identity UP"}, "ASC or DESC"),
        ({"orderBy": "identity, "}, "no attribute ''"),
        ({"orderBy": "properties", "entityType": "connection"}, "list or a map"),
        ({"orderBy": 5}, "must be a string"),
    ],
)
def test_bad_conditions(many: Bench, properties: dict[str, Any], words: str) -> None:
    status, text, body = many.ask("QUERY", {}, **{**NODE, "entityType": "router.link", **properties})
    assert (status, body) == (400, {}), text
    assert words in text


def test_an_attribute_of_different_types(many: Bench) -> None:
    status, text, _ = many.ask("QUERY", {}, **NODE, where="port = '1' OR cost = 'x'")
    assert (status, "cost" in text) == (400, True)


TOKENS = ["deliveryCount", "linkName", "NOT", "AND", "OR", "(", ")", "=", "<", "LIKE", "IN", "'a%'", "5", "IS", "NULL"]


@given(st.lists(st.sampled_from(TOKENS)))
def test_any_text_is_taken_or_refused(words: list[str]) -> None:
    request = Message(
        reply_to="r",
        application_properties={"operation": "QUERY", "entityType": "router.link", "where": " ".join(words), **NODE},
    )
    reply = Bench().agent.handle(request, NOW)
    assert reply is not None
    assert reply.application_properties is not None
    assert reply.application_properties["statusCode"] in (200, 400)


@given(st.text("ab%_", max_size=6), st.text("ab\n", max_size=8))
def test_like_is_that_of_sql(pattern: str, text: str) -> None:
    plain = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    assert bool(like(pattern).fullmatch(text)) == bool(re.fullmatch(plain, text, re.DOTALL))


def test_like_takes_time_in_proportion() -> None:
    """With backtracking it would never end."""
    assert like("%a" * 400 + "b").fullmatch("a" * 5000) is None
