"""Entities of connections, links, addresses and of the mesh, as the router reports them."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.management.stub_router import NOW, STARTED, Manager, StubRouter, peer, pending
from waymesh_amqp.performatives import Close, decode_performative
from waymesh_amqp.states import DETACHED
from waymesh_client.cli import sheets, views
from waymesh_router.core.forwarding.annotations import Annotations
from waymesh_router.core.forwarding.pending_queue import PendingQueue
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, CONTROL, DATA, FLOOD, MULTICAST, ROUTED, UNAVAILABLE
from waymesh_router.core.model import Branch, Node, Queued, Target
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.nodes import NodeView
from waymesh_router.routing.settings import RoutingSettings


@pytest.fixture
def router() -> StubRouter:
    return StubRouter()


@pytest.fixture
def manager(router: StubRouter) -> Manager:
    return Manager(router)


# connection


def test_an_accepted_connection(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(7)
    conn.role = "normal"
    [row] = manager.rows("connection")
    assert row == {
        "name": "connection/127.0.0.1:40001",
        "identity": "7",
        "type": "org.apache.qpid.dispatch.connection",
        "adminStatus": "enabled",
        "operStatus": "up",
        "protocol": "amqp",
        "container": "client",
        "opened": True,
        "host": "127.0.0.1:40001",
        "dir": "in",
        "role": "normal",
        "isAuthenticated": False,
        "isEncrypted": False,
        "enableProtocolTrace": False,
        "sasl": None,
        "user": None,
        "ssl": False,
        "sslProto": None,
        "sslCipher": None,
        "sslSsf": 0,
        "tenant": None,
        "properties": {"product": "test"},
        "active": None,
        "uptimeSeconds": 30,
        "lastDlvSeconds": None,
    }


def test_a_connector_s_connection_with_tls_and_user(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(2, opened=False, client=True)
    conn.role = "inter-router"
    conn.peer = peer("b:5671", tls=True, tls_proto="TLSv1.3", tls_cipher="TLS_AES_256_GCM_SHA384", tls_ssf=256)
    conn.user, conn.mechanism = "CN=b", "EXTERNAL"
    conn.last_delivery_at = NOW - 12
    [row] = manager.rows("connection")
    expected: dict[str, Any] = {
        "container": None,
        "opened": False,
        "properties": {},
        "host": "b:5671",
        "dir": "out",
        "role": "inter-router",
        "isAuthenticated": True,
        "isEncrypted": True,
        "sasl": "EXTERNAL",
        "user": "CN=b",
        "ssl": True,
        "sslProto": "TLSv1.3",
        "sslCipher": "TLS_AES_256_GCM_SHA384",
        "sslSsf": 256,
        "lastDlvSeconds": 12,
    }
    assert row.items() >= expected.items()


def test_a_connection_is_closed_by_an_update(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(7)
    router.connection(8)
    conn.sent(len(pending(conn)))
    assert manager.ask("UPDATE", {"adminStatus": "enabled"}, type="connection", identity="7")[0] == 200
    assert pending(conn) == b""
    assert manager.ask("UPDATE", {"adminStatus": "deleted"}, type="connection", identity="7")[0] == 200
    frame = pending(conn)
    close, _ = decode_performative(frame, 8, len(frame))
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:forced"
    assert [row["operStatus"] for row in manager.rows("connection", "operStatus")] == ["closing", "up"]


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (400, "connection", {"enableProtocolTrace": "perhaps"}),
        (403, "router.link", {"adminStatus": "disabled"}),
        (400, "connection", {"adminStatus": "gone"}),
        (400, "connection", {"role": "inter-router"}),
        (405, "router.address", {"distribution": "closest"}),
    ],
)
def test_other_updates_are_refused(
    router: StubRouter, manager: Manager, status: int, kind: str, body: dict[str, Any]
) -> None:
    router.link(1, router.connection(1), kind=DATA)
    router.address("1", CLOSEST)
    assert manager.ask("UPDATE", body, type=kind, identity="1")[0] == status
    assert manager.rows("connection", "operStatus") == [{"operStatus": "up"}]


def test_the_frames_of_a_connection_are_logged_while_asked(router: StubRouter, manager: Manager) -> None:
    router.connection(1)
    router.connection(2)
    for on in (True, False):
        update = manager.ask("UPDATE", {"enableProtocolTrace": on}, type="connection", identity="2")
        assert update[0] == 200
        assert [row["enableProtocolTrace"] for row in manager.rows("connection")] == [False, on]


# router.link


def test_links_of_clients(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(3)
    orders = router.address("M0orders", BALANCED)
    router.link(1, conn, name="to", address=orders, credit=250, priority=4, accepted=10, rejected=1, released=2)
    router.core.links[1].modified, router.core.links[1].presettled, router.core.links[1].unsettled = 3, 20, 5
    router.core.links[1].dropped_presettled = 6
    router.link(2, conn, name="from", is_sender=True, delivery_count=40, unsettled=4, state=DETACHED)
    first, second = manager.rows("router.link")
    assert first == {
        "name": "to",
        "identity": "1",
        "type": "org.apache.qpid.dispatch.router.link",
        "adminStatus": "enabled",
        "operStatus": "up",
        "linkName": "to",
        "linkType": "endpoint",
        "linkDir": "in",
        "owningAddr": "M0orders",
        "connectionId": "3",
        "capacity": 250,
        "peer": None,
        "undeliveredCount": 0,
        "unsettledCount": 5,
        "deliveryCount": 41,
        "presettledCount": 20,
        "droppedPresettledCount": 6,
        "acceptedCount": 10,
        "rejectedCount": 1,
        "releasedCount": 2,
        "modifiedCount": 3,
        "deliveriesDelayed1Sec": 0,
        "deliveriesDelayed10Sec": 0,
        "deliveriesStuck": 0,
        "creditAvailable": 250,
        "zeroCreditSeconds": 0,
        "settleRate": 0,
        "priority": 4,
    }
    expected = {"linkDir": "out", "deliveryCount": 40, "unsettledCount": 4, "operStatus": "down", "owningAddr": None}
    assert second.items() >= expected.items()


def test_the_other_link_of_a_routed_link(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(3)
    first, second = router.link(1, conn, kind=ROUTED), router.link(2, conn, kind=ROUTED, is_sender=True)
    first.partner, second.partner = second, first
    assert [row["peer"] for row in manager.rows("router.link", "peer")] == ["2", "1"]


def test_links_between_routers(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(3)
    router.link(1, conn, kind=CONTROL)
    router.link(2, conn, kind=DATA, is_sender=True)
    assert [row["linkType"] for row in manager.rows("router.link", "linkType")] == ["router-control", "inter-router"]


def test_undelivered_counts_what_waits(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(3)
    orders, news = router.address("M0orders", BALANCED), router.address("M0news", MULTICAST)
    producer = router.link(1, conn, address=orders)
    router.link(2, conn, address=orders)
    slow = router.link(3, conn, address=news, is_sender=True)
    slow.queue = deque([Branch(Queued(None, Annotations("A")), slow)] * 4)
    for expected in (3, 2, 1):
        orders.pending = PendingQueue()
        for link in [*[producer] * expected, None]:
            orders.pending.append(Queued(link, Annotations("A")))
        assert [row["undeliveredCount"] for row in manager.rows("router.link", "undeliveredCount")] == [expected, 0, 4]


def test_links_without_credit(router: StubRouter, manager: Manager) -> None:
    conn = router.connection(3)
    router.link(1, conn, is_sender=True, zero_credit_since=NOW - 11.5)
    router.link(2, conn, is_sender=True, zero_credit_since=NOW - 2)
    router.link(3, conn, is_sender=True, zero_credit_since=NOW - 50, credit=1)
    router.link(4, conn, zero_credit_since=NOW - 50)
    assert [row["zeroCreditSeconds"] for row in manager.rows("router.link", "zeroCreditSeconds")] == [11, 2, 0, 0]
    assert manager.ask("READ", type="router")[2]["linksBlocked"] == 1


# router.address


def test_addresses(router: StubRouter, manager: Manager) -> None:
    orders = router.address("M0orders", BALANCED)
    orders.consumers.append(router.link(1, router.connection(1), is_sender=True))
    for name, outstanding in (("C", 2), ("B", 5)):
        target = Target(Node(name), orders)
        target.outstanding = outstanding
        orders.targets[name] = target
    orders.ingress, orders.egress, orders.transit, orders.to_container, orders.from_container = 1, 2, 3, 4, 5
    orders.redirected = 6
    orders.expired = 7
    own = router.address("L$management", CLOSEST)
    own.to_process, own.from_process = 8, 9
    own.subscriber = lambda data, link: None
    own.priority = 7
    first, second = manager.rows("router.address")
    assert first == {
        "name": "M0orders",
        "identity": "M0orders",
        "type": "org.apache.qpid.dispatch.router.address",
        "key": "M0orders",
        "distribution": "balanced",
        "inProcess": 0,
        "subscriberCount": 1,
        "remoteCount": 2,
        "containerCount": 0,
        "remoteHostRouters": ["B", "C"],
        "deliveriesIngress": 1,
        "deliveriesEgress": 2,
        "deliveriesTransit": 3,
        "deliveriesToContainer": 0,
        "deliveriesFromContainer": 0,
        "deliveriesIngressRouteContainer": 5,
        "deliveriesEgressRouteContainer": 4,
        "deliveriesRedirectedToFallback": 6,
        "expiredDeliveries": 7,
        "transitOutstanding": [5, 2],
        "trackedDeliveries": 7,
        "priority": -1,
        "groupSlots": None,
    }
    expected = {"distribution": "closest", "inProcess": 1, "transitOutstanding": None, "trackedDeliveries": 0}
    assert second.items() >= expected.items()
    assert second["priority"] == 7
    assert (second["deliveriesToContainer"], second["deliveriesFromContainer"]) == (8, 9)


@pytest.mark.parametrize(
    ("treatment", "name"),
    [(FLOOD, "flood"), (MULTICAST, "multicast"), (CLOSEST, "closest"), (UNAVAILABLE, "unavailable")],
)
def test_distributions(router: StubRouter, manager: Manager, treatment: int, name: str) -> None:
    router.address("M0x", treatment)
    assert manager.rows("router.address", "distribution") == [{"distribution": name}]


# router.node


def test_a_standalone_router_has_no_rows_of_routers(manager: Manager) -> None:
    """`qdstat -n` shows that it is standalone then."""
    assert manager.rows("router.node") == []
    assert manager.ask("GET-MGMT-NODES")[2] == []


def test_an_interior_router_alone(router: StubRouter, manager: Manager) -> None:
    router.routing = RoutingEngine(RoutingSettings(router_id="A", instance=1_700_000_000), STARTED)
    [row] = manager.rows("router.node")
    expected = {"id": "A", "nextHop": "(self)", "instance": 1_700_000_000, "protocolVersion": 1, "cost": 0}
    assert row.items() >= expected.items()
    assert row["lastTopoChange"] == 1_700_000_000


def _node(name: str, next_hop: str | None, **values: Any) -> NodeView:
    facts: dict[str, Any] = {
        "cost": 1,
        "link_id": None,
        "valid_origins": frozenset(),
        "instance": 1_700_000_100,
        "link_state": (),
        "last_topo_change": STARTED + 20.5,
        "protocol_version": 1,
        "mobile_seq": 0,
        "index": 1,
    }
    return NodeView(id=name, next_hop=next_hop, **{**facts, **values})


def test_routers_of_a_mesh(router: StubRouter, manager: Manager) -> None:
    own = _node("A", None, cost=0, index=0, link_state=("B",), instance=1_700_000_000)
    far = _node("C", "B", cost=3, index=2, valid_origins=frozenset("DA"), link_state=("B", "D"))
    router.routing = SimpleNamespace(local=own, nodes={"C": far, "B": _node("B", None, link_id=5)})
    conn = router.connection(5)
    conn.control_out = router.link(9, conn, kind=CONTROL, is_sender=True)
    near = router.core.nodes["B"] = Node("B")
    near.connection = conn
    router.core.nodes["C"] = Node("C")
    rows = manager.rows("router.node")
    assert [row["id"] for row in rows] == ["A", "B", "C"]
    assert [row["nextHop"] for row in rows] == ["(self)", None, "B"]
    assert [row["routerLink"] for row in rows] == [None, "9", None]
    assert rows[2] == {
        "name": "router.node/C",
        "identity": "router.node/C",
        "type": "org.apache.qpid.dispatch.router.node",
        "id": "C",
        "protocolVersion": 1,
        "instance": 1_700_000_100,
        "linkState": ["B", "D"],
        "nextHop": "B",
        "validOrigins": ["A", "D"],
        "address": "amqp:/_topo/0/C",
        "routerLink": None,
        "cost": 3,
        "lastTopoChange": 1_700_000_020,
        "index": 2,
    }
    assert manager.ask("GET-MGMT-NODES")[2][2] == "amqp:/_topo/0/C/$management"
    assert manager.ask("READ", type="router")[2]["nodeCount"] == 2


# logStats, management


def test_log_stats(manager: Manager) -> None:
    row = manager.ask("READ", type="logStats", identity="logStats/SERVER")[2]
    assert (row["errorCount"], row["traceCount"]) == (6, 0)


def test_the_management_node_is_an_entity_too(manager: Manager) -> None:
    assert [row["identity"] for row in manager.rows("management")] == ["management/self"]
    assert [row["identity"] for row in manager.rows("org.amqp.management")] == ["management/self"]


# what the tools show

VIEWS = [
    views.CONNECTIONS,
    views.LINKS,
    views.NODES,
    views.ADDRESSES,
    views.AUTOLINKS,
    views.LINK_ROUTES,
    views.VHOSTS,
    views.VHOST_GROUPS,
    views.VHOST_STATS,
    views.OBJECTS,
]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.entity_type)
@pytest.mark.parametrize("busy", [False, True])
def test_every_table_of_the_tools(router: StubRouter, manager: Manager, view: views.View, busy: bool) -> None:
    if busy:
        conn = router.connection(1)
        router.link(1, conn, address=router.address("M0orders", BALANCED))
        router.link(2, conn, is_sender=True)
    rows = manager.rows(view.entity_type, *view.attributes(verbose=True))
    _, headings, cells = view.table(rows, verbose=True)
    assert all(len(line) == len(headings) for line in cells)


def test_the_general_table_of_the_tools(manager: Manager) -> None:
    _, _, cells = sheets.SHEETS["general"].table(manager.ask("READ", type="router")[2])
    assert len(cells) == len(sheets.GENERAL)
