"""The failover list of a router's listener: addresses of the other routers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from waymesh_operator.resources.http_listener import scheme_of
from waymesh_operator.resources.router import Listener, Router, router_id

from .addresses import address
from .context import ClusterContext
from .exposure import exposure_name

LISTED = 8
"""Maximum length of a list. Each open carries it, and the seeds of all routers, which one ConfigMap holds."""


def server_urls(
    listener: Listener, ordinal: int, own: Sequence[Iterable[str]], common: Iterable[str]
) -> tuple[str, ...]:
    """Return the URLs for clients of the router with this ordinal: the other routers, the next ordinals first, so that
    clients of different lost routers spread over different routers; then the addresses that lead to any router.

    `own`: for each router that stays, its individual addresses; `common`: those of all routers.
    """
    following = [(ordinal + step) % len(own) for step in range(1, len(own) + 1)]
    others = [place for other in following if other != ordinal for place in own[other]]
    scheme = scheme_of(listener.http, tls=listener.tls)
    places = dict.fromkeys((*others[: LISTED - 1], *common))
    return tuple(f"{scheme}://{place}" for place in places)[:LISTED]


def cluster_urls(router: Router, listener: Listener, ordinal: int, context: ClusterContext) -> tuple[str, ...]:
    """Return the list in a cluster; empty while the addresses for clients outside are unknown.

    Clients of an exposed listener get addresses that are reachable from outside, not names of the cluster's DNS.
    """
    ref, known = router.ref, context.addresses
    ids = [router_id(ref, k) for k in range(router.size)]
    if listener.expose is not None and listener.expose.outside:
        own = [known.get(exposure_name(ref.name, listener.name, one), ()) for one in ids]
        return server_urls(listener, ordinal, own, known.get(exposure_name(ref.name, listener.name), ()))
    domain = f"{ref.namespace}.svc.{context.settings.cluster_domain}"
    names = [[address(f"{one}.{ref.name}-mesh.{domain}", listener.port)] for one in ids]
    return server_urls(listener, ordinal, names, [address(f"{ref.name}.{domain}", listener.port)])
