"""The exact requests of qdstat and qdmanage, to a running router."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import proton
import pytest
from proton.utils import BlockingConnection, SyncRequestResponse

from tests.interop.qdstat_requests import EVERYTHING, NODE_REQUESTS, PREFIX, QUERIES, Shape, check_rows
from tests.kit.process import RouterProcess

Ask = Callable[[Shape], Any]


@pytest.fixture
def ask(router: RouterProcess) -> Iterator[Ask]:
    """Sends requests as the tools do: no SASL layer, one sender to the address, dynamic reply-to, one credit."""
    connection = BlockingConnection(f"amqp://127.0.0.1:{router.port}", timeout=60, sasl_enabled=False)
    requester = SyncRequestResponse(connection, "$management")

    def send(shape: Shape) -> Any:
        reply = requester.call(proton.Message(properties=shape.properties, body=shape.body))
        properties = cast("dict[str, Any]", reply.properties)  # proton's types know None alone
        assert properties["statusCode"] == shape.status, properties["statusDescription"]
        return reply.body

    yield send
    connection.close()


@pytest.mark.parametrize("shape", QUERIES, ids=str)
def test_query(ask: Ask, shape: Shape) -> None:
    rows = check_rows(shape, ask(shape))
    if shape.option in ("qdstat -g", "qdstat -c", "qdstat -l", "qdstat -a", "qdmanage query --type listener"):
        assert rows


@pytest.mark.parametrize("shape", NODE_REQUESTS, ids=str)
def test_requests_to_the_node(ask: Ask, shape: Shape) -> None:
    ask(shape)


def test_query_with_conditions_and_order(ask: Ask) -> None:
    asked = {"operation": "QUERY", "type": "org.amqp.management", "name": "self", "entityType": PREFIX + "log"}
    chosen = {"where": "module LIKE 'ROUTER%' AND NOT module = 'ROUTER'", "orderBy": "module DESC", "count": 3}
    body = ask(Shape("beyond the tools", {**asked, **chosen}, {"attributeNames": ["module"]}))
    assert [module for (module,) in body["results"]] == ["ROUTER_MA", "ROUTER_LS", "ROUTER_HELLO"]


def test_query_of_everything(ask: Ask) -> None:
    rows = check_rows(EVERYTHING, ask(EVERYTHING))
    assert PREFIX + "router" in {row["type"] for row in rows}


def test_no_value_is_a_symbol(router: RouterProcess) -> None:
    """Clients in typed languages expect a string, as from Dispatch. The connection has a mechanism, so it uses SASL."""
    connection = BlockingConnection(f"amqp://127.0.0.1:{router.port}", timeout=60, allowed_mechs="ANONYMOUS")
    asked = proton.Message(properties=EVERYTHING.properties, body=EVERYTHING.body)
    body = SyncRequestResponse(connection, "$management").call(asked).body
    rows = check_rows(EVERYTHING, cast("dict[str, Any]", body))
    assert [(row["type"], name) for row in rows for name, value in row.items() if type(value) is proton.symbol] == []
    assert "ANONYMOUS" in [row["sasl"] for row in rows if row["type"] == PREFIX + "connection"]
    connection.close()


def test_create_read_update_delete(ask: Ask) -> None:
    kind = {"type": PREFIX + "router.config.address"}
    body = {"type": kind["type"], "name": "a1", "prefix": "queue", "distribution": "closest"}
    created = ask(Shape("create", {**kind, "operation": "CREATE", "name": "a1"}, body, status=201))
    assert (created["name"], created["prefix"]) == ("a1", "queue")
    assert ask(Shape("read", {**kind, "operation": "READ", "identity": created["identity"]})) == created
    ask(Shape("delete", {**kind, "operation": "DELETE", "name": "a1"}, status=204))
    ask(Shape("read", {**kind, "operation": "READ", "name": "a1"}, status=404))
    update = {"type": PREFIX + "log", "operation": "UPDATE", "name": "log/DEFAULT"}
    assert ask(Shape("update", update, {"enable": "warning+"}))["enable"] == "warning+"


@pytest.mark.parametrize(
    ("status", "properties"),
    [
        (404, {"operation": "READ", "type": PREFIX + "listener", "name": "nobody"}),
        (400, {"operation": "CREATE", "type": PREFIX + "nonsense"}),
        (405, {"operation": "CREATE", "type": PREFIX + "connection"}),
        (501, {"operation": "DANCE"}),
    ],
)
def test_refusals(ask: Ask, status: int, properties: dict[str, str]) -> None:
    ask(Shape("", properties, status=status))
