"""Deliveries that this router has counted since it started, as the router entity reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if cython.compiled:
    from cython.cimports.waymesh_router.core.kinds import DATA, ENDPOINT
    from cython.cimports.waymesh_router.core.settlement.outcomes import outcome_code
else:
    from waymesh_router.core.kinds import DATA, ENDPOINT
    from waymesh_router.core.settlement.outcomes import outcome_code

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, RouterLink


class Counters:
    """Deliveries by outcome and by direction."""

    def __init__(self) -> None:
        self.presettled = 0
        self.dropped_presettled = 0
        self.accepted = 0
        self.rejected = 0
        self.released = 0
        self.modified = 0
        self.ingress = 0  # from clients
        self.egress = 0  # to clients
        self.transit = 0  # between other routers
        self.from_containers = 0
        self.to_containers = 0
        self.redirected = 0  # to a fallback destination

    def count_in(self, lk: RouterLink, address: Address) -> None:
        """Count a delivery of a client or container."""
        address.ingress += 1
        self.ingress += 1
        if lk.container:
            address.from_container += 1
            self.from_containers += 1

    def count_out(self, lk: RouterLink | None, address: Address, out: RouterLink) -> None:
        """Count a delivery that goes out; `lk`: the link it came in on, None for a message of the router itself."""
        if out.kind == ENDPOINT:
            address.egress += 1
            self.egress += 1
            if out.container:
                address.to_container += 1
                self.to_containers += 1
        elif lk is not None and lk.kind == DATA:
            address.transit += 1
            self.transit += 1

    def count_presettled(self, lk: RouterLink) -> None:
        """Count a delivery that its sender had settled and that was passed on."""
        lk.presettled += 1
        self.presettled += 1

    def count_outcome(self, lk: RouterLink, state: bytes) -> None:
        """Count the outcome of a delivery of this incoming link."""
        code: cython.int = outcome_code(state)
        if code == 0x24:
            lk.accepted += 1
            self.accepted += 1
        elif code == 0x25:
            lk.rejected += 1
            self.rejected += 1
        elif code == 0x26:
            lk.released += 1
            self.released += 1
        elif code == 0x27:
            lk.modified += 1
            self.modified += 1
