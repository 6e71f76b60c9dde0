"""The right to management of a user group: on this router, on others through it, and when it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.interop.test_proton_management_read import QUERY, UNAUTHORIZED, Reader, drain, draining, of_router
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh
from tests.kit.process import section
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

ALL = {"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": True, "allowAnonymousSender": True}
LISTENERS = {"open": {}, "readers": {"management": "read"}, "writers": {"management": "write"}}
EXTRA = section("policy", enableVhostPolicy=True) + "".join(
    section("listener", name=name, host="127.0.0.1", port=0, **values) for name, values in LISTENERS.items()
)
OF_B = "_topo/0/B/$management"


def vhost(hostname: str, **more: Any) -> dict[str, Any]:
    return {"hostname": hostname, "allowUnknownUser": True, "groups": {"$default": {**ALL, **more}}}


class Groups:
    """Routers A and B, whose ordinary listeners everybody may manage; on A a vhost for each right of its group."""

    def __init__(self, mesh: Mesh, stack: ExitStack) -> None:
        self.mesh = mesh
        self._stack = stack
        with self.manager() as client:
            for right in ("none", "read", "write"):
                client.create("vhost", vhost(f"{right}.example", management=right))

    def manager(self, router: str = "A") -> ManagementClient:
        return ManagementClient(self.mesh[router].url)

    def set(self, hostname: str, **group: Any) -> None:
        with self.manager() as client:
            client.update({"groups": vhost(hostname, **group)["groups"]}, "vhost", name=f"vhost/{hostname}")

    def client(self, right: str, listener: str = "writers") -> Reader:
        """A client of the vhost whose group has this right."""
        listening = re.search(rf"Listening on 127\.0\.0\.1:(\d+) \(normal\) as {listener}\b", self.mesh["A"].log)
        assert listening is not None
        reader = Reader(f"amqp://127.0.0.1:{listening[1]}", virtual_host=f"{right}.example")
        self._stack.callback(reader.client.close)
        return reader


@pytest.fixture
def groups(start_mesh: StartMesh) -> Iterator[Groups]:
    everybody = section("vhost", hostname="$default", allowUnknownUser=True, groups=json.dumps({"$default": ALL}))
    mesh = start_mesh(2, extra=EXTRA + everybody)
    with ExitStack() as stack:
        yield Groups(mesh, stack)


def test_a_group_that_reads_changes_no_router(groups: Groups) -> None:
    for listener in LISTENERS:
        reader = groups.client("read", listener)
        for name, place in (("A", "$management"), ("A", "_local/$management"), ("B", OF_B)):
            status, body = reader.ask(place, QUERY)
            assert (status, of_router(body)) == (200, name)
            assert reader.ask(place, *drain(name))[0] == 403
        assert reader.ask("_edge/E/$management", *drain("A"))[0] == 403
        assert reader.anonymous(*drain("A"), "$management").outcome() == "accepted"
        assert reader.reply()[0] == 403
        sent = reader.anonymous(*drain("B"), OF_B)
        assert (sent.outcome(), str(sent.condition).startswith(UNAUTHORIZED)) == ("rejected", True)
    assert draining(groups.mesh) == [False, False]
    assert " management=read of its user group" in groups.mesh["A"].log
    with groups.manager() as client:
        assert client.read("policy")["totalDenials"] == 5 * len(LISTENERS)


def test_the_reason_is_the_groups_or_the_listeners(groups: Groups) -> None:
    reader = groups.client("read")
    reader.ask("$management", *drain("A"))
    assert reader.text == "UPDATE is not allowed: policy gives this client management: read"
    writer = groups.client("write", "readers")
    assert writer.ask("$management", *drain("A"))[0] == 403
    assert writer.text == "UPDATE is not allowed: listener readers has no management: write"


def test_a_group_without_management_gets_no_link_to_it(groups: Groups) -> None:
    for listener in LISTENERS:
        client = groups.client("none", listener)
        for place in ("$management", OF_B, "_edge/E/$management"):
            assert str(client.client.sender(place, wait=False).wait_detached()).startswith(UNAUTHORIZED)
        assert client.anonymous(QUERY, {}, "$management").outcome() == "rejected"


@pytest.mark.parametrize("listener", ["open", "writers"])
def test_a_group_that_writes_changes_this_router_and_others(groups: Groups, listener: str) -> None:
    writer = groups.client("write", listener)
    assert writer.ask(OF_B, *drain("B"))[0] == 200
    assert draining(groups.mesh) == [False, True]
    passed = f"request passed on: user=anonymous host=127.0.0.1:\\d+ listener={listener} operation='UPDATE'"
    assert re.search(passed, groups.mesh["A"].log)
    assert writer.ask(OF_B, {**drain("B")[0], "name": "router/A"}, {"draining": True})[0] == 404
    assert writer.ask("$management", *drain("A"))[0] == 200
    assert draining(groups.mesh) == [True, True]


def test_a_change_acts_on_the_next_request_of_open_links(groups: Groups) -> None:
    client = groups.client("write")
    named = [client.client.sender(place) for place in ("$management", OF_B)]
    anonymous = client.client.sender(None)

    def statuses() -> list[Any]:
        """Of an UPDATE on each link; that of the anonymous one, for its own router, is an outcome if rejected."""
        found: list[Any] = []
        for sender, name in zip(named, "AB"):
            properties, _ = drain(name)
            sender.send(client.message(properties, {"drainTimeoutSeconds": len(found) + 20}))
            found.append(client.reply()[0])
        to_b = anonymous.send(client.message(drain("B")[0], {"drainTimeoutSeconds": 30}, to=OF_B))
        assert to_b.outcome() == "rejected", "the router does not read such requests, so it could not log them"
        sent = anonymous.send(client.message(drain("A")[0], {"drainTimeoutSeconds": 30}, to="$management"))
        outcome = sent.outcome()
        return [*found, client.reply()[0] if outcome == "accepted" else outcome]

    allowed, refused = [200, 200, 200], [403, 403, "rejected"]
    assert statuses() == allowed
    for right, expected in (("read", [403, 403, 403]), ("none", refused)):
        groups.set("write.example", management=right)
        assert statuses() == expected, right
    groups.set("write.example", management="write")
    assert statuses() == allowed
    groups.set("write.example")
    assert statuses() == allowed, "as the listener has it"
    with groups.manager() as manager:
        manager.delete("vhost", name="vhost/write.example")
    assert statuses() == refused, "the group is no longer configured"
    with groups.manager() as manager:
        manager.update({"enableVhostPolicy": False}, "policy")
    assert statuses() == allowed, "policy does not concern the client"


def test_nobody_else_gets_requests_after_a_change(groups: Groups) -> None:
    receiver = groups.client("write").client.receiver("_topo/all/all/$management", 5)
    groups.set("write.example", management="read")
    assert UNAUTHORIZED in str(receiver.wait_detached())
