"""The desired state of a mesh: its routers with their entities, and in a cluster the objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.verdicts import Verdict

from .manifests import Manifest
from .mesh import DesiredMesh
from .parts import NO_OBSTACLES, Obstacles


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired state of one Router, in a cluster or in local mode."""

    mesh: DesiredMesh
    # Full manifests in the order in which to apply them, the ConfigMaps with seeds and the StatefulSet last. None in
    # local mode.
    objects: tuple[Manifest, ...]
    # For each resource that refers to the Router, and in a cluster for the Router itself.
    verdicts: Mapping[tuple[str, Ref], Verdict]
    uid: str = ""
    size: int = 0
    obstacles: Obstacles = NO_OBSTACLES
    # Changes that wait for a restart, which only a person can request.
    restart_pending: str = ""
    # The ids of the routers of each entity that is placed on some routers only, by the entity's name.
    placements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The container-id of each link entity whose container may connect to some routers only, by the entity's name.
    containers: Mapping[str, str] = field(default_factory=dict)
    # Name prefixes of entities whose resource refers to something missing: they stay unchanged.
    held: tuple[str, ...] = ()
    # Local mode: the configuration with which each router boots, by router id, and the files with passwords and keys
    # for all routers, by name. In a cluster the seed ConfigMap and a Secret have them.
    seeds: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
