"""Delivery counters of the router entity, since the router started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.outcomes import ACCEPTED_CODE, MODIFIED_CODE, REJECTED_CODE, RELEASED_CODE
    from cython.cimports.waymesh_router.core.link_kinds import DATA, ENDPOINT, ROUTED
else:
    from waymesh_amqp.outcomes import ACCEPTED_CODE, MODIFIED_CODE, REJECTED_CODE, RELEASED_CODE
    from waymesh_router.core.link_kinds import DATA, ENDPOINT, ROUTED

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, RouterConnection, RouterLink


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
        self.transit = 0  # to other routers, at the router where they enter the mesh, too
        self.from_containers = 0
        self.to_containers = 0
        self.redirected = 0  # to a fallback destination
        self.expired = 0  # while they waited

    def count_in(self, lk: RouterLink, address: Address) -> None:
        """Count a delivery from a client or container."""
        address.ingress += 1
        self.ingress += 1
        if lk.container:
            address.from_container += 1
            self.from_containers += 1

    def count_out(self, address: Address, out: RouterLink) -> None:
        """Count an outgoing delivery."""
        if out.kind == ENDPOINT:
            address.egress += 1
            self.egress += 1
            if out.container:
                address.to_container += 1
                self.to_containers += 1
        elif out.kind == DATA:
            address.transit += 1
            self.transit += 1

    def count_routed_in(self, lk: RouterLink) -> None:
        """Count a delivery that arrived on a link route."""
        conn: RouterConnection = lk.connection
        self.from_containers += lk.container
        if conn.control_in is None:
            self.ingress += 1

    def count_routed_out(self, out: RouterLink) -> None:
        """Count an outgoing delivery on a link route."""
        conn: RouterConnection = out.connection
        self.to_containers += out.container
        if conn.control_in is None:
            self.egress += 1
        else:
            self.transit += 1

    def count_presettled(self, lk: RouterLink) -> None:
        """Count a pre-settled delivery that begins, even if it is dropped later, on the link on which it arrives."""
        lk.presettled += 1
        if lk.kind == ENDPOINT or lk.kind == ROUTED:
            self.presettled += 1

    def count_outcome(self, lk: RouterLink, code: cython.int) -> None:
        """Count the outcome of a delivery of this incoming link; `code`: see `outcome_code`."""
        count_on_link(lk, code)
        if code == ACCEPTED_CODE:
            self.accepted += 1
        elif code == REJECTED_CODE:
            self.rejected += 1
        elif code == RELEASED_CODE:
            self.released += 1
        elif code == MODIFIED_CODE:
            self.modified += 1


def count_on_link(lk: RouterLink, code: cython.int) -> None:
    """Count an outcome on a link, incoming or outgoing; `code`: its descriptor, see waymesh_amqp.outcomes."""
    if code == ACCEPTED_CODE:
        lk.accepted += 1
    elif code == REJECTED_CODE:
        lk.rejected += 1
    elif code == RELEASED_CODE:
        lk.released += 1
    elif code == MODIFIED_CODE:
        lk.modified += 1
