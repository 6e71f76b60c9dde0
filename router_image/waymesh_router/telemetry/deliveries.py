"""Records of sampled deliveries."""

from __future__ import annotations

import cython

from waymesh_router.core.delivery_sampling import Sample
from waymesh_router.core.forwarding.annotations import Annotations
from waymesh_router.core.model import RouterLink
from waymesh_router.telemetry.lines import Row
from waymesh_router.telemetry.rows import named

ENDPOINT = cython.declare(cython.int, 0)


def delivery_rows(sample: Sample, outcome: str, at_us: cython.longlong, router_id: str) -> list[Row]:
    """Kind `delivery`: half `in` where it entered the mesh, half `out` for each consumer here."""
    found: list[Row] = []
    if sample.here:
        found.append(_row(sample, None, outcome, at_us, router_id))
    out: RouterLink
    for out in sample.outs:
        if out.kind == ENDPOINT:
            found.append(_row(sample, out, outcome, at_us, router_id))
    return found


def _row(sample: Sample, out: RouterLink | None, outcome: str, at_us: cython.longlong, router_id: str) -> Row:
    """Half `in` if there is no link `out`."""
    annotations: Annotations = sample.annotations
    name, phase = named(sample.address)
    return (
        annotations.sid,
        "in" if out is None else "out",
        name,
        phase,
        sample.priority,
        annotations.ingress or router_id,  # an edge router writes none
        None if out is None else router_id,
        None if out is None else "|".join((*annotations.trace, router_id)),
        len(annotations.trace),
        sample.size,
        sample.streaming,
        sample.link.id,
        None if out is None else out.id,
        _container(sample.link) if out is None else None,
        None if out is None else _container(out),
        outcome,
        sample.presettled,
        sample.sent_us - sample.began_us if sample.sent_us else None,
        at_us - sample.began_us,
        annotations.weight,
    )


def _container(link: RouterLink) -> str | None:
    """The container-id of a link's peer."""
    remote = link.connection.remote
    return None if remote is None else str(remote.container_id)
