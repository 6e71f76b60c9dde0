"""The status of what refers to a Router. `before` is always the present `.status` of the same resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.specs import Address, AutoLink, Broker, LinkRoute

from .seen import Seen


def address_status(address: Address, seen: Seen | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of an Address. Without `seen` there is no Router of the name it refers to (all four functions)."""
    raise NotImplementedError


def autolink_status(autolink: AutoLink, seen: Seen | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of an AutoLink."""
    raise NotImplementedError


def linkroute_status(linkroute: LinkRoute, seen: Seen | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of a LinkRoute."""
    raise NotImplementedError


def broker_status(broker: Broker, seen: Seen | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of a Broker."""
    raise NotImplementedError
