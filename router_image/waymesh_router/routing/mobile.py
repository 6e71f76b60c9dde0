"""Mobile addresses: those of this router, announced to all, and those that other routers announced.

Source: protocol/inter-router.md: a differential MAU after each change of local subscriptions, sequence +1; an absolute
MAU as answer to a MAR; a MAR when an RA or MAU shows a gap in the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice

from waymesh_amqp.tables import shrink
from waymesh_router.routing import messages
from waymesh_router.routing.effects import Effect, MobileAdd, MobileDel, MobileFlush
from waymesh_router.routing.messages import Mau
from waymesh_router.routing.nodes import Node

# Changes of one turn of the loop are sent in one MAU at the end of the turn; the next MAU not before this time, so that
# a thousand consumers that attach one by one cause a few MAUs and not a thousand floods.
MAU_SPACING_S = 0.002
# More changes are sent in several MAUs: each router has other work to do in between.
MAU_CHANGES = 100


class LocalMobiles:
    """Addresses reachable at this router. `wake` is the time of the next `flush`."""

    def __init__(self, first_seq: int) -> None:
        self.wake = math.inf
        self.seq = first_seq
        self._announced: dict[str, int] = {}  # treatments by key
        self._add: dict[str, int] = {}
        self._delete: dict[str, None] = {}
        self._offers: dict[str, Mapping[str, object]] = {}
        self._announce_again: set[str] = set()  # keys with changed capabilities
        self._last = -math.inf

    def add(self, key: str, treatment: int, now: float) -> None:
        """An address became reachable here, or its treatment changed."""
        self._delete.pop(key, None)
        self._add.pop(key, None)
        if self._announced.get(key) != treatment:
            self._add[key] = treatment
        self._schedule(now)

    def remove(self, key: str, now: float) -> None:
        """An address is no longer reachable here."""
        self._add.pop(key, None)
        if key in self._announced:
            self._delete[key] = None
        self._schedule(now)

    def offer(self, key: str, offer: Mapping[str, object] | None, now: float) -> None:
        """Set the capabilities for an address, None for none; announced with it, again if they have changed."""
        if self._offers.get(key) == offer:
            return
        if offer is None:
            del self._offers[key]
        else:
            self._offers[key] = offer
        if key in self._announced:
            self._announce_again.add(key)
            self._schedule(now)

    def _schedule(self, now: float) -> None:
        pending = self._add or self._delete or self._announce_again
        self.wake = max(now, self._last + MAU_SPACING_S) if pending else math.inf

    def flush(self, now: float) -> dict[str, object]:
        """Take at most MAU_CHANGES pending changes and return the body part of their MAU."""
        delete = dict.fromkeys(islice(self._delete, MAU_CHANGES))
        add = dict(islice(self._add.items(), MAU_CHANGES - len(delete)))
        again = {
            key: self._announced[key]
            for key in self._announce_again
            if key in self._announced and key not in self._delete
        }
        part = messages.differential(again | add, delete, self._offers)
        for key in delete:
            del self._delete[key], self._announced[key]
        for key in add:
            del self._add[key]
        self._announced.update(add)
        for table in (self._announced, self._add, self._delete):
            shrink(table)
        self._announce_again.clear()
        self.seq += 1
        self._last = now
        self._schedule(now)
        return part

    def empty_seq(self) -> int | None:
        """`seq` if it was announced (above 0) without any address, else None."""
        return None if self._announced or not self.seq else self.seq

    def table(self) -> dict[str, object]:
        """Body part of an absolute MAU: the addresses announced up to `seq`."""
        return messages.absolute(self._announced, self._offers)


def take_update(node: Node, mau: Mau, now: float, out: list[Effect]) -> bool:
    """Apply another router's MAU; False: it does not fit the sequence, a MAR is needed.

    Effects are emitted only while the router is reachable; otherwise only the table is updated.
    """
    sequence = node.mobile_seq
    if mau.exist is None:
        if mau.mobile_seq == sequence.known:
            return True
        if mau.mobile_seq != sequence.known + 1:
            return False
        sequence.known = mau.mobile_seq
        added, removed = mau.add, [key for key in mau.delete if key not in mau.add]
    else:
        sequence.record(mau.mobile_seq, now)
        added, removed = mau.exist, [key for key in node.mobiles if key not in mau.exist]
    for key in (*removed, *added):
        node.offers.pop(key, None)
    node.offers.update((key, offer) for key, offer in mau.offers.items() if key in added)
    for key in removed:
        if node.mobiles.pop(key, None) is not None and node.up:
            out.append(MobileDel(node.id, key))
    for key, treatment in added.items():
        if node.mobiles.get(key) != treatment:
            node.mobiles[key] = treatment
            if node.up:
                out.append(MobileAdd(node.id, key, treatment))
    return True


def flush_node(node: Node, out: list[Effect]) -> None:
    """Remove the addresses of a router from the core because it is gone or has restarted."""
    if node.up and node.mobiles:
        out.append(MobileFlush(node.id))
