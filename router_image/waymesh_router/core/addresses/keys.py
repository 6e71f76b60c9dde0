"""Converts address texts of clients and messages to the keys that the core and the mesh use.

A key's first character is its class: `M` mobile (then one phase character), `L` local, `R` router, `T` topological,
`H` edge router. `C` and `D` are prefixes of link routes (in and out), `E` and `F` are patterns. `A` is local to this
router: messages of anonymous senders to a link-routed address.
Source: inter-router.md "Address keys", AMQP Mapping "Addresses and Address Formats".
"""

from __future__ import annotations

from waymesh_router.core.addresses.patterns import prefix_pattern
from waymesh_schema.address_match import trimmed_match, words_of

MOBILE = "M"
LOCAL = "L"
ROUTER = "R"
TOPOLOGICAL = "T"
EDGE = "H"
RELAYED = "A"
LINK_ROUTES = ("C", "D", "E", "F")
MANAGEMENT = "$management"
ANNOUNCED = (MOBILE, EDGE)
"""Classes of addresses whose consumers are announced to other routers; link routes are announced separately."""
OWN_MANAGEMENT = "_local/$management"
OWN_MANAGEMENT_KEYS = (LOCAL + MANAGEMENT, f"{MOBILE}0{MANAGEMENT}")
"""Keys of the management agent of this router."""
UPLINK_KEY = LOCAL + "_edge"
"""At an edge router: everything that its interior router must deliver. Dispatch uses the same key."""
OF_EDGES = "_edge/"
"""Prefix of the addresses of edge routers; the router's id follows."""
_MAX_LAYERS = 8
_OF_ROUTERS = ("_local/", "_topo/", OF_EDGES)
_PREFIX = {"in": "C", "out": "D"}
_PATTERN = {"in": "E", "out": "F"}


def bare_address(text: str) -> str:
    """The address without scheme and host: `amqp:/x`, `amqp://host:port/x` and `/x` all mean `x`."""
    if text.startswith(("amqp:", "amqps:")):
        text = text[text.index(":") + 1 :]
        if text.startswith("//"):
            slash = text.find("/", 2)
            return text[slash + 1 :] if slash >= 0 else ""
        return text[1:] if text.startswith("/") else text
    return text[1:] if text.startswith("/") else text


def address_key(text: str, router_id: str, phase: str = "0") -> str:
    """The key of an address text, seen from the router `router_id`.

    `_topo/0/<other>/x` gives the key of the other router, `_edge/<id>/x` that of the edge router: only that router
    interprets the rest of the address.
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
    if text.startswith("_edge/"):
        parts = text.split("/", 2)
        if len(parts) == 3 and parts[1]:
            return EDGE + parts[1]
    return MOBILE + phase + text


def of_routers(text: str) -> bool:
    """Whether a bare address is reserved for routers; configuration does not change such addresses."""
    return text == MANAGEMENT or text.startswith(_OF_ROUTERS)


def names_management(text: str) -> bool:
    """Whether an address text means the management agent of this router or of another one.

    Each router on the path removes a scheme or a slash from the beginning of the text. Therefore the check ignores all
    of them. A text with more than `_MAX_LAYERS` of them counts as the address of an agent.
    """
    if MANAGEMENT not in text:
        return False
    for _ in range(_MAX_LAYERS):
        bare = bare_address(text)
        if bare == text:
            break
        text = bare
    else:
        return True
    return text == MANAGEMENT or (text.startswith(_OF_ROUTERS) and MANAGEMENT in text)


def own_management(text: str, router_id: str) -> bool:
    """Whether an address text means the management agent of the router `router_id`."""
    return address_key(text, router_id) in OWN_MANAGEMENT_KEYS


def is_management_key(key: str) -> bool:
    """Whether the key belongs to a management agent, of this router or of another one."""
    return key in OWN_MANAGEMENT_KEYS or key.startswith((ROUTER, EDGE))


def key_name(key: str) -> str:
    """The address in the key, without class and phase."""
    return key[2:] if key.startswith(MOBILE) else key[1:]


def link_route_key(direction: str, prefix: str | None, pattern: str | None) -> str:
    """The key of a link route with direction `in` or `out`, which has either a prefix or a pattern."""
    return _PREFIX[direction] + trimmed_match(prefix) if prefix else _PATTERN[direction] + trimmed_match(pattern or "")


def connection_route_key(direction: str, pattern: str) -> str:
    """The key of a link route that belongs to a connection: one for all that begins with some words is a prefix.

    Edge routers announce their prefixes in this form. Source: protocol/edge.md "Link routes".
    """
    prefix = pattern[:-2] if pattern.endswith(("/#", ".#")) else ""
    plain = trimmed_match(prefix) and not any(word in ("*", "#") for word in words_of(prefix))
    return link_route_key(direction, prefix if plain else None, pattern)


def link_route_pattern(key: str) -> str:
    """The pattern in the key of a link route."""
    return key[1:] if is_pattern(key) else prefix_pattern(key[1:])


def is_pattern(key: str) -> bool:
    """Whether the key of a link route has a pattern and not a prefix."""
    return key[0] in "EF"


def outgoing_route(key: str) -> bool:
    """Whether the key belongs to a link route with direction `out`: for receivers."""
    return key[0] in "DF"
