"""What a status is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waymesh_operator.desired import DesiredCluster
from waymesh_operator.plan import Drift, ObservedCluster
from waymesh_operator.specs import Address, Ref


@dataclass(frozen=True)
class Seen:
    """What is known of one mesh at `now` (an aware time).

    `refused` holds the router's reason for each entity that it would not take, by (router id, `Entity.key`); it is to be
    kept until the entity is taken or wanted no more. `errors` are steps on objects that failed, in words. `consumers` is
    the result of `consumers_by_address`, `links` the number of routed links of each LinkRoute. `repaired` counts what was
    put right, over all time. `tls_message` is `MeshTls.message`.
    """

    desired: DesiredCluster
    observed: ObservedCluster
    now: datetime
    refused: Mapping[tuple[str, tuple[str, str]], str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    consumers: Mapping[Ref, int] = field(default_factory=dict)
    links: Mapping[Ref, int] = field(default_factory=dict)
    drift: Drift = Drift()
    repaired: int = 0
    tls_message: str = ""


def consumers_by_address(addresses: Iterable[Address], live: Mapping[str, int]) -> dict[Ref, int]:
    """Consumers of each Address: `live` has their number for each mobile address, summed over all routers."""
    raise NotImplementedError
