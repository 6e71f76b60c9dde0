"""What resources say about themselves: `.status` from what is desired and what the live routers tell. Pure."""

from __future__ import annotations

from .conditions import Condition
from .resources import address_status, autolink_status, broker_status, linkroute_status
from .router import router_status
from .seen import Seen, consumers_by_address

__all__ = [
    "Condition",
    "Seen",
    "address_status",
    "autolink_status",
    "broker_status",
    "consumers_by_address",
    "linkroute_status",
    "router_status",
]
