"""Running routers over AMQP management: what they hold and see, and changes to it."""

from __future__ import annotations

from .client import LiveClient, connect
from .entities import apply_entity, read_entities
from .views import AddressView, RouterView, read_addresses, read_router, unsettled

__all__ = [
    "AddressView",
    "LiveClient",
    "RouterView",
    "apply_entity",
    "connect",
    "read_addresses",
    "read_entities",
    "read_router",
    "unsettled",
]
