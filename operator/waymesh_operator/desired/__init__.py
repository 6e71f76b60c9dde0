"""What should be: for each Router resource, its routers with all their configuration. Pure."""

from __future__ import annotations

from .mesh import DesiredMesh, DesiredRouter, Place, conflicts, desired_mesh, router_id, seed_text
from .topology import lower_neighbours

__all__ = [
    "DesiredMesh",
    "DesiredRouter",
    "Place",
    "conflicts",
    "desired_mesh",
    "lower_neighbours",
    "router_id",
    "seed_text",
]
