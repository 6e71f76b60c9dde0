"""What all parts of the core share: who this router is, the time, and who is told of events."""

from __future__ import annotations

from collections.abc import Callable

from waymesh_router.core.attaching import Rng
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.telemetry_hooks import TelemetryHooks


class Context:
    """Facts and listeners, no logic."""

    def __init__(self, router_id: str, now: float, rng: Rng, log: Callable[[str, str, str], None]) -> None:
        self.router_id = router_id
        self.now = now  # seconds; the owner of the core sets it each turn
        self.started_at = now
        self.rng = rng
        self.log = log  # log(module, level, text) writes a line
        self.control_plane = ControlPlaneHooks()
        self.telemetry = TelemetryHooks()
        self.drain_from = 0  # while the router drains: the id of the first connection that came since; else 0
