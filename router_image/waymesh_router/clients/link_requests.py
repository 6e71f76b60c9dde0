"""Converts the attach of a client to the request that policy checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_router.core.addresses.keys import bare_address, names_management, own_management
from waymesh_router.core.attaching import FALLBACK_CAPABILITY
from waymesh_router.core.link_routing.rewriting import COORDINATOR, DYNAMIC_ADDRESS
from waymesh_router.policy.links import LinkRequest

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach

_MAX_FORMS = 8


def link_request(attach: Attach, router_id: str, management: bool) -> LinkRequest:
    """The parts of an attach that policy checks. `management`: whether the client may write to management agents."""
    receiver = bool(attach.role)
    terminus = attach.remote_terminus
    if terminus is None or terminus.kind == "other":
        return LinkRequest(receiver, unnamed=True)
    if terminus.kind == "coordinator":
        return LinkRequest(receiver, (COORDINATOR,))
    capabilities = {str(capability) for capability in terminus.capabilities or ()}
    dynamic = bool(terminus.dynamic)
    text = (terminus.dynamic_node_properties or {}).get(DYNAMIC_ADDRESS) if dynamic else terminus.address
    forms = forms_of(text) if type(text) is str else ()
    beside = terminus.address if dynamic else None  # 3.5.3 forbids one, but a container could use it
    named = beside is not None and beside != ""
    more = forms_of(beside) if named and type(beside) is str else ()
    empty = text is None or text == "" or (type(text) is str and not bare_address(text))
    return LinkRequest(
        receiver,
        (() if empty else forms) + more,
        dynamic,
        anonymous=empty and not receiver and not dynamic,
        unnamed=(not forms and not empty)
        or (empty and (not dynamic if receiver else dynamic))
        or (named and not more),
        waypoint=any(name.startswith("qd.waypoint") for name in capabilities),
        fallback=FALLBACK_CAPABILITY in capabilities,
        other_management=management and not receiver and type(text) is str and of_other_router(text, router_id),
    )


def forms_of(text: str) -> tuple[str, ...]:
    """The forms of an address on its path: each router, beginning with this one, removes a scheme or a slash.

    Empty if there are more than _MAX_FORMS.
    """
    forms = [bare_address(text)]
    while (further := bare_address(forms[-1])) != forms[-1]:
        if len(forms) == _MAX_FORMS:
            return ()
        forms.append(further)
    return tuple(forms)


def of_other_router(text: str, router_id: str) -> bool:
    """Whether an address is that of the management agent of another router."""
    return names_management(text) and not own_management(text, router_id)
