"""Settings of the control plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Identity and intervals of a router; the intervals are those of the `router` entity, in seconds.

    `instance` is the boot time in whole seconds, by which peers recognize a restart. `demand`: it tells other routers
    what its consumers are ready for.
    """

    router_id: str
    area: str = "0"
    instance: int = 0
    hello_interval_s: float = 1.0
    hello_max_age_s: float = 3.0
    ra_interval_s: float = 30.0
    ra_interval_flux_s: float = 4.0
    remote_ls_max_age_s: float = 60.0
    demand: bool = False


def routing_settings(attrs: Mapping[str, Any], boot: int) -> RoutingSettings:
    """The settings from a `router` entity. `boot`: when the router started, in seconds since 1970."""
    return RoutingSettings(
        router_id=attrs["id"],
        instance=boot,
        hello_interval_s=attrs["helloIntervalSeconds"],
        hello_max_age_s=attrs["helloMaxAgeSeconds"],
        ra_interval_s=attrs["raIntervalSeconds"],
        ra_interval_flux_s=attrs["raIntervalFluxSeconds"],
        remote_ls_max_age_s=attrs["remoteLsMaxAgeSeconds"],
        demand=True,
    )
