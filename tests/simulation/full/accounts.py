"""What a router at rest must not count or keep: it has no delivery in progress, and all credit is back."""

from __future__ import annotations

import gc

from tests.simulation.full.network import SimRouter
from waymesh_router.core.link_kinds import ROUTED
from waymesh_router.core.model import Branch, Queued


def accounts(router: SimRouter, empty: bool = False) -> list[str]:
    """What is still counted at a router at rest. `empty`: it has no clients."""
    core, name = router.core, router.name
    found = []
    budget = core.budget
    if budget.kept or budget.full or budget.braked or budget.replies:
        found.append(f"{name}: {budget.kept} bytes wait, {len(budget.braked)} links are held, {budget.replies}")
    for key, address in core.addresses.items():
        if address.pending or any(target.outstanding for target in address.targets.values()):
            found.append(f"{name}: deliveries of {key}")
    for link in core.links.values():
        if link.kind == ROUTED:
            continue
        where = f"{name}: {link.name} ({'out' if link.is_sender else 'in'} {link.address and link.address.key})"
        if link.unsettled or link.queue or link.queued or link.busy or link.backlog or link.mid_delivery:
            found.append(f"{where} is not idle")
        if link.kept or link.full or link.feeder or link.discard or link.head:
            found.append(f"{where} keeps {link.kept}")
        if not link.is_sender and link.outstanding:
            found.append(f"{where} did not return {link.outstanding} credit")
        if not link.is_sender and link.accepting and link.credit + link.replenish != link.capacity:
            found.append(f"{where} has credit {link.credit} + {link.replenish} of {link.capacity}")
    for conn in core.connections.values():
        if conn.kept or conn.full or conn.heads:
            found.append(f"{name}: connection {conn.id} keeps {conn.kept} bytes and {conn.heads}")
        for session in conn.sessions.values():
            if session.unsettled_in.count or session.unsettled_out.count or session.holds:
                found.append(f"{name}: a session of connection {conn.id} is not idle")
    if empty:
        for key, address in core.addresses.items():
            if key.startswith("M") and not key.startswith("M0$") and not address.exchange and not address.targets:
                found.append(f"{name}: address {key}")
    return found


def records(but: list[object] | None = None) -> list[object]:
    """The records of waiting deliveries that are still referred to, but those."""
    gc.collect()
    known = {id(record) for record in but or ()}
    return [each for each in gc.get_objects() if isinstance(each, Queued | Branch) and id(each) not in known]
