"""Requests of an edge router to services of its interior router, and the replies.

Source: protocol/edge.md "Links of a new active uplink".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_router.core.edge.uplink_links import RETRY_S, UplinkLinks, source, target
from waymesh_router.core.link_kinds import CLOSEST
from waymesh_router.core.model import Address

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.forwarding.own_messages import OwnMessages
    from waymesh_router.core.model import RouterLink


class UplinkService:
    """A sender for requests, and a receiver with a dynamic source for replies.

    `on_ready` is called when both are attached; `on_reply` with each reply.
    """

    def __init__(
        self,
        links: UplinkLinks,
        messages: OwnMessages,
        address: str,
        credit: int,
        on_ready: Callable[[], None],
        on_reply: Callable[[bytes], None],
    ) -> None:
        self.reply_to = ""
        self._links = links
        self._retry_at = math.inf
        self._messages = messages
        self._to = address
        self._credit = credit
        self._on_ready = on_ready
        self._requests: RouterLink | None = None
        self._replies: RouterLink | None = None
        self._address = Address(f"L{address}", CLOSEST)
        self._address.subscriber = lambda message, _link: on_reply(message)

    @property
    def ready(self) -> bool:
        """Whether a request can be sent."""
        return self._requests is not None and self._requests.usable() and bool(self.reply_to)

    def start(self) -> None:
        """The uplink is active: attach the missing links. Raises AmqpError."""
        self._retry_at = math.inf
        session = self._links.core_session()
        if self._requests is None:
            self._requests = self._links.sender(self, session, None, target(self._to))
        if self._replies is None:
            self._replies = self._links.receiver(self, session, source(dynamic=True), None, self._credit)
            self._replies.address = self._address

    def stop(self) -> None:
        """The uplink is lost."""
        self._requests = self._replies = None
        self.reply_to = ""
        self._retry_at = math.inf

    def tick(self) -> None:
        """Attach a lost link again after a while. Raises AmqpError if the interior router has no room."""
        if self._links.now >= self._retry_at and self._links.usable:
            self.start()

    def send(self, message: bytes) -> None:
        """Send a request; only if `ready`."""
        assert self._requests is not None
        self._messages.send_on(self._requests, self._address, message)

    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The interior router accepted a link."""
        if link is self._replies and answer.source is not None:
            self.reply_to = str(answer.source.address or "")
        if self.ready:
            self._on_ready()

    def lost(self, link: RouterLink) -> None:
        """The interior router refused or ended a link: do not use the service until it is attached again."""
        if link is self._requests:
            self._requests = None
        elif link is self._replies:
            self._replies, self.reply_to = None, ""
        else:
            return
        self._retry_at = min(self._retry_at, self._links.now + RETRY_S)
