"""QUERY: types, names, pages, errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.management.fake_router import NODE, PREFIX, Bench, FakeLink
from waymesh_amqp.types import Symbol, UInt, ULong
from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent


# QUERY.


def test_query_of_all_attributes_in_the_order_of_the_schema(bench: Bench) -> None:
    body = bench.query(PREFIX + "router")
    assert body["attributeNames"] == list(entity_type("router").attributes)
    row = dict(zip(body["attributeNames"], body["results"][0]))
    assert row["identity"] == row["name"] == "router/A"
    assert row["type"] == PREFIX + "router"
    assert (row["uptimeSeconds"], row["version"]) == (12, "1.2.3")


@pytest.mark.parametrize("kind", ["router.link", PREFIX + "router.link", Symbol(PREFIX + "router.link")])
def test_query_of_named_attributes(bench: Bench, kind: str) -> None:
    body = bench.query(kind, ["linkName", "identity", "linkType"])
    assert body["attributeNames"] == ["linkName", "identity", "linkType"]
    assert body["results"] == [["link-0", "0", None], ["link-1", "1", None], ["link-2", "2", None]]


def test_query_computes_only_what_it_asks_for(bench: Bench) -> None:
    bench.query("router.link", ["identity", "capacity"])
    assert bench.computed == []


@pytest.mark.parametrize(
    ("offset", "count", "expected"),
    [
        (0, 2, "01"),
        (2, 2, "2"),
        (5, 2, ""),
        (None, None, "012"),
        (1, None, "12"),
        (UInt(1), ULong(1), "1"),
        (0, 0, "012"),
    ],
)
def test_query_pages(bench: Bench, offset: Any, count: Any, expected: str) -> None:
    paging = {name: value for name, value in (("offset", offset), ("count", count)) if value is not None}
    body = bench.query("router.link", ["identity"], **paging)
    assert "".join(row[0] for row in body["results"]) == expected


def test_query_takes_entity_type_and_paging_from_the_body_too(bench: Bench) -> None:
    body = {"attributeNames": ["identity"], "entityType": "router.link", "count": 1}
    assert bench.ask("QUERY", body)[2]["results"] == [["0"]]


def test_query_without_type_gives_entities_of_all_types(bench: Bench) -> None:
    body = bench.query(None, ["type", "identity"])
    assert [PREFIX + "router.node", "router.node/B"] in body["results"]
    assert len(body["results"]) == 1 + 1 + 3 + 2
    page = bench.query(None, ["type", "identity"], offset=1, count=2)
    assert page["results"] == body["results"][1:3]


def test_query_of_several_types_leaves_out_entities_without_any_of_the_attributes(bench: Bench) -> None:
    body = bench.query(None, ["linkName", "linkType"])
    assert body["results"] == [["link-0", None], ["link-1", None], ["link-2", None]]
    assert bench.query(None, ["linkName"], offset=1, count=1)["results"] == [["link-1"]]
    assert bench.query("router.link", ["linkType"])["results"] == [[None]] * 3


def test_query_of_a_base_type_gives_all_that_extend_it(bench: Bench) -> None:
    kinds = {row[0] for row in bench.query(PREFIX + "configurationEntity", ["type"])["results"]}
    assert PREFIX + "log" in kinds
    assert PREFIX + "router.link" not in kinds


def test_query_of_a_type_without_entities(bench: Bench) -> None:
    body = bench.query("router.config.autoLink", ["address"])
    assert body == {"attributeNames": ["address"], "results": []}


def test_query_by_former_attribute_names_keeps_the_names_asked_for(bench: Bench) -> None:
    body = bench.query("router.config.autoLink", ["addr", "dir"])
    assert body["attributeNames"] == ["addr", "dir"]


def test_secrets_are_not_shown(bench: Bench) -> None:
    bench.agent.configure("sslProfile", {"name": "p", "password": "hunter2", "caCertFile": "/ca"})
    assert bench.query("sslProfile", ["password"])["results"] == [["*******"]]
    assert bench.ask("READ", type="sslProfile", name="p")[2]["password"] == "*******"
    assert "hunter2" not in str(bench.query(None)) + str(bench.log)


def test_query_of_ten_thousand_rows(bench: Bench) -> None:
    bench.links = [FakeLink(n) for n in range(10_000)]
    body = bench.query("router.link", ["identity", "capacity", "adminStatus"])
    assert len(body["results"]) == 10_000


@pytest.mark.parametrize(
    ("status", "body", "properties", "words"),
    [
        (400, {}, {"entityType": "nonsense"}, "nonsense"),
        (404, {"attributeNames": ["identity", "flavour"]}, {"entityType": "router.link"}, "flavour"),
        (400, {"attributeNames": "identity"}, {}, "attributeNames"),
        (400, {"attributeNames": ["identity"] * 200}, {"entityType": "router.link"}, "200 names, more than there are"),
        (400, {"attributeNames": [1]}, {}, "attributeNames"),
        (400, {}, {"offset": -1}, "offset"),
        (400, {}, {"count": True}, "count"),
        (400, {}, {"count": "many"}, "count"),
        (400, {}, {"entityType": 5}, "entityType"),
        (400, [1, 2], {}, "body"),
        (400, {1: 2}, {}, "keys"),
    ],
)
def test_bad_queries(bench: Bench, status: int, body: Any, properties: dict[str, Any], words: str) -> None:
    got, text, reply = bench.ask("QUERY", body, **NODE, **properties)
    assert (got, reply) == (status, {})
    assert words in text
