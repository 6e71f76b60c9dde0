"""Failover lists: the addresses of other routers that a router offers to its clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from waymesh_operator.resources.listener import Listener, scheme_of

LISTED = 8
"""Maximum length of a list. Each open carries it, and the seeds of all routers, which one ConfigMap holds."""


def address(host: str, port: int) -> str:
    """`host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
