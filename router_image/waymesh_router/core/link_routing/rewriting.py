"""Attaches of routed links, as they are passed on and back: the bytes of termini stay what they are.

Only where an entity adds or removes a prefix, the address in one terminus is another one towards the container.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waymesh_amqp.performatives import Attach
from waymesh_amqp.types import Raw, Symbol, encode
from waymesh_router.core.addresses.keys import MANAGEMENT, bare_address
from waymesh_router.core.forwarding.annotations import encoded_map, split_map

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Terminus
    from waymesh_router.core.link_routing.routes import LinkRoute

COORDINATOR = "$coordinator"
"""Address under which transaction coordinators are routed. Routing chapter "Creating a Link Route"."""
DYNAMIC_ADDRESS = "x-opt-qd.address"
"""Dynamic-node property that says under which address a dynamic terminus is routed."""
TEMPORARY = ("temporary-queue", "temporary-topic")
"""Capabilities of a terminus: a node that a container made for somebody."""
_OWN = ("_local/", "_topo/")


ROUTE_ADDRESS = Symbol("x-opt-waymesh.route-address")
"""Link property between routers: the address by which an attach is routed that names none."""


def route_address(attach: Attach) -> str | None:
    """The address by which an attach is routed; None for what never is.

    What names no address (a null one, a dynamic terminus, one of a type that only the container knows, a subscription
    that is looked up by its link's name) has the empty one, which only the pattern `#` matches.
    """
    terminus = attach.source if attach.role else attach.target
    if terminus is None:
        return "" if attach.role else None
    if terminus.kind == "coordinator":
        return COORDINATOR
    if terminus.kind == "other":
        return ""
    text = terminus.address
    if terminus.dynamic:
        text = (terminus.dynamic_node_properties or {}).get(DYNAMIC_ADDRESS)
    if text is None:
        return ""
    if not isinstance(text, str):
        return None
    text = bare_address(text)
    return None if text.startswith(_OWN) or text == MANAGEMENT else text


def told_address(attach: Attach) -> str | None:
    """What the router before us says of an attach without an address."""
    text = attach.properties.get(ROUTE_ADDRESS) if isinstance(attach.properties, dict) else None
    return text if isinstance(text, str) else None


def is_temporary(attach: Attach) -> bool:
    """Whether the terminus says that a container made its node. That may be gone, or not known here yet."""
    terminus = attach.source if attach.role else attach.target
    return terminus is not None and any(str(c) in TEMPORARY for c in terminus.capabilities or ())


def outlives_connection(attach: Attach) -> bool:
    """Whether the container is to keep the terminus, so that the link can be resumed later. Spec: 3.5.5."""
    terminus = attach.source if attach.role else attach.target
    if terminus is None or terminus.kind not in ("source", "target"):
        return False
    return bool(terminus.timeout) or str(terminus.expiry_policy) in ("connection-close", "never")


def upstream_attach(attach: Attach, name: str, entity: LinkRoute | None, told: str | None) -> Attach:
    """The attach to the next hop. `told`: what to say to a router of an attach without an address."""
    source, target = attach.source, attach.target
    if entity is not None and (entity.adds or entity.removes):
        if attach.role:
            source = _readdressed(source, entity.removes, entity.adds)
        else:
            target = _readdressed(target, entity.removes, entity.adds)
    upstream = _copy(attach, name, source, target)
    if told is not None or told_address(attach) is not None:
        upstream.properties = _properties_that_tell(attach, told)
    return upstream


def _properties_that_tell(attach: Attach, told: str | None) -> Raw | None:
    """The link's properties with this address for the next router, or without one. All else keeps its bytes."""
    given = attach.raw.get("properties")
    pairs = [] if given is None else [pair for key, _, pair in split_map(bytes(given), 0)[0] if key != ROUTE_ADDRESS]
    if told is not None:
        pairs.append(encode(ROUTE_ADDRESS) + encode(told))
    return Raw(encoded_map(b"".join(pairs), len(pairs))) if pairs else None


def made_address(attach: Attach) -> str:
    """The address of the node that was made for a dynamic terminus, out of the answer to the attach; "" for none."""
    terminus = attach.target if attach.role else attach.source
    text = None if terminus is None else terminus.address
    return bare_address(text) if isinstance(text, str) else ""


def backward_attach(attach: Attach, name: str, entity: LinkRoute | None) -> Attach:
    """The answer to the previous hop, made of that of the next one, whose role is the opposite."""
    source, target = attach.source, attach.target
    if entity is not None and (entity.adds or entity.removes):
        if attach.role:
            target = _readdressed(target, entity.adds, entity.removes)
        else:
            source = _readdressed(source, entity.adds, entity.removes)
    return _copy(attach, name, source, target)


def _copy(attach: Attach, name: str, source: Terminus | None, target: Terminus | None) -> Attach:
    return Attach(
        name=name,
        handle=0,
        role=attach.role,
        snd_settle_mode=attach.snd_settle_mode,
        rcv_settle_mode=attach.rcv_settle_mode,
        source=source,
        target=target,
        incomplete_unsettled=attach.incomplete_unsettled,
        max_message_size=attach.max_message_size,
        **attach.raw,  # type: ignore[arg-type]
    )


def _readdressed(terminus: Terminus | None, without: str, with_: str) -> Terminus | None:
    """The terminus with one prefix taken off its address and another one put before it."""
    if terminus is None or terminus.kind == "coordinator" or not isinstance(terminus.address, str):
        return terminus
    return replace(terminus, address=with_ + terminus.address.removeprefix(without))
