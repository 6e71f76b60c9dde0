"""Address spaces of tenants: an address `x` of a client of a listener with `multiTenant` is `<tenant>/x` in the mesh.
The tenant is the vhost of the connection.

The tenant's name is added after the check that the text is not an address reserved for routers. So a client's text can
only select an address within its own space.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_router.core.addresses.keys import (
    LOCAL,
    MANAGEMENT,
    OF_EDGES,
    UPLINK_KEY,
    bare_address,
    is_pattern,
    of_routers,
)
from waymesh_router.core.addresses.reserved import RESERVED
from waymesh_router.core.attaching import TEMPORARY_NODE, Refusal
from waymesh_router.core.link_routing.rewriting import DYNAMIC_ADDRESS

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach, Terminus

_LOCAL = "_local/"
OUTSIDE = "is not an address of the vhost's address space"


def in_space(tenant: str, text: str, sends: bool, manages: bool = False) -> str | None:
    """The address in the mesh for a client's address; None if the client may not use it.

    `_local/x` is an address of the space at this router. Of the other addresses reserved for routers, a tenant may only
    send to unguessable reply addresses and, if it `manages`, to the management agent of its router, which shows each
    tenant only its own objects.
    """
    bare = bare_address(text)
    if not of_routers(bare):
        return f"{tenant}/{bare}"
    if bare.startswith(_LOCAL) and _is_free(bare.removeprefix(_LOCAL)):
        return f"{_LOCAL}{tenant}/{bare.removeprefix(_LOCAL)}"
    return bare if sends and (is_temporary(bare) or (manages and bare == MANAGEMENT)) else None


def _is_free(local: str) -> bool:
    """Whether the rest of a local address is none of an agent or of the routers' protocol."""
    key = LOCAL + local
    return bool(local) and MANAGEMENT not in local and key not in RESERVED and not key.startswith(UPLINK_KEY)


def reply_in_space(tenant: str, text: Any) -> str | None:
    """The reply address of a tenant's request; None if the tenant may not send to it."""
    return in_space(tenant, text, True) if isinstance(text, str) and tenant and bare_address(text) else None


def is_temporary(bare: str) -> bool:
    """Whether a bare address is that of a dynamic source, which is unguessable."""
    if bare.startswith(OF_EDGES):
        return bare.removeprefix(OF_EDGES).partition("/")[2].startswith(TEMPORARY_NODE)
    area, _, rest = bare.removeprefix("_topo/").partition("/")
    router, _, node = rest.partition("/")
    return bare.startswith("_topo/") and area == "0" and router != "all" and node.startswith(TEMPORARY_NODE)


def attach_in_space(tenant: str, attach: Attach, manages: bool) -> Attach:
    """The attach of a client with its address, or that of the dynamic node, in the space. Raises Refusal.

    `manages`: the client has a right to management.
    """
    if not tenant:
        raise Refusal(NOT_ALLOWED, "the connection has no address space")
    terminus = attach.remote_terminus
    if terminus is None or terminus.kind not in ("source", "target"):
        return attach
    changed = replace(terminus, address=_inside(tenant, terminus.address, not attach.role, manages))
    wanted = terminus.dynamic_node_properties
    if wanted and DYNAMIC_ADDRESS in wanted:
        address = _inside(tenant, wanted[DYNAMIC_ADDRESS], not attach.role, False)
        changed.dynamic_node_properties = {**wanted, DYNAMIC_ADDRESS: address}
    return replace(attach, source=changed) if attach.role else replace(attach, target=changed)


def _inside(tenant: str, text: Any, sends: bool, manages: bool) -> str | None:
    """The address of a terminus in the space; None for a terminus without an address. Raises Refusal."""
    if text is None or (isinstance(text, str) and not bare_address(text)):
        return None
    address = in_space(tenant, text, sends, manages) if isinstance(text, str) else None
    if address is None:
        raise Refusal(NOT_ALLOWED, f"{text} {OUTSIDE}")
    return address


def as_written(tenant: str, terminus: Terminus | None) -> Terminus | None:
    """The terminus for the client: addresses of the space without the tenant's name."""
    if not tenant or terminus is None or terminus.kind not in ("source", "target"):
        return terminus
    head = tenant + "/"
    local, shown = _LOCAL + head, terminus
    if isinstance(terminus.address, str) and terminus.address.startswith(head):
        shown = replace(shown, address=terminus.address.removeprefix(head))
    elif isinstance(terminus.address, str) and terminus.address.startswith(local):
        shown = replace(shown, address=_LOCAL + terminus.address.removeprefix(local))
    made = (terminus.dynamic_node_properties or {}).get(DYNAMIC_ADDRESS)
    if isinstance(made, str) and made.startswith(head):
        properties = {**(terminus.dynamic_node_properties or {}), DYNAMIC_ADDRESS: made.removeprefix(head)}
        shown = replace(shown, dynamic_node_properties=properties)
    return shown


def serves(tenant: str, key: str) -> bool:
    """Whether a link route with this key, which matches an address of the space, belongs to the tenant.

    Patterns treat `.` and `/` as equal. So `b/x` of the tenant `a` matches a link route for `a.b`, and `x` of the
    tenant `a.b` matches one with the prefix `a`. Both belong to another tenant.
    """
    head = tenant + "/"
    text = key[1:]
    if not is_pattern(key):
        return text == tenant or text.startswith(head)
    literal = text[: min(at for at in (text.find("*"), text.find("#"), len(text)) if at >= 0)]
    size = min(len(literal), len(head))
    return literal[:size] == head[:size]
