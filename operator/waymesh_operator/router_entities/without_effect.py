"""Resources that a definition accepts although they cannot work, or do more than their author may expect: a sentence
for users, empty if there is nothing to say.

The definitions do not refuse them: API servers before Kubernetes 1.30 would then also refuse the status of those that
exist already.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from waymesh_operator.resources.dependents import Address, LinkRoute
from waymesh_operator.resources.router import Router
from waymesh_schema.address_match import matches_all

_OF_ROUTERS = ("$management", "_local", "_topo", "_edge")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?")


def reserved_address(address: Address) -> str:
    """Addresses of the routers themselves, whose messages no configuration distributes."""
    first = address.match.strip("/").partition("/")[0]
    if first not in _OF_ROUTERS:
        return ""
    return f"{address.match} has no effect: addresses of {first} are those of the routers themselves"


def takes_everything(route: LinkRoute) -> str:
    """What a LinkRoute with `#` alone does: it works, but link routes come before addresses."""
    if not matches_all(route.match):
        return ""
    links = {"in": "senders, also those without an address", "out": "receivers, also those with a dynamic source"}
    taken = ", and ".join(links[way] for way in route.directions)
    return (
        f"valid, but {route.match} matches every address: the container gets the links of {taken}, unless another "
        "LinkRoute matches better; Addresses have no effect on these links"
    )


def listeners_without_users(router: Router) -> str:
    """Listeners at which no client can log in, because there are no users with passwords."""
    if any(listener.users for listener in router.listeners):
        return ""
    closed = [item for item in router.listeners if item.auth in ("plain", "scram") and not item.token_profile]
    if not closed:
        return ""
    names = ", ".join(f"{item.name} (auth {item.auth})" for item in closed)
    return f"no client can log in at listener {names}: set users"


def unusable_endpoint(url: str) -> str:
    """The URL of an S3 service."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"endpoint {url}: {error}"
    if parts.query or parts.fragment or parts.username is not None:
        return f"endpoint {url}: a URL of a service has no user, query or fragment"
    return "" if ":" in host or _HOST.fullmatch(host) else f"endpoint {url}: {host or 'nothing'} is no host"
