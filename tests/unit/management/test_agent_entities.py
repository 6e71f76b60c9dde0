"""READ, CREATE, UPDATE and DELETE: effects and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.management.fake_router import NODE, PREFIX, Bench, FakeLink
from waymesh_router.management.adapters import TableEntities
from waymesh_router.management.errors import ManagementError
from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent


# READ.


@pytest.mark.parametrize(
    "properties",
    [
        {"identity": "router.node/B"},
        {"name": "router.node/B"},
        {"type": "router.node", "name": "router.node/B"},
        {"type": PREFIX + "router.node", "identity": "router.node/B"},
        {"type": PREFIX + "operationalEntity", "identity": "router.node/B"},
        {"identity": "router.node/B", "name": "router.node/B"},
        {"identity": b"router.node/B"},
    ],
)
def test_read(bench: Bench, properties: dict[str, Any]) -> None:
    status, text, body = bench.ask("READ", **properties)
    assert (status, text) == (200, "OK")
    assert body == {
        "name": "router.node/B",
        "identity": "router.node/B",
        "id": "B",
        "type": PREFIX + "router.node",
    }


def test_operation_names_may_be_lower_case(bench: Bench) -> None:
    assert bench.ask("read", identity="router.node/A")[0] == 200


def test_read_of_a_singleton_needs_no_name(bench: Bench) -> None:
    assert bench.ask("READ", type="router")[2]["id"] == "A"


def test_read_of_the_management_node(bench: Bench) -> None:
    for ids in ({}, {"name": "self"}, {"identity": "self"}, NODE):
        assert bench.ask("READ", **ids)[2] == {"name": "self", "identity": "self", "type": "org.amqp.management"}


@pytest.mark.parametrize(
    ("status", "properties"),
    [
        (404, {"identity": "router.node/X"}),
        (404, {"name": "nobody"}),
        (404, {"type": "router.node", "identity": "router/A"}),
        (400, {"type": "router.node"}),
        (404, {"type": "policy"}),
        (404, {"type": "policy", "name": "policy"}),
        (404, {"type": "vhost"}),
        (400, {"type": "nonsense", "name": "x"}),
        (400, {"identity": "router/A", "name": "router/B"}),
        (400, {"identity": 5}),
        (400, {"identity": b"\xff"}),
    ],
)
def test_bad_reads(bench: Bench, status: int, properties: dict[str, Any]) -> None:
    assert bench.ask("READ", **properties)[0] == status


def test_a_name_of_two_entities_needs_a_type(bench: Bench) -> None:
    bench.agent.configure("sslProfile", {"name": "same"})
    bench.agent.configure("listener", {"name": "same", "port": "7000"})
    status, text, _ = bench.ask("READ", name="same")
    assert (status, "give a type" in text) == (400, True)
    assert bench.ask("READ", type="listener", name="same")[2]["port"] == "7000"


# CREATE.


def test_create(bench: Bench) -> None:
    status, text, body = bench.ask("CREATE", {"port": "5555", "host": "127.0.0.1"}, type=PREFIX + "listener", name="l1")
    assert (status, text) == (201, "Created")
    assert (body["name"], body["identity"]) == ("l1", "listener/127.0.0.1:5555:l1")
    assert (body["type"], body["role"]) == (PREFIX + "listener", "normal")
    assert bench.events == [("create", "listener/127.0.0.1:5555:l1")]
    assert bench.ask("READ", identity="listener/127.0.0.1:5555:l1")[2] == body


def test_deprecated_names_are_a_warning_in_the_log(bench: Bench) -> None:
    status, _, body = bench.ask("CREATE", {"addr": "127.0.0.1", "port": "5555"}, type=PREFIX + "listener", name="l1")
    assert (status, body["host"]) == (201, "127.0.0.1")
    warned = [text for level, text in bench.log if level == "warning"]
    assert warned == ["listener addr: is deprecated; use host"]
    assert bench.ask("UPDATE", {"timestamp": False}, type="log", name="log/DEFAULT")[0] == 200
    warned = [text for level, text in bench.log if level == "warning"]
    assert warned[1:] == ["log timestamp: is deprecated; use includeTimestamp"]


def test_a_type_that_dispatch_removed_is_refused_with_what_to_use(bench: Bench) -> None:
    status, text, _ = bench.ask("CREATE", {"prefix": "a"}, type="linkRoutePattern")
    assert status == 400
    assert "use linkRoute" in text


def test_create_without_name_is_named_by_its_identity(bench: Bench) -> None:
    body = bench.ask("CREATE", {"type": "listener", "port": 5555, "host": "::1"})[2]
    assert body["name"] == body["identity"] == "listener/::1:5555"


@pytest.mark.parametrize(
    ("status", "attributes", "words"),
    [
        (400, {}, "type"),
        (400, {"type": "nonsense"}, "nonsense"),
        (400, {"type": 3}, "type"),
        (400, {"type": "listener", "flavour": "sweet"}, "flavour"),
        (400, {"type": "listener", "role": "actor"}, "role"),
        (400, {"type": "listener", "port": "5555", "identity": "mine"}, "identity"),
        (405, {"type": "router.link"}, "router.link"),
        (405, {"type": "connection"}, "connection"),
        (405, {"type": "router", "id": "Z"}, "router"),
        (405, {"type": "org.amqp.management"}, "management"),
    ],
)
def test_bad_creates_change_nothing(bench: Bench, status: int, attributes: dict[str, Any], words: str) -> None:
    before = bench.query(None)
    got, text, body = bench.ask("CREATE", attributes)
    assert (got, body) == (status, {})
    assert words in text
    assert bench.query(None) == before


def test_name_in_body_and_property_must_agree(bench: Bench) -> None:
    assert bench.ask("CREATE", {"name": "a", "port": "1"}, type="listener", name="b")[0] == 400
    assert bench.ask("CREATE", {"name": "a", "port": "1"}, type="listener", name="a")[0] == 201


def test_a_second_of_the_same_name_is_refused(bench: Bench) -> None:
    assert bench.ask("CREATE", {"port": "1", "name": "l"}, type="listener")[0] == 201
    status, text, _ = bench.ask("CREATE", {"port": "2", "name": "l"}, type="listener")
    assert (status, "name=l" in text) == (409, True)
    assert len(bench.events) == 1


def test_a_refusal_by_the_router_keeps_nothing(bench: Bench) -> None:
    bench.refuse = ManagementError(400, "port 1 is taken")
    assert bench.ask("CREATE", {"port": "1"}, type="listener")[:2] == (400, "port 1 is taken")
    assert bench.query("listener")["results"] == []


def test_a_second_singleton_is_refused(bench: Bench) -> None:
    with pytest.raises(ManagementError, match="only one"):
        bench.adapters["router"].create({"id": "B"})


# UPDATE.


def test_update(bench: Bench) -> None:
    status, text, body = bench.ask("UPDATE", {"enable": "debug+"}, type="log", name="log/DEFAULT")
    assert (status, text) == (200, "OK")
    assert (body["enable"], body["module"]) == ("debug+", "DEFAULT")
    assert bench.events == [("update", ("log/DEFAULT", {"enable": "debug+"}))]


def test_update_may_send_back_all_it_read(bench: Bench) -> None:
    body = bench.ask("READ", identity="log/DEFAULT")[2]
    body["enable"] = "trace+"
    assert bench.ask("UPDATE", body, identity="log/DEFAULT")[2]["enable"] == "trace+"
    assert bench.events == [("update", ("log/DEFAULT", {"enable": "trace+"}))]


def test_update_that_changes_nothing_does_nothing(bench: Bench) -> None:
    body = bench.ask("READ", identity="log/DEFAULT")[2]
    assert bench.ask("UPDATE", body, identity="log/DEFAULT")[:1] == (200,)
    assert bench.events == []


def test_update_of_a_live_object(bench: Bench) -> None:
    body = bench.ask("UPDATE", {"adminStatus": "disabled"}, type="router.link", identity="1")[2]
    assert body["adminStatus"] == bench.links[1].admin == "disabled"


def test_update_that_ends_the_entity(bench: Bench) -> None:
    def end(item: FakeLink, changed: dict[str, Any]) -> None:
        bench.links.remove(item)

    bench.adapters["connection"] = TableEntities(
        entity_type("connection"), lambda: bench.links, {"identity": lambda item, now: str(item.number)}, on_update=end
    )
    status, _, body = bench.ask("UPDATE", {"adminStatus": "deleted"}, type="connection", identity="1")
    assert (status, body["identity"], body["adminStatus"]) == (200, "1", "deleted")
    assert bench.ask("READ", type="connection", identity="1")[0] == 404


@pytest.mark.parametrize(
    ("status", "body", "properties"),
    [
        (404, {"enable": "info+"}, {"type": "log", "name": "log/NONE"}),
        (400, {"module": "SERVER"}, {"identity": "log/DEFAULT"}),
        (400, {"flavour": "sweet"}, {"identity": "log/DEFAULT"}),
        (400, {"enable": "loud"}, {"identity": "log/DEFAULT"}),
        (400, {"identity": "log/OTHER"}, {"identity": "log/DEFAULT"}),
        (400, {"enable": "info+"}, {"type": "log"}),
        (405, {"id": "C"}, {"identity": "router.node/A"}),
        (400, {}, {}),
        (405, {}, {"name": "self"}),
    ],
)
def test_bad_updates(bench: Bench, status: int, body: Any, properties: dict[str, Any]) -> None:
    assert bench.ask("UPDATE", body, **properties)[0] == status
    assert bench.events == []


# DELETE.


def test_delete(bench: Bench) -> None:
    bench.agent.configure("listener", {"name": "l", "host": "h", "port": "1"})
    assert bench.ask("DELETE", type="listener", name="l") == (204, "No Content", {})
    assert bench.events[-1] == ("delete", "listener/h:1:l")
    assert bench.ask("DELETE", type="listener", name="l")[0] == 404


@pytest.mark.parametrize(
    ("status", "properties"),
    [
        (405, {"type": "router.link", "identity": "1"}),
        (405, {"identity": "router/A"}),
        (404, {"identity": "listener/none"}),
        (400, {"type": "listener"}),
        (405, NODE),
    ],
)
def test_bad_deletes(bench: Bench, status: int, properties: dict[str, Any]) -> None:
    assert bench.ask("DELETE", **properties)[0] == status
