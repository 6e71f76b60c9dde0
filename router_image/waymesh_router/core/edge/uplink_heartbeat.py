"""Heartbeats of an edge router, and detection of an interior router that hangs.

Source: protocol/edge.md "Heartbeats".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from waymesh_router.core.edge.messages import (
    HEARTBEAT_ADDRESS,
    HEARTBEAT_FIRST_S,
    HEARTBEAT_INTERVAL_S,
    encode_heartbeat,
)
from waymesh_router.core.edge.uplink_links import UplinkLinks, target
from waymesh_router.core.link_kinds import CLOSEST
from waymesh_router.core.model import Address

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.own_messages import OwnMessages
    from waymesh_router.core.model import RouterLink

MAX_MISSED = 3
"""Heartbeats in a row without credit and without an octet from the interior router, after which it counts as lost."""


class UplinkHeartbeat:
    """The interior router issues credit for the next heartbeat with each heartbeat that it handles. If it issues none
    and sends nothing else, it hangs. Other data counts, because on a slow line credit can follow after much data."""

    def __init__(self, context: CoreContext, links: UplinkLinks, messages: OwnMessages) -> None:
        self._context = context
        self._links = links
        self._messages = messages
        self._address = Address(f"L{HEARTBEAT_ADDRESS}", CLOSEST)
        self._link: RouterLink | None = None
        self._due_at = math.inf
        self._beats = 0
        self._missed = 0
        self._octets = 0  # octets from the interior router at the last check

    def start(self) -> None:
        """The uplink is active. Raises AmqpError."""
        self._due_at, self._missed = math.inf, 0
        self._link = self._links.sender(self, self._links.core_session(), None, target(HEARTBEAT_ADDRESS))

    def stop(self) -> None:
        """The uplink is lost."""
        self._link, self._due_at = None, math.inf

    def attached(self, _link: RouterLink, _answer: Attach) -> None:
        """The interior router waits for heartbeats."""
        self._due_at = self._context.now + HEARTBEAT_FIRST_S

    def lost(self, link: RouterLink) -> None:
        """The interior router refused or ended the link: attach it again when the next heartbeat is due."""
        if link is self._link:
            self._link, self._due_at = None, self._context.now + HEARTBEAT_INTERVAL_S

    def tick(self) -> bool:
        """Send a heartbeat if one is due. False if the interior router hangs. Raises AmqpError if it has no room."""
        if self._context.now < self._due_at or not self._links.usable:
            return True
        if self._link is None:
            self.start()
            return True
        self._due_at = self._context.now + HEARTBEAT_INTERVAL_S
        if self._link.credit > 0:
            self._missed = 0
            self._messages.send_on(self._link, self._address, encode_heartbeat(self._beats, self._context.router_id))
            self._beats += 1
            return True
        octets = self._links.octets_in
        self._missed = self._missed + 1 if octets == self._octets else 1
        self._octets = octets
        return self._missed < MAX_MISSED
