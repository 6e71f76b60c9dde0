"""Configured entities act on the router at once, and only if the router accepts them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.management.stub_router import Manager, StubRouter
from waymesh_router.management.errors import ManagementError
from waymesh_schema.errors import SchemaError
from waymesh_schema.loglevels import LOG_MODULES

CASES = [
    ("listener", "listener", {"host": "127.0.0.1", "port": "0", "name": "in"}, "listener/127.0.0.1:0:in"),
    ("listener", "listener", {"port": "5555"}, "listener/:5555"),
    ("listener", "listener", {"port": "5555", "name": "in"}, "listener/:5555:in"),
    ("connector", "connector", {"host": "h", "port": "5671", "name": "out"}, "connector/h:5671:out"),
    ("sslProfile", "ssl_profile", {"name": "tls", "caCertFile": "/ca.pem"}, "sslProfile/tls"),
    ("router.config.address", "address", {"name": "a", "prefix": "orders"}, "router.config.address/a"),
]


@pytest.fixture
def router() -> StubRouter:
    return StubRouter()


@pytest.fixture
def manager(router: StubRouter) -> Manager:
    return Manager(router)


@pytest.mark.parametrize(("kind", "verb", "body", "identity"), CASES)
def test_create_and_delete_act_at_once(
    router: StubRouter, manager: Manager, kind: str, verb: str, body: dict[str, Any], identity: str
) -> None:
    status, text, created = manager.ask("CREATE", body, type=kind)
    assert status == 201, text
    assert created["identity"] == identity
    [(done, attributes)] = router.done
    assert done == f"add {verb}"
    assert attributes.items() >= body.items()
    assert manager.ask("READ", type=kind, name=created["name"])[0] == 200
    status, text, _ = manager.ask("CREATE", body, type=kind)
    assert status == 409
    assert created["name"] in text
    assert len(router.done) == 1
    assert manager.ask("DELETE", type=kind, identity=identity)[0] == 204
    assert router.done[1][0] == f"remove {verb}"
    assert router.done[1][1]["name"] == created["name"]
    assert manager.rows(kind) == []


@pytest.mark.parametrize(("kind", "verb", "body", "identity"), CASES)
@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (OSError("port 1 is taken"), "port 1 is taken"),
        (ValueError("no such thing"), "no such thing"),
        (KeyError("not known"), "not known"),
    ],
)
def test_what_the_router_refuses_changes_nothing(
    router: StubRouter,
    manager: Manager,
    kind: str,
    verb: str,
    body: dict[str, Any],
    identity: str,
    refusal: Exception,
    text: str,
) -> None:
    router.refuse = refusal
    assert manager.ask("CREATE", body, type=kind)[:2] == (400, text)
    assert manager.rows(kind) == []
    router.refuse = None
    assert manager.ask("CREATE", body, type=kind)[0] == 201
    router.refuse = refusal
    assert manager.ask("DELETE", type=kind, identity=identity)[:2] == (400, text)
    assert len(manager.rows(kind)) == 1


def test_entities_without_name_get_their_identity_as_name(router: StubRouter, manager: Manager) -> None:
    identity = manager.agent.configure("listener", {"host": "127.0.0.1", "port": "5672"})
    assert identity == "listener/127.0.0.1:5672"
    assert router.done[0][1]["name"] == identity
    with pytest.raises(ManagementError, match="there is already one"):
        manager.agent.configure("listener", {"host": "127.0.0.1", "port": "5672"})


def test_a_prefix_can_be_configured_once(manager: Manager) -> None:
    assert manager.ask("CREATE", {"prefix": "orders", "distribution": "multicast"}, type="address")[0] == 201
    assert manager.ask("CREATE", {"prefix": "orders", "name": "other"}, type="address")[0] == 409
    [row] = manager.rows("router.config.address", "prefix", "distribution", "identity")
    assert row == {"prefix": "orders", "distribution": "multicast", "identity": "router.config.address/0"}


def test_a_connector_shows_how_it_stands(router: StubRouter, manager: Manager) -> None:
    manager.agent.configure("connector", {"name": "out", "host": "h", "port": "1", "saslPassword": "secret"})
    names = ("connectionStatus", "connectionMsg", "saslPassword", "failoverUrls")
    for status in (("CONNECTING", ""), ("FAILED", "refused"), ("SUCCESS", "opened")):
        router.status = status
        assert [tuple(row.values()) for row in manager.rows("connector", *names)] == [(*status, "*******", None)]
    assert router.done[0][1]["saslPassword"] == "secret"


def test_a_listener_shows_the_port_it_was_given(manager: Manager) -> None:
    manager.agent.configure("listener", {"port": "0", "name": "any"})
    assert manager.rows("listener", "port") == [{"port": "0"}]


@pytest.mark.parametrize("kind", ["router", "log", "connection", "router.link", "policy", "allocator"])
def test_types_that_nobody_creates(manager: Manager, kind: str) -> None:
    assert manager.ask("CREATE", {"name": "x"}, type=kind)[0] == 405


# telemetry


def test_telemetry_is_published_on_request(router: StubRouter, manager: Manager) -> None:
    status, text, _ = manager.ask("PUBLISH", type="telemetry")
    assert (status, text) == (409, "telemetry is off: it has no path")
    published: list[bool] = []
    router.collector = SimpleNamespace(publish=lambda: published.append(True), records={}, dropped={}, error="")
    status, text, row = manager.ask("PUBLISH", type="telemetry")
    assert (status, row["records"], published) == (200, 0, [True]), text
    assert manager.ask("PUBLISH", type="router")[0] == 405
    assert manager.ask("PUBLISH", identity="log/DEFAULT")[0] == 405


# log


def test_every_log_module_is_there(router: StubRouter, manager: Manager) -> None:
    rows = manager.rows("log", "module", "identity", "name", "enable")
    assert [row["module"] for row in rows] == list(LOG_MODULES)
    assert rows[-1] == {"module": "DEFAULT", "identity": "log/DEFAULT", "name": "log/DEFAULT", "enable": "default"}
    assert router.done == []


def test_update_of_a_log_module_acts_at_once(router: StubRouter, manager: Manager) -> None:
    status, text, row = manager.ask("UPDATE", {"enable": "debug+"}, identity="log/DEFAULT")
    assert (status, row["enable"]) == (200, "debug+"), text
    [(_, attributes)] = router.done
    assert (attributes["module"], attributes["enable"]) == ("DEFAULT", "debug+")
    assert manager.ask("UPDATE", {"outputFile": "/nowhere"}, identity="log/DEFAULT")[0] == 500
    router.refuse = OSError("disk full")
    assert manager.ask("UPDATE", {"enable": "none"}, identity="log/DEFAULT")[:2] == (400, "disk full")
    assert manager.ask("READ", identity="log/DEFAULT")[2]["enable"] == "debug+"
    assert manager.ask("UPDATE", {"module": "SERVER"}, identity="log/DEFAULT")[0] == 400


def test_the_configuration_file_sets_a_log_module_once(router: StubRouter, manager: Manager) -> None:
    assert manager.agent.configure("log", {"module": "SERVER", "enable": "trace+"}) == "log/SERVER"
    assert router.done[0][1]["enable"] == "trace+"
    assert [row["enable"] for row in manager.rows("log", "module", "enable") if row["module"] == "SERVER"] == ["trace+"]
    with pytest.raises(ManagementError, match="log/SERVER is already configured"):
        manager.agent.configure("log", {"module": "SERVER", "enable": "none"})
    with pytest.raises(SchemaError):
        manager.agent.configure("log", {"module": "NONSENSE"})
    assert len(router.done) == 1


# router


def test_the_router_entity(router: StubRouter, manager: Manager) -> None:
    router.connection(1)
    row = manager.ask("READ", type="router")[2]
    expected = {
        "identity": "router/A",
        "name": "router/A",
        "id": "A",
        "mode": "interior",
        "area": "0",
        "version": "1.2.3",
        "hostName": "machine",
        "workerThreads": 1,
        "connectionCount": 1,
        "linkCount": 0,
        "nodeCount": 0,
        "presettledDeliveries": 1,
        "droppedPresettledDeliveries": 2,
        "acceptedDeliveries": 3,
        "rejectedDeliveries": 4,
        "releasedDeliveries": 5,
        "modifiedDeliveries": 6,
        "deliveriesIngress": 7,
        "deliveriesEgress": 8,
        "deliveriesTransit": 9,
        "uptimeSeconds": 30,
        "memoryUsage": 4096,
    }
    assert row.items() >= expected.items()
    counts = [name for name in row if name.endswith(("Count", "Deliveries", "Sec")) or name.startswith("deliveries")]
    assert all(isinstance(row[name], int) for name in counts)
    assert manager.ask("UPDATE", {"id": "B"}, type="router")[:2] == (400, "router id: cannot be updated")
    assert manager.ask("UPDATE", {"draining": "yes", "mode": "interior"}, type="router")[0] == 200
    assert router.done[-1] == ("update router", {"draining": True})
    assert manager.ask("UPDATE", {"drainTimeoutSeconds": -1}, type="router")[0] == 400
    assert manager.ask("UPDATE", {"drainStatus": "drained"}, type="router")[0] == 400
    assert (row["draining"], row["drainStatus"], row["unsettledDeliveries"]) == (False, "none", 7)
    router.drain_status = "drained"
    assert manager.ask("READ", type="router")[2]["draining"] is True
    assert manager.ask("DELETE", type="router", identity="router/A")[0] == 405


def test_the_configuration_file_describes_the_router_once(manager: Manager) -> None:
    assert manager.agent.configure("router", {"mode": "standalone", "name": "mine"}) == "router/A"
    row = manager.ask("READ", name="mine")[2]
    assert (row["identity"], row["id"]) == ("router/A", "A")
    with pytest.raises(ManagementError, match="router/A is already configured"):
        manager.agent.configure("router", {"mode": "standalone"})


# the agent


def test_recent_log_lines_and_what_the_agent_logs(router: StubRouter, manager: Manager) -> None:
    assert [line[2] for line in manager.ask("GET-LOG", limit=1)[2]] == ["two"]
    assert [line[2] for line in manager.ask("GET-LOG")[2]] == ["one", "two"]
    assert [line[2] for line in manager.ask("GET-LOG", limit=0)[2]] == ["one", "two"]
    assert router.limits[0] == 1
    assert {(module, level) for module, level, _ in router.lines} == {("AGENT", "debug")}


def test_everything_can_be_asked_for_at_once(router: StubRouter, manager: Manager) -> None:
    router.link(1, router.connection(1))
    router.address("M0orders", 3)
    status, text, body = manager.ask("QUERY", {}, type="org.amqp.management", name="self")
    assert status == 200, text
    place = body["attributeNames"].index("type")
    found = {row[place].removeprefix("org.apache.qpid.dispatch.") for row in body["results"]}
    always = {"management", "connection", "router", "log", "logStats", "telemetry", "policy", "allocator"}
    assert found == always
