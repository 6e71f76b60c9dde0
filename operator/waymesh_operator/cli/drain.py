"""`waymesh drain`: make a router hand its clients over to the other routers, and wait until it has."""

from __future__ import annotations

import time

from waymesh_operator.router_entities.names import ROUTER, Entity
from waymesh_operator.routers.management import LiveClient, connect, read_entities, set_draining

from .cluster import Where, bus

POLL_S = 0.5
GRACE_S = 10.0
"""How long after its time-out a router may take to report that it is drained."""


def drain_pod(where: Where, pod: str, timeout_s: int, undo: bool, wait: bool) -> int:
    """Like `drain_at`, for the router of a pod."""
    with bus(where, pod) as (name, url):
        return drain_at(name, url, timeout_s, undo, wait)


def drain_at(name: str, url: str, timeout_s: int, undo: bool, wait: bool) -> int:
    """Drain the router whose management is at the URL; with `undo`, take it back into service.

    Returns 0 when it is drained (or serves again), 1 on time-out. Raises WaymeshError.
    """
    client = connect(url, 10.0)
    try:
        set_draining(client, _router(client).name, None if undo else timeout_s)
        print(f"{name} {'serves again' if undo else 'drains'}")
        return 0 if undo or not wait or _drained(client, name, timeout_s) else 1
    finally:
        client.close()


def _drained(client: LiveClient, name: str, timeout_s: int) -> bool:
    end, printed = time.monotonic() + timeout_s + GRACE_S, -1
    while time.monotonic() < end:
        attributes = _router(client).attributes
        unsettled = int(attributes.get("unsettledDeliveries") or 0)
        if attributes.get("drainStatus") == "drained":
            print(f"{name} is drained" + (f"; {unsettled} deliveries were not settled in time" if unsettled else ""))
            return True
        if unsettled != printed:
            print(f"{name}: {unsettled} deliveries unsettled")
            printed = unsettled
        time.sleep(POLL_S)
    print(f"{name} is not drained")
    return False


def _router(client: LiveClient) -> Entity:
    (router,) = read_entities(client, (ROUTER,))
    return router
