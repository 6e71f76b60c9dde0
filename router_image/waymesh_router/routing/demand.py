"""Messages about demand between routers: who may send them, and their common part. Source: protocol/demand.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.routing.effects import SUFFIX_CONTROL, SendTo
from waymesh_router.routing.messages import PROTOCOL_VERSION, base_body
from waymesh_router.routing.nodes import Node
from waymesh_router.routing.settings import RoutingSettings

OPCODE = "DEMAND"
"""Routers of Dispatch ignore it."""


class DemandMessages:
    """What the control plane contributes to demand."""

    def __init__(self, settings: RoutingSettings, nodes: Mapping[str, Node]) -> None:
        self._settings = settings
        self._nodes = nodes
        self.known = settings.demand
        """Whether this router takes part. Tests switch it off, so that it acts like an old one."""

    def told_by(self, router_id: str) -> bool:
        """Whether another router tells what its consumers are ready for, as its link state says."""
        node = self._nodes.get(router_id)
        return self.known and node is not None and node.demand

    def to(self, router_id: str, part: Mapping[str, object]) -> SendTo:
        """A message to another router."""
        settings = self._settings
        body = base_body(settings.router_id, settings.area) | {"instance": settings.instance, **part}
        return SendTo(router_id, OPCODE, body, SUFFIX_CONTROL)

    def sender(self, body: Mapping[Any, Any]) -> str:
        """The router that has sent a message; "" if it is not a reachable one, or a former instance of it."""
        node = self._nodes.get(str(body.get("id"))) if self.known else None
        if node is None or not node.up or body.get("pv", 0) != PROTOCOL_VERSION:
            return ""
        return node.id if node.instance == body.get("instance") else ""
