"""Actions of a plan on objects and on whole routers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from waymesh_operator.router_entities.actions import RouterAction

from .manifests import Manifest
from .mesh import DesiredRouter


@dataclass(frozen=True)
class CreateRouter:
    """Start a router that does not exist. It boots with its full configuration."""

    sign: ClassVar[str] = "+"
    router: DesiredRouter
    seed: str

    @property
    def router_id(self) -> str:
        """The id of the router."""
        return self.router.id

    def describe(self) -> str:
        """The action in words."""
        ports = _join(listener.port for listener in self.router.listeners if listener.for_clients)
        peers = _join(connector.peer for connector in self.router.connectors)
        details = [f"listens on {ports}"] if ports else []
        details += [f"connects to {peers}"] if peers else []
        return f"create router {self.router_id}" + (f" ({'; '.join(details)})" if details else "")


@dataclass(frozen=True)
class RestartRouter:
    """Restart a router that has ended unexpectedly."""

    sign: ClassVar[str] = "+"
    router: DesiredRouter
    seed: str
    reason: str

    @property
    def router_id(self) -> str:
        """The id of the router."""
        return self.router.id

    def describe(self) -> str:
        """The action in words."""
        return f"restart router {self.router_id}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True)
class StopRouter:
    """Stop a router that is drained, or that does not answer."""

    sign: ClassVar[str] = "-"
    router_id: str

    def describe(self) -> str:
        """The action in words."""
        return f"stop router {self.router_id}"


@dataclass(frozen=True)
class WriteSeed:
    """Update the configuration that a running router loads at its next start. Does not change the running router."""

    sign: ClassVar[str] = "~"
    router_id: str
    seed: str

    def describe(self) -> str:
        """The action in words."""
        return f"{self.router_id}: save the configuration for its next start"


@dataclass(frozen=True)
class ApplyObject:
    """Server-side apply of a full manifest, with our field manager and force. `new`: no object of this name was seen
    with our label. If one exists anyway, another owner created it and it must not be changed. `restarts`: how many pods
    Kubernetes replaces after it, one after the other."""

    sign: ClassVar[str] = "~"
    router_id: ClassVar[str] = ""
    manifest: Manifest
    new: bool = False
    restarts: int = 0

    def describe(self) -> str:
        """The action in words."""
        text = f"{'create' if self.new else 'update'} {self.manifest['kind']} {self.manifest['metadata']['name']}"
        pods = "its pod" if self.restarts == 1 else f"its {self.restarts} pods, one after the other"
        return f"{text}: restarts {pods}" if self.restarts else text


@dataclass(frozen=True)
class DeleteObject:
    """Delete an object of ours that is no longer desired."""

    sign: ClassVar[str] = "-"
    router_id: ClassVar[str] = ""
    kind: str
    name: str
    api_version: str = ""

    def describe(self) -> str:
        """The action in words."""
        return f"delete {self.kind} {self.name}"


@dataclass(frozen=True)
class Scale:
    """Change the number of replicas. `manifest` is the whole StatefulSet with this number, because applying a
    partial one would remove all other fields."""

    sign: ClassVar[str] = "~"
    router_id: ClassVar[str] = ""
    replicas: int
    manifest: Manifest

    def describe(self) -> str:
        """The action in words."""
        return f"scale {self.manifest['metadata']['name']} to {self.replicas}"


@dataclass(frozen=True)
class UpdateFiles:
    """Make the kubelet update a pod's files from its Secrets now. `manifest` is the pod's new annotation."""

    sign: ClassVar[str] = "~"
    router_id: ClassVar[str] = ""
    manifest: Manifest

    def describe(self) -> str:
        """The action in words."""
        return f"update the files of Pod {self.manifest['metadata']['name']}"


ObjectAction = ApplyObject | DeleteObject | Scale | UpdateFiles
"""An action on objects of a cluster."""
ProcessAction = CreateRouter | RestartRouter | StopRouter | WriteSeed
"""An action on the processes of local mode. In a cluster Kubernetes starts and stops pods as the StatefulSet says."""
Action = ObjectAction | ProcessAction | RouterAction


def _join(values: Any) -> str:
    return ", ".join(str(value) for value in values)
