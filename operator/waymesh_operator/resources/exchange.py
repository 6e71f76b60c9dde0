"""The Exchange resource as a typed value: copies of the messages to an address, by their subject."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .router import Manifest, Ref, local_ref, ref_of, server_metadata


@dataclass(frozen=True, slots=True, order=True)
class Binding:
    """A key for subjects, and the address that gets a copy of messages whose subject matches it."""

    key: str
    address: str
    phase: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange with its bindings."""

    ref: Ref
    router: Ref
    address: str
    phase: int = 0
    alternate_address: str | None = None
    alternate_phase: int = 0
    # amqp or mqtt
    match_method: str = "amqp"
    bindings: tuple[Binding, ...] = ()
    # All, One or List; `ordinals` are the routers of a List.
    placement: str = "All"
    ordinals: tuple[int, ...] = ()
    created: str = ""
    uid: str = ""
    generation: int = 0

    @property
    def leads_to(self) -> frozenset[tuple[str, int]]:
        """The addresses that get copies, and their phases."""
        hops = {(binding.address, binding.phase) for binding in self.bindings}
        return frozenset(hops | ({(self.alternate_address, self.alternate_phase)} if self.alternate_address else set()))

    def beside(self, other: Exchange) -> bool:
        """Whether a router may have both."""
        if self.router != other.router:
            return False
        if "List" in (self.placement, other.placement) and self.placement == other.placement:
            return bool({*self.ordinals} & {*other.ordinals})
        return True


def parse_exchange(manifest: Manifest) -> Exchange:
    """The Exchange of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    placement = spec["placement"]
    bindings = (Binding(one["bindingKey"], one["nextHopAddress"], one["nextHopPhase"]) for one in spec["bindings"])
    return Exchange(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        address=spec["address"],
        phase=spec["phase"],
        alternate_address=spec.get("alternateAddress"),
        alternate_phase=spec["alternatePhase"],
        match_method=spec["matchMethod"],
        bindings=tuple(sorted(bindings)),
        placement=placement["routers"],
        ordinals=tuple(sorted(placement.get("ordinals", ()))),
        **server_metadata(manifest),
    )


def exchange_conflicts(exchanges: Iterable[Exchange]) -> dict[Ref, Exchange]:
    """Return Exchanges that a router would refuse beside an older one: loser → winner. They have the same address, or
    one sends to the other."""
    winners: dict[tuple[str, int], list[Exchange]] = {}
    leading: dict[tuple[str, int], list[Exchange]] = {}
    lost: dict[Ref, Exchange] = {}
    for exchange in sorted(exchanges, key=lambda one: (one.created, one.ref)):
        own = (exchange.address, exchange.phase)
        reached = [one for place in (own, *sorted(exchange.leads_to)) for one in winners.get(place, ())]
        winner = next((one for one in (*reached, *leading.get(own, ())) if one.beside(exchange)), None)
        if winner is not None:
            lost[exchange.ref] = winner
            continue
        winners.setdefault(own, []).append(exchange)
        for place in exchange.leads_to:
            leading.setdefault(place, []).append(exchange)
    return lost
