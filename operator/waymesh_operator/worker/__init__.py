"""One worker a mesh, fed by a queue of our own: what is known of the world, and rounds of acting on it."""

from __future__ import annotations

from .analytics import AnalyticsWatch
from .audit import Auditor
from .inventory import Inventory
from .mesh import MeshWorker
from .pool import Pool
from .reporter import Reporter
from .world import Pace, World

__all__ = ["AnalyticsWatch", "Auditor", "Inventory", "MeshWorker", "Pace", "Pool", "Reporter", "World"]
