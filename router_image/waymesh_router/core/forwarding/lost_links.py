"""Links to other routers that have ended while so many deliveries of message groups wait for them that these move in
portions: each address with some of them must know, so that what arrives for their slots waits behind.

A link can have many such addresses. A few are told at once, more in portions; one that is looked at before is told
then. Decision 0107.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_router.core.portions import RoundsOfEach

if TYPE_CHECKING:
    from waymesh_router.core.forwarding.groups import Groups
    from waymesh_router.core.model import Address, RouterLink
    from waymesh_router.core.portions import Portions

FEW = 16
"""Addresses of a lost link that are told at once."""


class LostLinks:
    """`untold`: the links of which not all addresses know that they have ended, in the order in which they did."""

    def __init__(self, portions: Portions) -> None:
        self.untold: dict[RouterLink, None] = {}
        self._moving: set[RouterLink] = set()
        self._rounds = RoundsOfEach(portions, "addresses of lost links", _addresses, self._tell_next)

    def lose(self, out: RouterLink) -> None:
        """A link has ended for which much waits. Nothing to do unless deliveries of message groups do."""
        if not out.awaited:
            return
        self._moving.add(out)
        self.untold[out] = None
        if len(out.awaited) > FEW:
            self._rounds.begin(out)
            return
        for address in out.awaited:
            self.tell(address)
        del self.untold[out]

    def tell(self, address: Address) -> None:
        """Tell an address of the links in `untold`: before its slots are looked at, and before another link is lost."""
        own: Groups | None = address.groups
        if own is None:
            return
        for out in self.untold:
            slots = (out.awaited or {}).get(address, 0)
            if slots and out.queue is not None and out not in own.lost:
                own.lose(out, slots)

    def moved(self, out: RouterLink) -> None:
        """All that waited for a lost link, or for a lost consumer, has moved. Nothing to do otherwise."""
        if out.address is not None and out.address.groups is not None:
            out.address.groups.has_moved(out)
        if out not in self._moving:
            return
        self._moving.discard(out)
        self.untold.pop(out, None)
        if len(out.awaited or ()) > FEW:
            self._rounds.begin_later(out)
        else:
            for address in out.awaited or ():
                if address.groups is not None:
                    address.groups.has_moved(out)

    def before(self, out: RouterLink) -> RouterLink:
        """The lost link whose first delivery moves before that of a lost link, which may be the same."""
        while out.queue:
            q = out.queue[0].queued
            own: Groups | None = q.address.groups if q.slot else None
            if own is None:
                break
            if self.untold:
                self.tell(q.address)
            if out not in own.lost or own.next_lost() is out:
                break
            out = own.next_lost()  # it has ended later, for each address for which both were used
        return out

    def _tell_next(self, out: RouterLink, left: list[Address]) -> int:
        """Tell one address that the link has ended, or that all has moved; returns the cost."""
        own: Groups | None = left[-1].groups
        if own is not None:
            if out in self._moving:
                self.tell(left[-1])
            else:
                own.has_moved(out)
        left.pop()
        if not left:
            self.untold.pop(out, None)
        return 1


def _addresses(out: RouterLink) -> list[Address]:
    """Those with message groups of which some wait, or waited, for a link."""
    return list(out.awaited or ())
