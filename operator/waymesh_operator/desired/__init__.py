"""What should be: for each Router resource, its routers with all their configuration. Pure."""

from __future__ import annotations

from .mesh import (
    DesiredConnector,
    DesiredListener,
    DesiredMesh,
    DesiredRouter,
    Place,
    conflicts,
    desired_mesh,
    router_id,
)
from .topology import lower_neighbours

__all__ = [
    "DesiredConnector",
    "DesiredListener",
    "DesiredMesh",
    "DesiredRouter",
    "Place",
    "conflicts",
    "desired_mesh",
    "lower_neighbours",
    "router_id",
]
