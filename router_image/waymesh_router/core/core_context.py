"""State that all parts of the core share: the router's identity, the time, and the listeners for events."""

from __future__ import annotations

from waymesh_router.core.attaching import Rng
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.portions import Portions
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.events.event import Log


class CoreContext:
    """Shared values and listeners."""

    def __init__(self, router_id: str, now: float, rng: Rng, log: Log, edge: bool = False) -> None:
        self.router_id = router_id
        self.edge = edge
        self.stamp = "" if edge else router_id
        """The id for ingress and trace of forwarded messages; empty at an edge router, which writes neither."""
        self.now = now  # seconds; set by the owner of the core before each turn
        self.clock_ahead = 0.0  # seconds by which the system clock is ahead of `now`: it may have been corrected
        self.started_at = now
        self.rng = rng
        self.log = log
        self.control_plane = ControlPlaneHooks()
        self.telemetry = TelemetryHooks()
        self.portions = Portions()
        self.streaming = True
        """Whether long messages go to other routers on links of their own. Tests switch it off, as in old routers."""
        self.drain_from = 0  # id of the first connection since the router began to drain; 0: not draining

    def follow_clock(self, ahead: float) -> None:
        """Set `clock_ahead`; called several times a second."""
        self.clock_ahead = ahead
