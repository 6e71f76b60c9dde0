"""The parts of the desired state of a mesh, each with its own obstacles, and to which part an object belongs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Part = Literal["access", "certificates", "configuration", "workload", "exposure"]
"""A part of the desired state: who may reach and use the routers (users, certificates of listeners, NetworkPolicy);
certificates of the mesh itself; what routers boot with; the routers; how clients find them (Services and routes)."""
PARTS: tuple[Part, ...] = ("access", "certificates", "configuration", "workload", "exposure")

CREDENTIALS_SUFFIX = "-credentials"
"""Suffix of the name of the Secret with users of listeners, and credentials for brokers."""
CONFLICTED, REFUSED_OBJECT = "Conflicted", "RefusedByApiServer"
"""Reasons of obstacles: the name of an object is taken; the API server refuses an object."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a part of the mesh cannot be as desired until somebody acts; all other parts go on.

    Without certificates, routers are not started, and those that run keep theirs. Without a configuration to boot with,
    the seeds stay as they are and no router is added. While an object of these two parts or of access is refused, pods
    are neither added nor removed and nothing is opened to the outside: routers would not be protected as desired.
    """

    part: Part
    # One word, and a sentence for users.
    reason: str
    message: str
    # Whether the mesh is Stalled. False: what is missing, such as a Secret, may be about to come.
    stalls: bool = True


@dataclass(frozen=True, slots=True)
class Obstacles:
    """The obstacles that are known before anything is applied."""

    found: tuple[Obstacle, ...] = ()

    def of(self, part: Part) -> str:
        """Return why a part cannot be as desired; empty if it can."""
        return "; ".join(one.message for one in self.found if one.part == part)

    @property
    def starting(self) -> str:
        """Why no router can be started as desired; empty if it can."""
        return "; ".join(filter(None, (self.of("certificates"), self.of("configuration"))))


NO_OBSTACLES = Obstacles()
_BY_KIND: Mapping[str, Part] = {
    "NetworkPolicy": "access",
    "Issuer": "certificates",
    "Certificate": "certificates",
    "ConfigMap": "configuration",
    "StatefulSet": "workload",
    "PodDisruptionBudget": "workload",
    "Pod": "workload",
}


def part_of(kind: str, name: str, spec: Mapping[str, Any]) -> Part:
    """Return the part to which an object of a mesh belongs. `spec` is that of its manifest; empty if it is deleted."""
    if kind == "Secret":
        return "access" if name.endswith(CREDENTIALS_SUFFIX) else "certificates"
    if kind == "Service" and spec.get("clusterIP") == "None":
        return "workload"  # routers find each other by it
    return _BY_KIND.get(kind, "exposure")
