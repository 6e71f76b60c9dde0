"""Replies, and operations of the management node itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.management.fake_router import NODE, NOW, PREFIX, Bench, Broken
from waymesh_amqp.message import Message
from waymesh_amqp.types import ULong
from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent


def test_no_reply_to_gives_no_reply_and_does_nothing(bench: Bench) -> None:
    request = Message(application_properties={"operation": "CREATE", "type": "listener"}, body={"port": "1"})
    assert bench.agent.handle(request, NOW) is None
    assert bench.events == []


@pytest.mark.parametrize(
    ("correlation", "message_id", "expected"),
    [("c", "m", "c"), (None, "m", "m"), (ULong(7), None, 7), (None, None, None), (b"\x01", "m", b"\x01")],
)
def test_correlation_id_is_that_of_the_request_or_its_message_id(
    bench: Bench, correlation: Any, message_id: Any, expected: Any
) -> None:
    request = Message(
        reply_to="r", correlation_id=correlation, message_id=message_id, application_properties={"operation": "READ"}
    )
    reply = bench.agent.handle(request, NOW)
    assert reply is not None
    assert reply.correlation_id == expected
    assert reply.to == "r"


# The management node.


@pytest.mark.parametrize("operation", ["GET-MGMT-NODES", "DISCOVER-MGMT-NODES", "get-mgmt-nodes"])
def test_management_nodes(bench: Bench, operation: str) -> None:
    expected = ["amqp:/_topo/0/A/$management", "amqp:/_topo/0/B/$management"]
    assert bench.ask(operation, **NODE)[2] == expected


def test_management_nodes_of_a_router_without_node_table(bench: Bench) -> None:
    del bench.adapters["router.node"]
    assert bench.ask("GET-MGMT-NODES")[2] == []


def test_get_types(bench: Bench) -> None:
    everything = bench.ask("GET-TYPES", **NODE)[2]
    bases = {"entity", "configurationEntity", "operationalEntity"}
    assert set(everything) == {PREFIX + name for name in {*bench.adapters, *bases}}
    assert everything[PREFIX + "listener"] == [PREFIX + "configurationEntity", PREFIX + "entity"]
    assert bench.ask("GET-TYPES", **NODE, entityType="listener")[2] == {
        PREFIX + "listener": [PREFIX + "configurationEntity", PREFIX + "entity"]
    }
    assert bench.ask("GET-TYPES", **NODE, entityType="nonsense")[0] == 400


def test_get_attributes_and_operations(bench: Bench) -> None:
    attributes = bench.ask("GET-ATTRIBUTES", **NODE, entityType="log")[2]
    assert attributes == {PREFIX + "log": list(entity_type("log").attributes)}
    operations = bench.ask("GET-OPERATIONS", **NODE, entityType="log")[2]
    assert operations == {PREFIX + "log": list(entity_type("log").operations)}
    assert set(bench.ask("GET-OPERATIONS", **NODE)[2]) == set(bench.ask("GET-TYPES", **NODE)[2])
    children = bench.ask("GET-OPERATIONS", **NODE, entityType="operationalEntity")[2]
    assert set(children) == {PREFIX + name for name in ("operationalEntity", "router.link", "router.node")}
    assert bench.ask("GET-ANNOTATIONS", **NODE)[2] == {}


def test_get_schema(bench: Bench) -> None:
    schema = bench.ask("GET-SCHEMA", **NODE)[2]
    assert schema["prefix"] == "org.apache.qpid.dispatch"
    port = schema["entityTypes"]["listener"]["attributes"]["port"]
    assert {"type", "create", "description"} <= set(port)
    assert bench.ask("GET-JSON-SCHEMA", **NODE, indent=1)[2].startswith("{\n ")


@pytest.mark.parametrize("operation", ["GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS", "GET-ANNOTATIONS"])
def test_types_without_entities_are_not_described(bench: Bench, operation: str) -> None:
    assert bench.ask(operation, **NODE, entityType="vhost")[0] == 404
    assert bench.ask(operation, **NODE, entityType="nonsense")[0] == 400
    assert PREFIX + "vhost" not in bench.ask(operation, **NODE)[2]


def test_the_schema_is_that_of_the_types_with_entities(bench: Bench) -> None:
    types = bench.ask("GET-SCHEMA", **NODE)[2]["entityTypes"]
    assert {"router", "entity"} < set(types)
    assert "vhost" not in types
    assert '"vhost"' not in bench.ask("GET-JSON-SCHEMA", **NODE)[2]
    assert bench.ask("GET-JSON-SCHEMA", **NODE, indent=1 << 40)[0] == 400


def test_get_log(bench: Bench) -> None:
    assert bench.ask("GET-LOG", **NODE, limit=5)[2] == [["AGENT", "info", "hello", "", 0, 1]]


def test_check_policy_is_told_who_asks(bench: Bench) -> None:
    assert bench.ask("CHECK-POLICY", {"user": "ann"}, **NODE)[2] == {"asked": {"user": "ann"}, "tenant": None}
    asked = Message(reply_to="r", application_properties={"operation": "CHECK-POLICY", **NODE}, body={"user": "ann"})
    for agent, tenant in ((bench.agent.for_tenant("t"), "t"), (bench.agent.for_reader("1"), None)):
        reply = agent.handle(asked, NOW)
        assert reply is not None
        assert reply.body == {"asked": {"user": "ann"}, "tenant": tenant}


@pytest.mark.parametrize(
    ("status", "properties"),
    [
        (501, {"operation": "DANCE"}),
        (501, {"operation": "GET-TYPES", "identity": "router/A"}),
        (400, {}),
        (400, {"operation": 1}),
    ],
)
def test_unknown_and_missing_operations(bench: Bench, status: int, properties: dict[str, Any]) -> None:
    assert bench.send(Message(reply_to="temp.1", application_properties=properties))[0] == status


def test_no_properties_at_all(bench: Bench) -> None:
    assert bench.send(Message(reply_to="temp.1"))[0] == 400


def test_a_fault_in_an_adapter_is_a_500_and_logged(bench: Bench) -> None:
    bench.adapters["connection"] = Broken(entity_type("connection"))
    status, text, _ = bench.ask("QUERY", {}, entityType="connection")
    assert (status, text) == (500, "KeyError: 'oops'")
    assert ("error", "request failed: 500 KeyError: 'oops'") in bench.log
    assert bench.query("router", ["id"])["results"] == [["A"]]
