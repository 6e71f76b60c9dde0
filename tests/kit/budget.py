"""What waiting deliveries count in the budgets."""

from __future__ import annotations

from waymesh_router.core.core import Core
from waymesh_router.core.forwarding.buffer_budget import BRANCH_BYTES, RECORD_BYTES
from waymesh_router.core.model import Queued


def waiting_deliveries(core: Core) -> list[Queued]:
    """All deliveries that wait. Each counts its bytes, its record, and the consumers for which a copy waits."""
    alone = [queued for address in core.addresses.values() for queued in address.pending or ()]
    alone += core.credit.gathering.deliveries
    copied: dict[int, Queued] = {}
    ended = [link.partner for link in core.links.values() if link.partner is not None and link.partner.over]
    for link in (*core.links.values(), *ended):
        for each in link.queue or ():
            if isinstance(each, Queued):
                alone.append(each)
            elif each.queued.unstarted == 0:  # aborted: only its place is left
                assert each.queued.kept == 0
            elif each.queued.alone:
                alone.append(each.queued)
            else:
                copied[id(each.queued)] = each.queued
    for queued in alone:
        size = queued.size or len(queued.payload())  # the former is 0 on a link route
        assert queued.link is None or queued.kept == size + RECORD_BYTES
    for queued in copied.values():
        branches, rest = divmod(queued.kept - queued.size - RECORD_BYTES, BRANCH_BYTES)
        assert queued.link is None or (rest == 0 and branches >= queued.unstarted)
    return [*alone, *copied.values()]
