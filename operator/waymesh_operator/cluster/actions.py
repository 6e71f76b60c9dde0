"""The steps that a plan is made of. Each says in plain words what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from waymesh_operator.router_entities.entities import ADDRESS, CONNECTOR, LISTENER, Entity

from .mesh import DesiredRouter
from .objects import Manifest


@dataclass(frozen=True)
class CreateRouter:
    """Start a router that does not exist. It boots with all its configuration."""

    sign: ClassVar[str] = "+"
    router: DesiredRouter
    seed: str

    @property
    def router_id(self) -> str:
        """The router concerned."""
        return self.router.id

    def describe(self) -> str:
        """What the step does."""
        ports = _join(listener.port for listener in self.router.listeners if listener.for_clients)
        peers = _join(connector.peer for connector in self.router.connectors)
        details = [f"listens on {ports}"] if ports else []
        details += [f"connects to {peers}"] if peers else []
        return f"create router {self.router_id}" + (f" ({'; '.join(details)})" if details else "")


@dataclass(frozen=True)
class RestartRouter:
    """Start a router again that ended without being asked to."""

    sign: ClassVar[str] = "+"
    router: DesiredRouter
    seed: str
    reason: str

    @property
    def router_id(self) -> str:
        """The router concerned."""
        return self.router.id

    def describe(self) -> str:
        """What the step does."""
        return f"restart router {self.router_id}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True)
class StopRouter:
    """Drain a router and end it."""

    sign: ClassVar[str] = "-"
    router_id: str
    drain_timeout_s: int

    def describe(self) -> str:
        """What the step does."""
        return f"drain and stop router {self.router_id} (at most {self.drain_timeout_s} s)"


@dataclass(frozen=True)
class WriteSeed:
    """Bring what a running router boots with next time up to date. Changes nothing live."""

    sign: ClassVar[str] = "~"
    router_id: str
    seed: str

    def describe(self) -> str:
        """What the step does."""
        return f"{self.router_id}: save the configuration for its next start"


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
class ApplyObject:
    """Server-side apply of a full manifest, with our field manager and force. `new` says that nothing of this name was
    seen under our label: what stands there all the same belongs to somebody else, and must be left alone."""

    sign: ClassVar[str] = "~"
    router_id: ClassVar[str] = ""
    manifest: Manifest
    new: bool = False

    def describe(self) -> str:
        """What the step does."""
        return f"{'create' if self.new else 'update'} {self.manifest['kind']} {self.manifest['metadata']['name']}"


@dataclass(frozen=True)
class DeleteObject:
    """Delete an object of ours that is wanted no more."""

    sign: ClassVar[str] = "-"
    router_id: ClassVar[str] = ""
    kind: str
    name: str

    def describe(self) -> str:
        """What the step does."""
        return f"delete {self.kind} {self.name}"


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


@dataclass(frozen=True)
class Scale:
    """Change the number of replicas. `manifest` is the whole StatefulSet with this number: it is what to apply, as a
    partial one would take all other fields back."""

    sign: ClassVar[str] = "~"
    router_id: ClassVar[str] = ""
    replicas: int
    manifest: Manifest

    def describe(self) -> str:
        """What the step does."""
        return f"scale {self.manifest['metadata']['name']} to {self.replicas}"


EntityAction = CreateEntity | UpdateEntity | DeleteEntity | QuiesceEntity
Action = CreateRouter | RestartRouter | StopRouter | WriteSeed | EntityAction
"""A step of local mode."""
ClusterAction = ApplyObject | DeleteObject | DrainRouter | UndrainRouter | Scale | EntityAction
"""A step in a cluster."""


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


def _join(values: Any) -> str:
    return ", ".join(str(value) for value in values)
