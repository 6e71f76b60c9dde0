"""Actions on a running router, carried out over AMQP management."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .names import ADDRESS, CONNECTOR, LISTENER, Entity


@dataclass(frozen=True)
class CreateEntity:
    """Make an entity on a running router. `replaces` says that one with other values makes room for it."""

    sign: ClassVar[str] = "+"
    router_id: str
    entity: Entity
    replaces: bool = False

    def describe(self) -> str:
        """What the step does."""
        return f"{self.router_id}: {'replace' if self.replaces else 'create'} {describe_entity(self.entity)}"


@dataclass(frozen=True)
class UpdateEntity:
    """Change attributes of an entity on a running router. `changes` is name → (present, wanted)."""

    sign: ClassVar[str] = "~"
    router_id: str
    entity: Entity
    changes: Mapping[str, tuple[Any, Any]]

    def describe(self) -> str:
        """What the step does."""
        changes = ", ".join(f"{name} {old} → {new}" for name, (old, new) in self.changes.items())
        return f"{self.router_id}: update {self.entity.type} {short_name(self.entity)}: {changes}"


@dataclass(frozen=True)
class DeleteEntity:
    """Remove an entity from a running router."""

    sign: ClassVar[str] = "-"
    router_id: str
    entity: Entity
    replaced: bool = False

    def describe(self) -> str:
        """What the step does."""
        what = "remove the former" if self.replaced else "delete"
        return f"{self.router_id}: {what} {describe_entity(self.entity)}"


@dataclass(frozen=True)
class QuiesceEntity:
    """Have an entity take no more messages and remove itself when none is under way."""

    sign: ClassVar[str] = "-"
    router_id: str
    entity: Entity
    replaced: bool = False

    def describe(self) -> str:
        """What the step does."""
        what = "the former " if self.replaced else ""
        return f"{self.router_id}: quiesce and remove {what}{describe_entity(self.entity)}"


@dataclass(frozen=True)
class DrainRouter:
    """Set `draining` and `drainTimeoutSeconds` of a router. It goes on by itself; the next observation shows how far
    it is."""

    sign: ClassVar[str] = "-"
    router_id: str
    timeout_s: int

    def describe(self) -> str:
        """What the step does."""
        return f"drain router {self.router_id} (at most {self.timeout_s} s)"


@dataclass(frozen=True)
class UndrainRouter:
    """Take `draining` back: the router is wanted again before it has left."""

    sign: ClassVar[str] = "+"
    router_id: str

    def describe(self) -> str:
        """What the step does."""
        return f"take router {self.router_id} back into service"


EntityAction = CreateEntity | UpdateEntity | DeleteEntity | QuiesceEntity


def short_name(entity: Entity) -> str:
    """The name for a person: without the prefix that says which resource it stands for."""
    return entity.base_name.split("/", 3)[-1] if entity.owned else entity.name.removeprefix(f"{entity.type}/")


def describe_entity(entity: Entity) -> str:
    """Type, name and what matters most of an entity."""
    attributes = entity.attributes
    if entity.type == ADDRESS:
        kind = "prefix" if attributes.get("prefix") is not None else "pattern"
        return f"address {short_name(entity)} ({kind} {attributes.get(kind)}, {attributes.get('distribution')})"
    if entity.type in (LISTENER, CONNECTOR):
        return f"{entity.type} {short_name(entity)} ({attributes.get('host')}:{attributes.get('port')})"
    return f"{entity.type} {short_name(entity)}"


RouterAction = EntityAction | DrainRouter | UndrainRouter
