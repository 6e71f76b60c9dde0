"""Tenants at a listener with `management: read` see what is their own, and nothing that others have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.guarded import EVERYTHING, Guarded
from tests.interop.test_proton_management_read import NODE, Reader, drain
from tests.kit.ports import free_port
from tests.kit.process import section
from waymesh_client.management import ManagementClient
from waymesh_router.management.request import READ_OPERATIONS
from waymesh_schema.entities import ENTITY_TYPES

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

USERS = {"a": "alice", "b": "bob"}
UNAUTHORIZED = "amqp:unauthorized-access"
VISIBLE = {"connection", "router.link", "router.address", "vhost", "vhostStats", "vhostUserGroupStats"}
ADMIN = {"hostname": "admin", "allowUnknownUser": True, "groups": {"$default": {**EVERYTHING, "management": "write"}}}


class Rooms:
    """Tenants a.example (alice) and b.example (bob), each with a client whose names all begin with `planted-`."""

    def __init__(self, folder: Path) -> None:
        self.admin_port = free_port()
        vhosts = [self.vhost(tenant) for tenant in USERS]
        extra = section("policy", enableVhostPolicy=True, defaultVhost="$default")
        extra += section("listener", name="admin", host="127.0.0.1", port=self.admin_port, policyVhost="admin")
        for one in (*vhosts, ADMIN):
            extra += section("vhost", **{**one, "groups": json.dumps(one["groups"])})
        extra += "".join(
            section("router.config.linkRoute", name=f"planted-{t}-{way}", prefix=f"{t}.example/planted-{t}-routed",
                    containerId=f"planted-{t}-broker", direction=way)
            for t in USERS for way in ("in", "out")
        )  # fmt: skip
        self.guarded = Guarded(folder, extra, multiTenant=True, management="read")
        self.clients = {tenant: self._plant(tenant) for tenant in USERS}

    @staticmethod
    def vhost(tenant: str, **group: Any) -> dict[str, Any]:
        settings = {**EVERYTHING, "users": f"{USERS[tenant]}, planted-{tenant}-friend", **group}
        return {"hostname": f"{tenant}.example", "groups": {f"planted-{tenant}-group": settings}}

    def _plant(self, tenant: str) -> Any:
        properties = {proton.symbol("site"): f"planted-{tenant}-property"}
        client = self.client(tenant, container_id=f"planted-{tenant}-container", properties=properties)
        client.receiver(f"planted-{tenant}-address", 5, name=f"planted-{tenant}-in")
        client.sender(f"planted-{tenant}-address", name=f"planted-{tenant}-out").send("x")
        client.receiver(None, 5, dynamic=True, name=f"planted-{tenant}-temp")
        client.sender(None, name=f"planted-{tenant}-any")
        return client

    def client(self, tenant: str, **options: Any) -> Any:
        return self.guarded.client(USERS[tenant], virtual_host=f"{tenant}.example", **options)

    def reader(self, tenant: str) -> Reader:
        sasl = {"user": USERS[tenant], "password": "secret", "allow_insecure_mechs": True, "allowed_mechs": "PLAIN"}
        reader = Reader(self.guarded.url, virtual_host=f"{tenant}.example", **sasl)
        self.guarded._clients.append(reader.client)
        return reader

    def admin(self) -> ManagementClient:
        return ManagementClient(f"amqp://127.0.0.1:{self.admin_port}")

    def stop(self) -> None:
        self.guarded.stop()


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    rooms = Rooms(tmp_path)
    yield rooms
    rooms.stop()


def rows(reader: Reader, kind: str | None, **more: Any) -> list[dict[str, Any]]:
    entity = {} if kind is None else {"entityType": kind}
    status, body = reader.ask("$management", {"operation": "QUERY", **NODE, **entity, **more}, {"attributeNames": []})
    assert status == 200, (kind, reader.text)
    return [dict(zip(body["attributeNames"], row)) for row in body["results"]]


def secrets_of(rooms: Rooms, tenant: str) -> set[str]:
    """What nobody else may read: names, and what only the router knows of the tenant."""
    with rooms.admin() as admin:
        hosts = {row["host"] for row in admin.query("connection") if row["user"] == USERS[tenant]}
        owned = {row["owningAddr"] for row in admin.query("router.link") if str(row["owningAddr"]).startswith("Ltemp.")}
    return {USERS[tenant], f"planted-{tenant}", f"{tenant}.example", *hosts, *(key[1:] for key in owned)}


def test_no_entity_of_any_type_shows_another_tenant(rooms: Rooms) -> None:
    readers = {tenant: rooms.reader(tenant) for tenant in USERS}
    seen: dict[str, set[str]] = {tenant: set() for tenant in USERS}
    for tenant, other in ("ab", "ba"):
        secrets = secrets_of(rooms, other)
        for kind in (None, *ENTITY_TYPES):
            found = rows(readers[tenant], kind)
            text = repr(found)
            assert not [word for word in secrets if word in text], kind
            seen[tenant] |= {str(row["type"]).removeprefix("org.apache.qpid.dispatch.") for row in found}
        text = repr([rows(readers[tenant], kind) for kind in ENTITY_TYPES])
        for what in ("container", "property", "address", "in", "out", "any", "group", "friend"):
            assert f"planted-{tenant}-{what}" in text, "a tenant sees its own"
    assert seen == {"a": VISIBLE, "b": VISIBLE}


def test_what_others_have_is_absent(rooms: Rooms) -> None:
    reader = rooms.reader("a")
    own = {(row["type"], row["identity"]) for row in rows(reader, None)}
    with rooms.admin() as admin:
        every = {(row["type"], row["identity"]) for row in admin.query(None, ["type", "identity"])}
    others = {(kind, identity) for kind, identity in every - own if identity != "self"}  # the management node
    assert {str(kind).removeprefix("org.apache.qpid.dispatch.") for kind, _ in others} > VISIBLE
    numbers = {identity for _, identity in own}  # a link that the router counts as 3 is not connection 3
    for kind, identity in others:
        for asked in ({"type": kind, "identity": identity}, *([] if identity in numbers else [{"identity": identity}])):
            assert reader.ask("$management", {"operation": "READ", **asked})[0] in (400, 404), asked
            there = reader.text
            absent = {**asked, "identity": identity[:-1] + "~"}
            reader.ask("$management", {"operation": "READ", **absent})
            assert reader.text.replace(identity[:-1] + "~", identity) == there, "as if it did not exist"
    for kind, identity in own:
        assert reader.ask("$management", {"operation": "READ", "type": kind, "identity": identity})[0] == 200
    for kind in ("router", "policy", "telemetry"):
        assert reader.ask("$management", {"operation": "READ", "type": kind})[0] == 404


def test_rows_are_as_the_tenant_writes_them(rooms: Rooms) -> None:
    reader = rooms.reader("a")
    addresses = {row["name"]: row for row in rows(reader, "router.address")}
    assert set(addresses) == {"M0planted-a-address"}
    assert addresses["M0planted-a-address"]["subscriberCount"] == 1
    assert addresses["M0planted-a-address"]["remoteHostRouters"] is None
    links = {row["linkName"]: row for row in rows(reader, "router.link")}
    assert links["planted-a-in"]["owningAddr"] == "M0planted-a-address"
    assert links["planted-a-temp"]["owningAddr"] is None
    connections = {row["identity"] for row in rows(reader, "connection")}
    assert {row["connectionId"] for row in links.values()} == connections
    (stats,) = rows(reader, "vhostStats")
    assert (stats["connectionsCurrent"], stats["perUserState"]) == (2, {"alice": 2})
    (vhost,) = rows(reader, "vhost")
    assert (vhost["name"], vhost["hostname"]) == ("vhost/a.example", "a.example")
    found = rows(reader, "router.link", where="linkName LIKE 'planted-%'", orderBy="linkName DESC", count=1)
    assert [row["linkName"] for row in found] == ["planted-a-temp"]


def test_a_vhost_that_other_names_lead_to_is_not_shown(rooms: Rooms) -> None:
    reader = rooms.reader("a")
    with rooms.admin() as admin:
        for change, back in (({"aliases": "c.example"}, {"aliases": ""}),):
            admin.update(change, "vhost", name="vhost/a.example")
            assert [rows(reader, kind) for kind in VISIBLE if kind.startswith("vhost")] == [[], [], []]
            admin.update(back, "vhost", name="vhost/a.example")
            assert len(rows(reader, "vhost")) == 1
        admin.update({"defaultVhost": "a.example"}, "policy")
        assert rows(reader, "vhost") == []


def test_a_tenant_checks_the_policy_of_its_own_vhost(rooms: Rooms) -> None:
    reader, operation = rooms.reader("a"), {"operation": "CHECK-POLICY", **NODE}
    asked = {"user": "alice", "host": "10.1.2.3", "address": "x", "direction": "out"}
    status, body = reader.ask("$management", operation, asked)
    assert (status, body["allowed"]) == (200, True)
    assert "group planted-a-group: lists user 'alice'" in body["reasons"]
    status, body = reader.ask("$management", operation, {**asked, "user": "bob", "hostname": "a.example"})
    assert (status, body["allowed"]) == (200, False)
    for other in ({"hostname": "b.example"}, {"policyVhost": "admin"}):
        assert reader.ask("$management", operation, {**asked, **other})[0] == 404
        assert "planted-b" not in reader.text
    with rooms.admin() as admin:
        admin.update({"aliases": "c.example"}, "vhost", name="vhost/a.example")
    assert reader.ask("$management", operation, asked)[0] == 404


def test_tenants_change_nothing_and_read_no_log(rooms: Rooms) -> None:
    reader = rooms.reader("a")
    asked = {"host": "10.1.2.3", "address": "x", "direction": "in"}
    allowed = {
        name for name in READ_OPERATIONS
        if reader.ask("$management", {"operation": name, **NODE}, asked if name == "CHECK-POLICY" else None)[0] == 200
    }  # fmt: skip
    assert allowed == READ_OPERATIONS - {"GET-LOG"}
    status, nodes = reader.ask("$management", {"operation": "GET-MGMT-NODES", **NODE})
    assert (status, nodes) == (200, [])
    (own,) = (row for row in rows(reader, "connection") if row["container"] == "planted-a-container")
    for properties, body in (
        drain("A"),
        ({"operation": "UPDATE", "type": "connection", "identity": own["identity"]}, {"adminStatus": "deleted"}),
        ({"operation": "CREATE", "type": "address", "name": "mine"}, {"prefix": "p"}),
        ({"operation": "DELETE", "type": "vhost", "name": "vhost/a.example"}, {}),
        ({"operation": "GET-LOG", **NODE}, {}),
    ):
        assert reader.ask("$management", properties, body)[0] == 403
        assert reader.text.endswith("is not allowed: tenants may only read their own entities")
    sent = reader.anonymous({"operation": "QUERY", "entityType": "router", **NODE}, {}, "$management")
    assert sent.outcome() == "accepted"
    assert reader.reply()[1]["results"] == []
    with rooms.admin() as admin:
        assert admin.read("policy")["totalDenials"] == 6
        assert not admin.read("router")["draining"]


PLACES = ("_local/$management", "_topo/0/A/$management", "_topo/0/B/$management", "_edge/E/$management")


@pytest.mark.parametrize("place", PLACES)
def test_the_management_of_routers_is_outside_the_space(rooms: Rooms, place: str) -> None:
    client = rooms.clients["a"]
    assert str(client.sender(place, wait=False).wait_detached()).startswith("amqp:not-allowed")
    assert UNAUTHORIZED in str(client.receiver(place, wait=False).wait_detached())
    assert client.sender(None).send(proton.Message(address=place, body={})).outcome() == "rejected"
    assert UNAUTHORIZED in str(client.receiver("$management", wait=False).wait_detached())


def test_a_link_route_for_everything_does_not_take_the_requests(rooms: Rooms) -> None:
    with rooms.admin() as admin:
        for direction in ("in", "out"):
            admin.create("router.config.linkRoute", {"pattern": "#", "direction": direction, "containerId": "broker"})
    reader = rooms.clients["b"].sender("$management")
    assert reader.wait_credit()
    assert "planted-b-group" in repr(rows(rooms.reader("b"), "vhost"))


def test_replies_stay_in_the_space(rooms: Rooms) -> None:
    """The router must not carry a message to where the tenant cannot send."""
    reader, other = rooms.reader("a"), rooms.client("b")
    with rooms.admin() as admin:
        update = {"groups": rooms.vhost("b")["groups"]}
        admin.update(update, "vhost", name="vhost/b.example")
    theirs, own = other.receiver("inbox", 5), reader.client.receiver("inbox", 5)
    sender = reader.client.sender("$management")
    for reply_to in ("b.example/inbox", "amqp://b.example/b.example/inbox", "_local/x", "$management", "inbox"):
        message = reader.message({"operation": "QUERY", "entityType": "vhost", **NODE})
        message.reply_to = reply_to
        assert sender.send(message).outcome() == "accepted"
    assert own.next().properties["statusCode"] == 200
    theirs.close()
    assert theirs.arrived.empty()


def test_a_group_takes_the_right_and_never_gives_it(rooms: Rooms, tmp_path: Path) -> None:
    reader = rooms.reader("a")
    sender = reader.client.sender("$management")

    def status() -> int:
        sender.send(reader.message({"operation": "QUERY", "entityType": "vhost", **NODE}))
        return reader.reply()[0]

    with rooms.admin() as admin:
        for right, expected in (("none", 403), ("read", 200), ("write", 200)):
            admin.update({"groups": rooms.vhost("a", management=right)["groups"]}, "vhost", name="vhost/a.example")
            assert status() == expected, right
        assert reader.ask("$management", *drain("A"))[0] == 403
    (tmp_path / "second").mkdir()
    closed = Guarded(tmp_path / "second", multiTenant=True)
    try:
        group = {**EVERYTHING, "management": "write"}
        closed.set({"hostname": "a.example", "allowUnknownUser": True, "groups": {"$default": group}})
        client = closed.client("alice", virtual_host="a.example")
        assert UNAUTHORIZED in str(client.sender("$management", wait=False).wait_detached())
    finally:
        closed.stop()
