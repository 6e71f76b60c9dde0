"""A router for management tests: real connections and links, no sockets; and an agent to query."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from waymesh_amqp.connection import Connection
from waymesh_amqp.handler import Handler
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Begin, Open, encode_frame
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import ATTACHED, OPENED
from waymesh_amqp.types import Symbol
from waymesh_router.clients.policy_check import PolicyCheck
from waymesh_router.clients.share import ClientShare
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.core.containers.autolinks import AutoLinks
from waymesh_router.core.containers.registry import Containers
from waymesh_router.core.counters import Counters
from waymesh_router.core.forwarding.buffer_budget import BufferBudget
from waymesh_router.core.link_health import LinkHealth
from waymesh_router.core.link_routing.held import HeldAttaches
from waymesh_router.core.link_routing.routes import LinkRoutes
from waymesh_router.core.model import Address, Node, RouterConnection, RouterLink
from waymesh_router.core.portions import Portions
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.management.assembly import build_agent
from waymesh_router.management.look_ups import KnownNames, LookUpNeeded
from waymesh_router.peers.certificate import Validity
from waymesh_router.peers.peer import Peer
from waymesh_router.policy.enforcement import Enforcement
from waymesh_router.policy.settings import Policy
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

if TYPE_CHECKING:
    from waymesh_router.core.core import Core

NOW = 1030.7
STARTED = 1000.0
NODE = {"type": "org.amqp.management", "name": "self"}
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
OUTCOMES = ("presettled", "dropped_presettled", "accepted", "rejected", "released", "modified")
COUNTERS = (*OUTCOMES, "ingress", "egress", "transit", "from_containers", "to_containers")
"""Counters of the core; the first is 1, the second 2, and so on."""


def peer(host: str = "127.0.0.1:40001", **tls: Any) -> Peer:
    return Peer(host, **tls)


class StubCore:
    def __init__(self, log: Any) -> None:
        self.router_id = "A"
        self.connections: dict[int, RouterConnection] = {}
        self.links: dict[int, RouterLink] = {}
        self.addresses: dict[str, Address] = {}
        self.nodes: dict[str, Node] = {}
        self.started_at = STARTED
        self.log = log
        self.context: Any = SimpleNamespace(telemetry=TelemetryHooks(), portions=Portions())
        self.now = NOW
        self.counters = Counters()
        self.uplink = None
        self.edges: Any = SimpleNamespace(without_group=set())
        self.budget = BufferBudget(self.context.portions)
        self.denied: dict[str, int] = {}
        unused: Any = None
        containers = Containers(HeldAttaches(self.context.portions, unused))
        self.autolinks = AutoLinks(self.context, unused, containers, unused, unused, unused)  # type: ignore[arg-type]
        self.linkroutes = LinkRoutes(self.context, unused, containers)  # type: ignore[arg-type]
        for number, name in enumerate(COUNTERS, start=1):
            setattr(self.counters, name, number)


class StubRouter:
    """Keeps what it was told to do; `refuse` is raised instead."""

    def __init__(self, mode: str = "interior") -> None:
        self.version = "1.2.3"
        self.host_name = "machine"
        self.reserved = SimpleNamespace(by_key={})
        self.attrs = {**validate_create(entity_type("router"), {"id": "A", "mode": mode}), "id": "A"}
        self.lines: list[tuple[str, str, str]] = []
        self.core = StubCore(lambda *line: self.lines.append(line))
        self.routing: Any = None
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.refuse: Exception | None = None
        self.status = ("CONNECTING", "")
        self.drain_status = "none"
        self.collector: Any = None
        self.policy = Enforcement(Policy(PatternTree))
        self.check_policy = PolicyCheck(self.policy, "A")
        self.host_names = KnownNames()
        self.listeners: dict[str, Mapping[str, Any]] = {}
        refused = {"memory": 0, "listener": 0}
        self.admission = SimpleNamespace(limit=8192, memory_state="normal", withheld=0, refused=refused)
        self.client_share = ClientShare(cast("Core", self.core), lambda *line: None)
        self.topology_changes = 0
        self.sampler = LinkHealth(self.core)
        self.handler = Handler()
        self.limits: list[int] = []
        self.traces: set[RouterConnection] = set()
        for verb in ("add", "remove"):
            for kind in (
                "listener", "connector", "ssl_profile", "token_profile", "auth_service", "address", "auto_link",
                "link_route",
            ):  # fmt: skip
                setattr(self, f"{verb}_{kind}", lambda attrs, name=f"{verb} {kind}": self._do(name, attrs))
        self.update_auto_link = lambda attrs, _changed: self._do("update auto_link", attrs)

    def _do(self, name: str, attrs: Mapping[str, Any]) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.done.append((name, dict(attrs)))

    def update_listener(self, attrs: Mapping[str, Any]) -> None:
        self.listeners[attrs["name"]] = attrs

    def unsettled_deliveries(self) -> int:
        return 7

    def update_router(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        self._do("update router", changed)

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        if attrs["outputFile"] == "/nowhere":
            raise SchemaError("log", "outputFile", "/nowhere cannot be opened")
        self._do("log", attrs)

    def configure_telemetry(self, attrs: Mapping[str, Any]) -> None:
        self._do("telemetry", attrs)

    def connector_status(self, name: str) -> tuple[str, str]:
        return self.status

    def trace(self, conn: RouterConnection, on: bool) -> None:
        (self.traces.add if on else self.traces.discard)(conn)

    def traced(self, conn: RouterConnection) -> bool:
        return conn in self.traces

    def log_stats(self, module: str) -> Mapping[str, int]:
        return {"errorCount": len(module)}

    def recent_log(self, limit: int) -> list[Any]:
        self.limits.append(limit)
        return [("AGENT", "info", "one", None, None, 1), ("AGENT", "info", "two", None, None, 2)][-limit:]

    def certificates(self) -> dict[str, Validity]:
        return {}

    def internal_errors(self) -> int:
        return 0

    def users_refused(self) -> int:
        return 0

    def memory_usage(self) -> int | None:
        return 4096

    # ---- making objects

    def connection(self, number: int, opened: bool = True, **settings: Any) -> RouterConnection:
        conn = RouterConnection(ConnectionSettings("A", **settings), self.handler, STARTED)
        conn.id = number
        conn.peer = peer()
        if opened:
            hello = Open(container_id="client", properties={Symbol("product"): "test"})
            frames = AMQP_HEADER + encode_frame(0, hello)
            assert conn.receive(memoryview(bytearray(frames)), len(frames)) == len(frames)
            assert conn.state == OPENED
        self.core.connections[number] = conn
        return conn

    def link(self, number: int, conn: RouterConnection, **attributes: Any) -> RouterLink:
        if not conn.sessions:
            frame = encode_frame(0, Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10))
            conn.receive(memoryview(bytearray(frame)), len(frame))
        link = RouterLink(next(iter(conn.sessions.values())))
        link.id = number
        link.enter(attributes.pop("state", ATTACHED))
        for name, value in attributes.items():
            setattr(link, name, value)
        self.core.links[number] = link
        return link

    def address(self, key: str, treatment: int) -> Address:
        return self.core.addresses.setdefault(key, Address(key, treatment))


class Manager:
    """Asks the agent of a router, through the codec. `host_values`: as over a listener with managementFiles."""

    def __init__(self, router: StubRouter) -> None:
        self.host_values = True
        self._router = router
        self.agent = build_agent(router)  # type: ignore[arg-type]

    def ask(self, operation: str, body: Any = None, **properties: Any) -> tuple[int, str, Any]:
        """Status, description and body of the reply."""
        sent = Message(reply_to="temp.1", application_properties={"operation": operation, **properties}, body=body)
        request = decode_message(encode_message(sent))
        try:
            answer = self.agent.handle(request, NOW, self.host_values)
        except LookUpNeeded as needed:
            found = {name: "no such name" if name == "unknown" else ["10.1.1.1"] for name in needed.names}
            with self._router.host_names.given(found):
                answer = self.agent.handle(request, NOW, self.host_values)
        assert answer is not None
        reply = decode_message(encode_message(answer))
        assert reply.application_properties is not None
        return (
            int(reply.application_properties["statusCode"]),
            reply.application_properties["statusDescription"],
            reply.body,
        )

    def rows(self, kind: str, *names: str) -> list[dict[str, Any]]:
        """All entities of a type, by a QUERY; all attributes unless named."""
        status, text, body = self.ask("QUERY", {"attributeNames": list(names)}, entityType=kind, **NODE)
        assert status == 200, text
        return [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]


def pending(conn: Connection) -> bytes:
    """What the connection wants to write."""
    return bytes(conn.pending())
