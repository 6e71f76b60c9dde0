"""Address texts of clients and messages, and the keys under which the core and the mesh know them.

A key's first character is its class: `M` mobile (then one phase character), `L` local, `R` router, `T` topological.
`C` and `D` are prefixes of link routes in and out, `E` and `F` patterns. `A`, which only this router knows: messages of
anonymous senders to a link-routed address.
Source: inter-router.md "Address keys", AMQP Mapping "Addresses and Address Formats".
"""

from __future__ import annotations

from waymesh_router.core.addresses.patterns import prefix_pattern

MOBILE = "M"
LOCAL = "L"
ROUTER = "R"
TOPOLOGICAL = "T"
RELAYED = "A"
LINK_ROUTES = ("C", "D", "E", "F")
MANAGEMENT = "$management"
_OF_ROUTERS = ("_local/", "_topo/", "_edge/")
_PREFIX = {"in": "C", "out": "D"}
_PATTERN = {"in": "E", "out": "F"}


def bare_address(text: str) -> str:
    """The address without a scheme and host: `amqp:/x`, `amqp://host:port/x` and `/x` all mean `x`."""
    if text.startswith(("amqp:", "amqps:")):
        text = text[text.index(":") + 1 :]
        if text.startswith("//"):
            slash = text.find("/", 2)
            return text[slash + 1 :] if slash >= 0 else ""
        return text[1:] if text.startswith("/") else text
    return text[1:] if text.startswith("/") else text


def address_key(text: str, router_id: str, phase: str = "0") -> str:
    """The key of an address text, seen from the router `router_id`.

    `_topo/0/<other>/x` gives the other router's key: the rest of the address matters only there.
    """
    text = bare_address(text)
    if text.startswith("_local/"):
        return LOCAL + text[7:]
    if text.startswith("_topo/"):
        parts = text.split("/", 3)
        if len(parts) == 4:
            _, area, router, rest = parts
            if area in ("0", "all"):
                if router == "all":
                    return TOPOLOGICAL + rest
                return LOCAL + rest if router == router_id else ROUTER + router
    return MOBILE + phase + text


def names_management(text: str) -> bool:
    """Whether an address text names the management of a router, this one or another."""
    text = bare_address(text)
    return text == MANAGEMENT or (text.startswith(_OF_ROUTERS) and MANAGEMENT in text)


def key_name(key: str) -> str:
    """The address without class and phase."""
    return key[2:] if key.startswith(MOBILE) else key[1:]


def link_route_key(direction: str, prefix: str | None, pattern: str | None) -> str:
    """The key of a link route `in` or `out`, which has either a prefix or a pattern."""
    return f"{_PREFIX[direction]}{prefix}" if prefix else f"{_PATTERN[direction]}{pattern}"


def link_route_pattern(key: str) -> str:
    """The pattern of a link route's key."""
    return prefix_pattern(key[1:]) if key[0] in "CD" else key[1:]


def outgoing_route(key: str) -> bool:
    """Whether a link route's key is for links out to clients: for receivers."""
    return key[0] in "DF"
