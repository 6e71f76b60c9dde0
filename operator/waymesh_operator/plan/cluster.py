"""Plans for a mesh in a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_operator.desired import DesiredCluster

from .actions import ClusterAction
from .observed import ObservedCluster


@dataclass(frozen=True, slots=True)
class Drift:
    """Entities on the routers: `current` differ from what their seeds say, `unmanaged` nobody asked for by a resource."""

    current: int = 0
    unmanaged: int = 0


def plan_cluster(desired: DesiredCluster, observed: ObservedCluster) -> tuple[ClusterAction, ...]:
    """The steps, in order, that make `observed` into `desired`, as far as can be seen now."""
    raise NotImplementedError


def drift(desired: DesiredCluster, observed: ObservedCluster) -> Drift:
    """What differs on the routers though all that was asked for has been handed out, and what is nobody's."""
    raise NotImplementedError
