"""The state of a connector for management."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waymesh_router.connections.transports import opened_text
from waymesh_router.peers.failover import Target

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection


@dataclass(slots=True)
class ConnectorState:
    """`status`, `text`: connectionStatus and connectionMsg; `failover`: targets that the server announced."""

    attrs: Mapping[str, Any]
    status: str = "CONNECTING"
    text: str = ""
    failover: list[Target] = field(default_factory=list)

    def failed(self, text: str) -> None:
        """An attempt failed, or the connection ended."""
        self.status, self.text = "FAILED", text


def status_of(
    name: str, state: ConnectorState | None, connections: Iterable[RouterConnection]
) -> tuple[str, str]:
    """connectionStatus and connectionMsg of a connector; `state`: None if it does not exist any more."""
    if state is None:
        return "FAILED", ""
    for conn in connections:
        if conn.settings.client and conn.origin == name and conn.remote is not None:
            return "SUCCESS", opened_text(conn)
    return state.status, state.text
