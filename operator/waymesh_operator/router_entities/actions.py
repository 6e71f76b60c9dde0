"""Actions on a running router."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .names import ADDRESS, CONNECTOR, LISTENER, VHOST, Entity, match_of


@dataclass(frozen=True)
class CreateEntity:
    """Create an entity on a running router. `replaces`: it replaces one with other values."""

    sign: ClassVar[str] = "+"
    router_id: str
    entity: Entity
    replaces: bool = False

    def describe(self) -> str:
        """The action in words."""
        return f"{self.router_id}: {'replace' if self.replaces else 'create'} {describe_entity(self.entity)}"


@dataclass(frozen=True)
class UpdateEntity:
    """Update an entity on a running router. `changes` is name → (present, desired)."""

    sign: ClassVar[str] = "~"
    router_id: str
    entity: Entity
    changes: Mapping[str, tuple[Any, Any]]

    def describe(self) -> str:
        """The action in words."""
        changes = ", ".join(_change(name, *values) for name, values in self.changes.items())
        return f"{self.router_id}: update {self.entity.type} {short_name(self.entity)}: {changes}"


def _change(name: str, old: Any, new: Any) -> str:
    """Describe a changed attribute; a map, such as the groups of a vhost, would be too long."""
    return name if isinstance(new, Mapping) else f"{name} {old} → {new}"


@dataclass(frozen=True)
class DeleteEntity:
    """Delete an entity of a running router. `replaced`: one with other values replaces it."""

    sign: ClassVar[str] = "-"
    router_id: str
    entity: Entity
    replaced: bool = False

    def describe(self) -> str:
        """The action in words."""
        what = "remove the old" if self.replaced else "delete"
        return f"{self.router_id}: {what} {describe_entity(self.entity)}"


@dataclass(frozen=True)
class QuiesceEntity:
    """Quiesce an entity: it accepts no more messages, and the router removes it when all deliveries are settled.
    `replaced`: one with other values replaces it.
    """

    sign: ClassVar[str] = "-"
    router_id: str
    entity: Entity
    replaced: bool = False

    def describe(self) -> str:
        """The action in words."""
        what = "the old " if self.replaced else ""
        return f"{self.router_id}: quiesce and remove {what}{describe_entity(self.entity)}"


@dataclass(frozen=True)
class DrainRouter:
    """Set `draining` and `drainTimeoutSeconds` of a router. The next observations show its progress."""

    sign: ClassVar[str] = "-"
    router_id: str
    timeout_s: int

    def describe(self) -> str:
        """The action in words."""
        return f"drain router {self.router_id} (at most {self.timeout_s} s)"


@dataclass(frozen=True)
class UndrainRouter:
    """Reset `draining`: the router is desired again before it was removed."""

    sign: ClassVar[str] = "+"
    router_id: str

    def describe(self) -> str:
        """The action in words."""
        return f"take router {self.router_id} back into service"


@dataclass(frozen=True)
class MoveClients:
    """Set `clientShare` of a router: it closes connections of clients above it that were open `older_s` before."""

    sign: ClassVar[str] = "~"
    router_id: str
    share: int
    older_s: int

    def describe(self) -> str:
        """The action in words."""
        return f"router {self.router_id}: move clients above {self.share} to other routers"


def short_name(entity: Entity) -> str:
    """The name for display, without the prefix of the resource."""
    return entity.base_name.split("/", 3)[-1] if entity.owned else entity.name.removeprefix(f"{entity.type}/")


def describe_entity(entity: Entity) -> str:
    """Describe an entity: type, name and the most important attributes."""
    attributes = entity.attributes
    if entity.type == ADDRESS:
        kind, match = match_of(entity)
        return f"address {short_name(entity)} ({kind} {match}, {attributes.get('distribution')})"
    if entity.type in (LISTENER, CONNECTOR):
        return f"{entity.type} {short_name(entity)} ({attributes.get('host')}:{attributes.get('port')})"
    if entity.type == VHOST:
        return f"vhost {short_name(entity)} ({attributes.get('hostname')})"
    return f"{entity.type} {short_name(entity)}"


EntityAction = CreateEntity | UpdateEntity | DeleteEntity | QuiesceEntity
RouterAction = EntityAction | DrainRouter | UndrainRouter | MoveClients
