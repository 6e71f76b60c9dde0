"""The state of a connector for management."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_router.failover import Target


@dataclass(slots=True)
class ConnectorState:
    """`status`, `text`: connectionStatus and connectionMsg; `failover`: what its server announced."""

    attrs: Mapping[str, Any]
    status: str = "CONNECTING"
    text: str = ""
    failover: list[Target] = field(default_factory=list)
