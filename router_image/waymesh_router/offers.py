"""What a listener's clients are told in the open of the containers behind it: capabilities, and how nodes are named.

JMS clients look there before they use shared subscriptions, delayed delivery or anonymous producers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.core.linkroutes import LinkRoutes

NAMING = ("queue-prefix", "topic-prefix")
"""Properties of a container's open that its clients go by; the others are about the container itself."""


def pass_on(settings: ConnectionSettings, attrs: Mapping[str, Any], linkroutes: LinkRoutes) -> None:
    """Add to a client's open what its listener configures, and what the containers of `routeAddress` offer.

    Of several containers, only what all of them offer.
    """
    offered = [str(attrs.get("openCapabilities") or "").split()]
    opens = linkroutes.opens(attrs["routeAddress"]) if attrs.get("routeAddress") else []
    if opens:
        first, *others = [[str(c) for c in remote.offered_capabilities or ()] for remote in opens]
        offered.append([c for c in first if all(c in other for other in others)])
        properties = [remote.properties if isinstance(remote.properties, dict) else {} for remote in opens]
        for name in NAMING:
            values = {str(p.get(name)) for p in properties}
            if len(values) == 1 and properties[0].get(name) is not None:
                settings.properties.setdefault(Symbol(name), properties[0][name])
    for capability in (c for found in offered for c in found):
        if capability not in settings.offered_capabilities:
            settings.offered_capabilities.append(Symbol(capability))
