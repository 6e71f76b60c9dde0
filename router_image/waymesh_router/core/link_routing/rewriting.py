"""Rewrites attaches of routed links in both directions. Termini are forwarded as bytes.

Exception: if an entity adds or removes a prefix, the address in one terminus changes toward the container.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waymesh_amqp.codec_decode import decode_value
from waymesh_amqp.codec_encode import encode
from waymesh_amqp.codec_values import Raw, Symbol
from waymesh_amqp.performatives import Attach
from waymesh_router.core.addresses.keys import MANAGEMENT, bare_address
from waymesh_router.core.forwarding.annotations import encoded_map, split_map
from waymesh_router.core.link_routing.route_candidates import ClientLink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waymesh_amqp.performatives import Terminus
    from waymesh_router.core.link_routing.routes import LinkRoute

COORDINATOR = "$coordinator"
"""Address for the link routes of transaction coordinators. Routing chapter "Creating a Link Route"."""
DYNAMIC_ADDRESS = "x-opt-qd.address"
"""Dynamic-node property with the address by which a dynamic terminus is routed."""
TEMPORARY = ("temporary-queue", "temporary-topic")
"""Capabilities of a terminus whose node a container created on request."""
_OWN = ("_local/", "_topo/", "_edge/")


ROUTE_ADDRESS = Symbol("x-opt-waymesh.route-address")
"""Link property between routers: the address that routes an attach without an address."""
CLIENT_LINK = Symbol("x-opt-waymesh.client-link")
"""Link property between routers: whose terminus the link uses, as a list of the fields of ClientLink."""
_BETWEEN_ROUTERS = (ROUTE_ADDRESS, CLIENT_LINK)
_PREFIX = b"x-opt-waymesh."


def route_address(attach: Attach) -> str | None:
    """The address that routes an attach; None if the attach is never routed.

    An attach without an address (null, a dynamic terminus, a terminus type that only the container knows, the lookup
    of a subscription by link name) has the empty address, which only the pattern `#` matches.
    """
    terminus = attach.remote_terminus
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


def is_dynamic_source(attach: Attach) -> bool:
    """Whether a receiver requests a dynamic address without naming a link route."""
    return attach.role and attach.source is not None and attach.source.kind == "source" and attach.source.dynamic


def added_routing_address(attach: Attach) -> str | None:
    """The routing address that the previous router added to an attach without an address."""
    text = attach.properties.get(ROUTE_ADDRESS) if isinstance(attach.properties, dict) else None
    return text if isinstance(text, str) else None


def announced_client(attach: Attach) -> ClientLink | None:
    """Whose terminus the link uses, as the previous router says; None if it does not."""
    announced = attach.properties.get(CLIENT_LINK) if isinstance(attach.properties, dict) else None
    if not isinstance(announced, list) or len(announced) != 2 or not all(isinstance(text, str) for text in announced):
        return None
    owner, name = announced
    return None if ":" in owner or "|" in owner else ClientLink(owner, name)


def is_temporary(attach: Attach) -> bool:
    """Whether a container created the node of the terminus. The node may be removed, or not known here yet."""
    terminus = attach.remote_terminus
    return terminus is not None and any(str(c) in TEMPORARY for c in terminus.capabilities or ())


def outlives_connection(attach: Attach) -> bool:
    """Whether the container must keep the terminus, so that the link can be resumed later. Spec: 3.5.5."""
    terminus = attach.remote_terminus
    if terminus is None or terminus.kind not in ("source", "target"):
        return False
    return bool(terminus.timeout) or str(terminus.expiry_policy) in ("connection-close", "never")


def upstream_attach(
    attach: Attach,
    name: str,
    entity: LinkRoute | None,
    routing_address: str | None,
    client: ClientLink | None = None,
) -> Attach:
    """The attach to the next hop. Toward a router: `routing_address`, to add if the attach has none, and `client`."""
    source, target = attach.source, attach.target
    if entity is not None and (entity.adds or entity.removes):
        if attach.role:
            source = _readdressed(source, entity.removes, entity.adds)
        else:
            target = _readdressed(target, entity.removes, entity.adds)
    upstream = _copy(attach, name, source, target)
    announced: dict[Symbol, object] = {} if routing_address is None else {ROUTE_ADDRESS: routing_address}
    if client is not None:
        announced[CLIENT_LINK] = [client.owner, client.name]
    given = attach.properties if isinstance(attach.properties, dict) else {}
    if announced or any(key in given for key in _BETWEEN_ROUTERS):
        upstream.properties = _properties_with(attach, announced)
    return upstream


def _properties_with(attach: Attach, announced: Mapping[Symbol, object]) -> Raw | None:
    """The link properties, with these for the next router and no others of routers. Other properties stay as bytes."""
    given = attach.raw.get("properties")
    others, count, found, _ = (b"", 0, [], 0) if given is None else split_map(bytes(given), 0, _PREFIX)
    pairs = [pair for pair in found if decode_value(pair, 0, len(pair), 0)[0] not in _BETWEEN_ROUTERS]
    pairs += [encode(key) + encode(value) for key, value in announced.items()]
    count += len(pairs)
    return Raw(encoded_map(others + b"".join(pairs), count)) if count else None


def made_address(attach: Attach) -> str:
    """The address of a dynamic node, from the answer to the attach; "" for none."""
    terminus = attach.target if attach.role else attach.source
    text = None if terminus is None else terminus.address
    return bare_address(text) if isinstance(text, str) else ""


def backward_attach(attach: Attach, name: str, entity: LinkRoute | None) -> Attach:
    """The answer to the previous hop, from the answer of the next hop, whose role is the opposite.

    The prefix that the entity removes is added to every address, also to that of a node that the container created: a
    link to the node then uses the same entity, which removes the prefix again. qdrouterd does the same.
    """
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
    """The terminus with one prefix removed from its address and another one added. If the address equals the prefix, it
    stays: otherwise the terminus would become anonymous."""
    if terminus is None or terminus.kind == "coordinator" or not isinstance(terminus.address, str):
        return terminus
    address = with_ + terminus.address.removeprefix(without)
    return replace(terminus, address=address) if address else terminus
