"""An agent with fake entities that records changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.types import Int
from waymesh_router.management.adapters import ConfiguredEntities, EntityAdapter, TableEntities
from waymesh_router.management.agent import Agent
from waymesh_router.management.errors import ManagementError
from waymesh_schema.entities import entity_type

NOW = 12.5
PREFIX = "org.apache.qpid.dispatch."
NODE = {"type": "org.amqp.management", "name": "self"}


@dataclass
class FakeLink:
    number: int
    admin: str = "enabled"


class Broken(EntityAdapter):
    def rows(self, now: float) -> Any:
        raise KeyError("oops")


class Bench:
    """An agent with a few adapters, and what happened to them."""

    def __init__(self, links: int = 3) -> None:
        self.events: list[tuple[str, Any]] = []
        self.log: list[tuple[str, str]] = []
        self.refuse: ManagementError | None = None
        self.links = [FakeLink(n) for n in range(links)]
        self.computed: list[str] = []
        listener = ConfiguredEntities(
            entity_type("listener"),
            on_create=self._created,
            on_delete=lambda attributes: self.events.append(("delete", attributes["identity"])),
        )
        profile = ConfiguredEntities(entity_type("sslProfile"))
        log = ConfiguredEntities(
            entity_type("log"),
            on_update=lambda attributes, changed: self.events.append(("update", (attributes["identity"], changed))),
        )
        router = ConfiguredEntities(
            entity_type("router"), live=lambda attributes, now: {"uptimeSeconds": int(now), "version": "1.2.3"}
        )
        link = TableEntities(
            entity_type("router.link"),
            lambda: self.links,
            {
                "identity": lambda item, now: str(item.number),
                "linkName": self._link_name,
                "capacity": lambda item, now: 250,
                "adminStatus": lambda item, now: item.admin,
            },
            on_update=lambda item, changed: setattr(item, "admin", changed["adminStatus"]),
        )
        node = TableEntities(
            entity_type("router.node"),
            lambda: ["A", "B"],
            {"identity": lambda item, now: f"router.node/{item}", "id": lambda item, now: item},
        )
        adapters = (listener, profile, log, router, link, node)
        self.adapters: dict[str, EntityAdapter] = {adapter.entity_type.name: adapter for adapter in adapters}
        self.agent = Agent(
            self.adapters,
            log=lambda level, text: self.log.append((level, text)),
            check_policy=lambda asked, tenant: {"asked": dict(asked), "tenant": tenant},
            recent_log=lambda limit: [["AGENT", "info", "hello", "", 0, 1]][: limit or None],
        )
        self.agent.configure("router", {"id": "A"})
        self.agent.configure("log", {"module": "DEFAULT"})

    def _created(self, attributes: dict[str, Any]) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.events.append(("create", attributes["identity"]))

    def _link_name(self, item: FakeLink, now: float) -> str:
        self.computed.append(item.admin)
        return f"link-{item.number}"

    def ask(self, operation: Any, body: Any = None, **properties: Any) -> tuple[int, str, Any]:
        """Status, description and body of the reply, which crosses the codec as it would the wire."""
        request = Message(
            reply_to="temp.1",
            correlation_id="c1",
            application_properties={"operation": operation, **properties},
            body=body,
        )
        return self.send(request)

    def send(self, request: Message) -> tuple[int, str, Any]:
        reply = self.agent.handle(decode_message(encode_message(request)), NOW)
        assert reply is not None
        reply = decode_message(encode_message(reply))
        assert reply.to == "temp.1"
        assert reply.application_properties is not None
        status = reply.application_properties["statusCode"]
        assert isinstance(status, Int)
        return int(status), reply.application_properties["statusDescription"], reply.body

    def query(self, kind: str | None, names: list[str] | None = None, **properties: Any) -> Any:
        if kind is not None:
            properties["entityType"] = kind
        status, text, body = self.ask("QUERY", {"attributeNames": names or []}, **NODE, **properties)
        assert status == 200, text
        assert set(body) == {"attributeNames", "results"}
        return body
