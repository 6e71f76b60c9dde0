"""Running routers over AMQP management: what they hold and see, and changes to it."""

from __future__ import annotations

from .client import LiveClient, connect
from .entities import apply_entity, read_entities, set_draining
from .secure import KeyFolder, Reach, SecureReach
from .views import AddressView, RouterView, read_addresses, read_consumers, read_known, read_router, unsettled

__all__ = [
    "AddressView",
    "KeyFolder",
    "LiveClient",
    "Reach",
    "RouterView",
    "SecureReach",
    "apply_entity",
    "connect",
    "read_addresses",
    "read_consumers",
    "read_entities",
    "read_known",
    "read_router",
    "set_draining",
    "unsettled",
]
